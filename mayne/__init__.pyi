"""Where each name of mayne comes from, for type checkers, editors and `mayne.__init__`, which reads it.

A star stands for all that a package lists in its ``__all__``.
"""

import contextlib

from ddp import *
from dynamics import *
from viz import *

from mayne import (
    arm as arm,
    cartpole as cartpole,
    constraints as constraints,
    costs as costs,
    durations as durations,
    gaits as gaits,
    interop as interop,
    legged as legged,
    legs as legs,
    linearization as linearization,
    obstacles as obstacles,
    pendulum as pendulum,
    quadrotor as quadrotor,
    quadruped as quadruped,
    schedule as schedule,
    soft as soft,
    strides as strides,
)
from problems import (
    ALL as ALL,
    Driven as Driven,
    Entry as Entry,
    LiftedConstraint as LiftedConstraint,
    LiftedTerm as LiftedTerm,
    Walking as Walking,
    find as find,
    free_start as free_start,
    lifted as lifted,
    unlifted as unlifted,
    simulate as simulate,
    simulate_receding as simulate_receding,
)

__version__: str

def _telling() -> contextlib.AbstractContextManager[None]: ...
