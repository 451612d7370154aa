"""The forms that a guess can have, checked: controls, states and controls, or a motion with gains."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ddp.errors import ProblemError, as_array, axes
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.systems.system import System


@runtime_checkable
class Followed(Protocol):
    """A motion X (N+1, nx), U (N, nu) with gains K (N, nu, n) to follow it by, as a `Solution` is."""

    @property
    def X(self) -> Array: ...

    @property
    def U(self) -> Array: ...

    @property
    def K(self) -> Array: ...


@dataclass(frozen=True, eq=False, repr=False)
class Motion:
    """Arrays that are `Followed`."""

    X: Array
    U: Array
    K: Array


Start: TypeAlias = Array | tuple[Array, Array] | Followed | None
"""Controls U (N, nu), a pair (X, U), a `Solution`, or None for the default."""


class Guess(NamedTuple):
    """Start of a solve: X (N+1, nx) with X[0] the initial state, U (N, nu), K (N, nu, n).

    The policy u = U + K (x ⊖ X) is followed, unless X is ``imposed``: then it is the trajectory, gaps and all. It is,
    too, where following diverges or costs `ddp.starts.ASTRAY` times as much; or `ddp.starts.WORSE` times where
    controls ``alone`` are given and X is x0 all along.   earlier: the motion that it came of.   first: whether
    other attempts follow where the one from here fails.
    """

    X: Array
    U: Array
    K: Array
    imposed: bool = False
    alone: bool = False
    earlier: Followed | None = None
    first: bool = False


def as_multipliers(given: Any, count: int) -> Array:
    """Multipliers (count,) of a `Solution` as a guess, checked."""
    if np.size(given) != count:
        raise ProblemError(
            f"guess.multipliers: expected {count}, got {np.size(given)}, of a solution of other constraints:"
            " to start from its motion alone, give guess=(solution.X, solution.U)"
        )
    return as_array("guess.multipliers", given, (count,))


def kept(guess: Any, dynamics: System, horizon: int) -> Start:
    """`as_guess` for a problem to keep: its arrays can be read, and not be written on."""
    own = as_guess(guess, dynamics, horizon)
    for array in own if isinstance(own, tuple) else (own,):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return own


def as_guess(guess: Any, dynamics: System, horizon: int) -> Start:
    """A guess for ``horizon`` knots, its arrays copied; ProblemError says what is wrong with it."""
    N, d = horizon, dynamics
    if guess is None:
        return None
    if not isinstance(guess, np.ndarray) and isinstance(guess, Followed):  # to ask a protocol takes 20 µs
        as_array("guess.U", guess.U, (N, d.nu))
        d.check_state("guess.X", as_array("guess.X", guess.X, (N + 1, d.nx)))
        as_array("guess.K", guess.K, (N, d.nu, d.n))
        return guess
    if isinstance(guess, tuple):
        if len(guess) != 2:
            raise ProblemError(f"guess: expected U, (X, U) or a Solution, got a tuple of {len(guess)}")
        if axes(guess[0]) == 2 and np.shape(guess[0]) == (N, d.nu) != (N + 1, d.nx):
            raise ProblemError("guess: expected (X, U), states before controls, got controls first")
        X = as_array("guess[0]", guess[0], (N + 1, d.nx)).copy()
        d.check_state("guess[0]", X)
        return X, as_array("guess[1]", guess[1], (N, d.nu)).copy()
    if isinstance(guess, list) and [axes(part) for part in guess] == [2, 2]:
        raise ProblemError("guess: expected U, a tuple (X, U) or a Solution, got a list of two arrays")
    if axes(guess) == 2 and np.shape(guess) == (N + 1, d.nx):
        raise ProblemError(f"guess: expected controls of shape ({N}, {d.nu}), or (X, U); got states alone")
    return as_array("guess", guess, (N, d.nu)).copy()


def smooth(s: Array) -> Array:
    """Rise from 0 to 1, as s does, without speed or acceleration at both ends."""
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def resting(dynamics: System, x0: Array) -> Array:
    """Controls (M, nu) that keep states x0 (M, nx) at rest: eight at a time, so that none depends on others.

    Where there are none, they are NaN: the compiled loop leaves such problems to `ddp.solve`, which says what is wrong.
    """
    X0 = np.resize(x0, (-(-len(x0) // WIDTH) * WIDTH, dynamics.nx))
    U = [dynamics.nominal_control(eight) for eight in X0.reshape(-1, WIDTH, dynamics.nx)]
    return as_array("dynamics.nominal_control", np.concatenate(U), (len(X0), dynamics.nu), finite=False)[: len(x0)]
