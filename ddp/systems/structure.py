"""Structure of a dynamical system that sweeps make use of, found out once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.machine.tiles import padded
from ddp.protocols import Array
from ddp.systems.system import COUPLED, ENDING, MOTIONS, Contraction, System, ability

SMALL, BENT = 6, 3
"""Below this n a semi-implicit step is no faster than any, nor is it with more than one bent row among so many of n."""

FEW_STATES = 4
"""Numbers of a state, at most, where they are few."""

NO_HALVES = np.zeros(0), np.zeros((0, 2), dtype=np.int64)
"""Structure of steps that are not semi-implicit."""

Halves = tuple[Array, NDArray[np.int64]]
"""The steps (N,) of knots and the bent rows that `system.Abilities` tells."""


class Structure(NamedTuple):
    """halves: of a semi-implicit step, `NO_HALVES` of others.   swept: the same where sweeps gain by it.

    batched: whether many knots are contracted at once.   blockwise: by which blocks, 0 if by none; see `Abilities`.
    blocks (g, 2): where the blocks begin that a gap bends, see `system.System.closing`, and how large they are.
    """

    halves: Halves
    swept: Halves
    batched: bool
    blockwise: int
    blocks: NDArray[np.int64]


def are_equal(one: Structure, other: Structure) -> bool:
    """Whether two structures are the same but for how long steps are."""
    return one is other or _numbers(one) == _numbers(other)


def _numbers(known: Structure) -> tuple[Any, ...]:
    """Everything in a structure, arrays of integers as bytes, which compare in a tenth of the time."""
    (h, bent), (own, turned), batched, blockwise, blocks = known
    return len(h), bent.tobytes(), len(own), turned.tobytes(), batched, blockwise, blocks.tobytes()


def numbers_of_blocks(m: int, bent: NDArray[np.int64], in_blocks: int = MOTIONS, nu: int = 0) -> int:
    """Count of the numbers of a knot's blocks, see `system.Abilities`: of m velocities and the runs ``bent`` (g, 2)."""
    motions = 4 * padded(m * m) + padded(int((bent[:, 1] ** 2).sum()))
    return motions + (in_blocks >= COUPLED) * padded(nu * m) + (in_blocks == ENDING) * padded(m * m)


def shape_of_second(known: Structure, n: int, nu: int) -> tuple[int, ...]:
    """Shape of a knot's contracted second order, as a Hessian or as blocks, of n states and nu controls."""
    if not known.blockwise:
        return n + nu, n + nu
    return (numbers_of_blocks(n // 2, known.halves[1], known.blockwise, nu),)


def is_underactuated(dynamics: System) -> bool:
    """Whether controls are fewer than the coordinates that they move: half of the state's."""
    return 2 * dynamics.nu < dynamics.n


def has_few_states(dynamics: System) -> bool:
    """Whether full-space steps cost little: of few numbers of a flat state."""
    return dynamics.n <= FEW_STATES and dynamics.closing().address == 0


def structure_of(dynamics: System, N: int) -> Structure:
    """Structure of N steps of a system."""
    semi_implicit = ability(dynamics, "semi_implicit")
    halves, n = NO_HALVES, dynamics.n
    if semi_implicit is not None:
        h = np.ravel(semi_implicit[0]).astype(np.float64)
        halves = h[np.minimum(np.arange(N), len(h) - 1)], semi_implicit[1]
    turned = int(halves[1][:, 1].sum())
    pays = n >= max(SMALL, BENT * turned) and turned + padded(n // 2) <= padded(n)  # rows of M are as long as V's
    batched = bool(ability(dynamics, "batched"))
    in_blocks = batched and semi_implicit is not None and ability(dynamics, "contract_batch") is not None
    blockwise = int(ability(dynamics, "in_blocks")) if in_blocks else 0
    return Structure(halves, halves if pays else NO_HALVES, batched, blockwise, blocks_of(dynamics.closing(), n))


def blocks_of(closing: Contraction, n: int) -> NDArray[np.int64]:
    """The blocks of `Structure`."""
    if closing.address == 0:
        return np.zeros((0, 2), dtype=np.int64)
    gap, out = np.linspace(0.1, 0.2, n), np.stack([np.eye(n), np.zeros((n, n))])
    closing.call(gap, gap, out)
    bent = (out[0] != np.eye(n)) | (out[1] != 0.0)
    edges = np.flatnonzero(np.diff(bent.any(axis=0) | bent.any(axis=1), prepend=False, append=False))
    blocks = np.ascontiguousarray(np.stack([edges[::2], np.diff(edges)[::2]], axis=1), dtype=np.int64)
    for first, size in blocks:
        bent[first : first + size, first : first + size] = False
    return np.array([[0, n]], dtype=np.int64) if bent.any() else blocks
