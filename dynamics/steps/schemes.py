"""Schemes of steps: the kernels that step, linearise and contract knots, one record for each kind of steps.

A scheme is all that a system needs to know of its steps. One that is listed in `INTEGRATORS` serves robots without
contacts; `TOUCHING` serves phases of contacts.

==================  ====================  =========================  =========================================
steps               next state            first order                second order
==================  ====================  =========================  =========================================
without contacts    advance               linearization              second_order, hessians; lane_contraction
under contacts      advance, held_steps   contact_linearization      second_order, hessians, hessian_blocks
explicit            advance, runge_kutta  runge_kutta_linearization  runge_kutta_curvature
implicit            implicit_steps        implicit_linearization     implicit_curvature
the loop over them  rollouts              knots                      knots
==================  ====================  =========================  =========================================
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ddp.machine.fields import Fields
from ddp.protocols import Array
from dynamics.robots.tree import Tree
from dynamics.steps import (
    advance,
    contact_linearization,
    hessian_blocks,
    hessians,
    implicit_curvature,
    implicit_linearization,
    implicit_steps,
    linearization,
    runge_kutta,
    runge_kutta_curvature,
    runge_kutta_linearization,
)
from dynamics.steps.knots import Contractor, expansion
from dynamics.steps.modes import Layout, explicit_layout, free_layout, whole_layout
from dynamics.steps.rollouts import Roller, roller
from dynamics.steps.runge_kutta import NONE


class Scheme(NamedTuple):
    """Kernels of one kind of steps; all are given the address of `Modes` first, and memory to work in.

    roller: steps and rollouts.
    linearize ``(modes, memory, schedule, X, U, A, B, record)``: first order, and what records keep of it.
    complete ``(modes, A, B, record)``: the rest of records, for the second order; None if there is none.
    contractor: second order.
    layout ``(nq, nv, nu, nc, stages)``: of records.
    memory: that ``linearize`` works in.
    in_blocks: second order as blocks; None where `lane_contraction` has it, or nothing.
    method: a table, of explicit steps see runge_kutta.py, of implicit ones implicit_steps.py.   stages: of it.
    halves: whether δq' = δq + h δv' but for joints whose motions do not commute, which makes sweeps faster.
    batched: whether the contractor takes many knots at once faster than one by one.
    holds: whether steps end with all loops of a robot closed, which are held where each stage ends.
    """

    roller: Roller
    linearize: Any
    complete: Any
    contractor: Contractor
    layout: Callable[[int, int, int, int, int], Layout]
    memory: tuple[type[Fields], ...]
    method: Array = NONE
    stages: int = 0
    halves: bool = False
    batched: bool = True
    holds: bool = False
    in_blocks: Contractor | None = None

    def room(self, tree: Tree, layout: Layout, nu: int, m: int, nc: int) -> int:
        """Numbers of memory that ``linearize`` takes, for at most m contacts and nc forces."""
        counts = {"nu": nu, "ld": layout.ld, "record": layout.end, "m": m, "nc": nc, "entries": m}
        counts |= {"stages": self.stages, "staged": self.stages * tree.nv}
        return sum(fields.size(tree, **counts) for fields in self.memory)


_FREE = roller("freely", advance.FreeScratch, advance.free_scratch, advance.advance_freely, whole=True)
"""Rollouts of 1, 2, 6 and 18 degrees of freedom take .85, .88, .94 and .94 of the time, for 2.4 s of the compiler."""

_EXPAND_EXPLICITLY = expansion(
    "explicitly", runge_kutta_linearization.explicit_relation, runge_kutta_linearization.relate_explicitly
)
_ONE_STAGE = Contractor("one_stage", hessians.size, hessians.room_for, hessians.curve)
_STAGES = Contractor(
    "stages", runge_kutta_curvature.size, runge_kutta_curvature.explicit_curvature,
    runge_kutta_curvature.curve_explicitly,
)  # fmt: skip
_IMPLICIT = roller(
    "implicitly", implicit_steps.ImplicitScratch, implicit_steps.implicit_scratch, implicit_steps.advance_implicitly
)
_EXPAND_IMPLICITLY = expansion(
    "implicitly", implicit_linearization.implicit_relation, implicit_linearization.relate_implicitly
)
_IMPLICIT_STAGES = Contractor(
    "implicit_stages", implicit_curvature.size, implicit_curvature.implicit_curvature,
    implicit_curvature.curve_implicitly,
)  # fmt: skip

SEMI_IMPLICIT = Scheme(
    _FREE, expansion("freely", linearization.free_relation, linearization.relate_freely), linearization.keep_rates,
    _ONE_STAGE, free_layout, (linearization.FreeRelation,), halves=True,
)  # fmt: skip

TOUCHING = Scheme(
    roller("touching", advance.TouchingScratch, advance.touching_scratch, advance.advance_touching),
    expansion("touching", contact_linearization.contact_relation, contact_linearization.relate_touching),
    contact_linearization.forget_weights, _ONE_STAGE, whole_layout, (contact_linearization.ContactMemory,),
    in_blocks=Contractor("in_blocks", hessian_blocks.size, hessians.room_for, hessian_blocks.curve),
)  # fmt: skip


def explicit(method: Array) -> Scheme:
    """The scheme of explicit steps by a method of runge_kutta.py."""
    return Scheme(
        _FREE, _EXPAND_EXPLICITLY, None, _STAGES, explicit_layout,
        (runge_kutta_linearization.ExplicitRelation, runge_kutta_linearization.Rates), method, len(method) - 1,
        batched=False,
    )  # fmt: skip


def implicit(method: Array) -> Scheme:
    """The scheme of implicit steps by a method of implicit_steps.py."""
    return Scheme(
        _IMPLICIT, _EXPAND_IMPLICITLY, None, _IMPLICIT_STAGES, implicit_linearization.implicit_layout,
        (implicit_linearization.ImplicitRelation, implicit_linearization.Rates), method, len(method),
        holds=bool((method[:, 0] == 1.0).all()),
    )  # fmt: skip


IMPLICIT = {name: implicit(table) for name, table in implicit_steps.METHODS.items()}
"""Schemes that know rods, by name."""

EXPLICIT = {name: explicit(table) for name, table in runge_kutta.METHODS.items()}
INTEGRATORS = {"semi-implicit-euler": SEMI_IMPLICIT} | EXPLICIT | IMPLICIT
"""Schemes of robots without contacts by name."""
