"""Plans of many solves, which depend on problems and samples alone: which make a block, and which follow which others.

Near are samples whose optimal motions are, by the derivatives of the problem's own optimum: what moves these little
counts little. Where there are no such derivatives, or few samples, near are those whose numbers are.

A tree of neighbours has three kinds of edges. Some samples are anchors, one of about `BLOCK`, taken in an order that
depends on nothing but how many there are; each follows the nearest one among the first half as many and the problem
itself, which in spaces of many dimensions is often nearer than any sample. All others belong to the nearest anchor's
cell, and follow, in the same order, the nearest one among the problem itself and the first half of the cell. So the
tree is as deep as the logarithm of the number of samples, and a cell needs nothing but its anchor. The first `BEGUN`
anchors come at once, and the first `TOGETHER` samples of a cell.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.errors import MOST_ITEMS, DDPError, ProblemError, as_array, said
from ddp.many.rows import NOMINAL, NONE
from ddp.places import check_sizes
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.numbers import STATE, Number
from ddp.solutions.solution import Solution

logger = logging.getLogger("mayne")

BLOCK = 32
"""Samples of a block, about."""

TOGETHER, BEGUN = 8, 16
"""Anchors of a block, at most, and samples of a cell that are solved at once in the beginning, as many as a register
solves; anchors that are, in blocks on cores of their own."""

TREE = f"tree of neighbours by motions, {BEGUN} anchors and {TOGETHER} others at once"
"""Name of such plans, which results depend on."""

WORTHWHILE = 4
"""Samples for each derivative by what varies, at least, for which these are worth their time."""

NOTHING = 1e-12
"""Share of the largest square of a response that is none."""

SCOUTS = 48
"""Samples, at least, that are solved from their own guesses too, to see whether neighbours miss better optima."""

FEW = 1 << 13
"""Coordinates of pairs of points up to which all distances are found, without a tree."""

Indices = NDArray[np.int64]


class Block(NamedTuple):
    """Samples that are solved one after the other, rows (m,), each from the policy of its parent.

    parents (m,): rows before it in the block, or in other blocks; `NOMINAL` or `NONE`.
    anchors: whether others may need their policies.
    scout: whether it is one of those that tell whether neighbours miss optima, so that all others come later.
    """

    rows: Indices
    parents: Indices
    anchors: bool = False
    scout: bool = False

    @property
    def needed(self) -> set[int]:
        """Rows of other blocks whose policies it needs."""
        return {int(row) for row in self.parents if row >= 0} - {int(row) for row in self.rows}

    def split(self, count: int) -> "tuple[Block, Block]":
        """The first so many samples, and the others."""
        return self._part(slice(count)), self._part(slice(count, None))

    def without(self, done: NDArray[np.bool_]) -> "Block":
        """The samples that are not done (M,), of a block that was split; of others, where they need each other, all."""
        return self._part(~done[self.rows]) if (self.parents < 0).all() else self

    def _part(self, which: Any) -> "Block":
        return self._replace(rows=self.rows[which], parents=self.parents[which])


def given(problem: Problem, over: Any) -> dict[str, Array]:
    """Arrays (M, ...) of what varies, checked as far as that goes without solving: names, lengths, whether one fits."""
    if not isinstance(over, Mapping) or not over:
        raise ProblemError(f"over: expected a mapping of places to arrays, one sample a row, got {said(over)}")
    arrays: dict[str, Array] = {}
    for name, values in over.items():
        try:
            problem.resolved(name)
        except ProblemError as reason:
            raise ProblemError(f"over: {str(reason).removeprefix('varying: ')}") from None
        if isinstance(values, (list, tuple)) and values and hasattr(values[0], "homogeneous"):
            values = [getattr(value, "homogeneous", value) for value in values]
        rank = np.ndim(values) if isinstance(values, np.ndarray) else _rank(values)
        if rank == 0:
            raise ProblemError(f"over[{name!r}]: expected an array with one row a sample, got {said(values)}")
        arrays[name] = as_array(f"over[{name!r}]", values, (None,) * rank, finite=False).copy()
        if np.isnan(arrays[name]).any():
            sample = int(np.argwhere(np.isnan(arrays[name]))[0][0])
            raise ProblemError(f"over[{name!r}]: expected numbers, got nan in sample {sample}")
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise ProblemError(f"over: expected as many samples of each, got {told}")
    count = next(iter(lengths.values()))
    if not 1 <= count <= 1000 * MOST_ITEMS:
        raise ProblemError(f"over: expected at least one sample, got {count}")
    refused: DDPError | None = None
    for i in range(count):  # where one sample makes a problem, those that make none are rows that say why
        try:
            check_sizes(problem, problem.varying({name: values[i] for name, values in arrays.items()}))
            return arrays
        except DDPError as reason:
            refused = refused or reason
        except Exception as reason:  # of constructors of users' terms
            refused = refused or ProblemError(f"{type(reason).__name__}: {reason}")
    assert refused is not None
    raise type(refused)(f"over, sample 0 of {count}: {refused}")


def _rank(values: Any) -> int:
    try:
        return np.ndim(values)
    except Exception:  # of ragged lists; as_array says what is wrong
        return 1


def independent(order: Indices, parent: int = NONE) -> list[Block]:
    """Blocks of samples in an order that follow no other sample."""
    return [
        Block(rows, np.full(len(rows), parent, dtype=np.int64))
        for rows in (order[a : a + BLOCK] for a in range(0, len(order), BLOCK))
    ]


def equals(arrays: Mapping[str, Array]) -> Indices:
    """The first sample (M,) of those that are equal to each, bit by bit."""
    flat = np.hstack([np.reshape(values, (len(values), -1)) for values in arrays.values()])
    if flat.shape[1] == 0:
        return np.zeros(len(flat), dtype=np.int64)
    whole = np.ascontiguousarray(flat, np.float64).view(np.dtype((np.void, 8 * flat.shape[1])))
    first = dict[bytes, int]()
    return np.array([first.setdefault(numbers, i) for i, numbers in enumerate(whole[:, 0].tolist())], dtype=np.int64)


def points_of(problem: Problem, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Samples as points (M, p), and the problem itself (p,): each thing that varies counts as much as each other."""
    points, roots = [], []
    for name, values in arrays.items():
        flat = _as_near(problem, name, np.where(np.isfinite(values), values, 0.0)).reshape(len(values), -1)
        root = _now(problem, name, flat)
        with np.errstate(over="ignore"):  # numbers may be anything that is finite
            size = float(np.sqrt(((flat - flat.mean(axis=0)) ** 2).sum(axis=1).mean())) or 1.0
        points.append(flat / size)
        roots.append(root / size)
    return np.hstack(points), np.concatenate(roots)


def _as_near(problem: Problem, name: str, values: Array) -> Array:
    """Samples (M, ...) by the numbers nearest the problem's own: quaternions of states have two signs."""
    number = Number.of(problem, name)
    d = number.system
    if number.kind != STATE or d.nx == d.n or values.shape[1:] != number.value.shape:
        return values
    with np.errstate(all="ignore"):  # samples may be no states
        tangents = number.tangents(values).reshape(-1, d.n)
        here = np.array([number.value] * len(values)).reshape(-1, d.nx)
        near = np.asarray(d.integrate(here, tangents)).reshape(values.shape)
    return np.where(np.isfinite(near), near, values)


def _now(problem: Problem, name: str, samples: Array) -> Array:
    """Numbers that a place has in the problem itself; the samples' mean where it is none of the same size."""
    value = np.ravel(problem.number(name))
    fits = value.size == samples.shape[1] and np.isfinite(value).all()
    return value if fits else samples.mean(axis=0)


def _nearest(places: Array, of: Array) -> Indices:
    """Index of the nearest of some places, for each point."""
    if places.size * len(of) <= FEW:
        return np.asarray(((of[:, None] - places) ** 2).sum(axis=2).argmin(axis=1), dtype=np.int64)
    from scipy.spatial import cKDTree  # it takes a tenth of a second to import, which few programs need

    return np.asarray(cKDTree(places).query(of)[1], dtype=np.int64)


def neighbours(points: Array, root: Array) -> Iterator[Block]:
    """Blocks of a tree of neighbours, those that others need first; see the module."""
    count = len(points)
    order = np.random.default_rng(0).permutation(count)
    anchors, others = np.split(order, [-(-count // BLOCK)])
    tree = [NOMINAL, *anchors.tolist()]
    at = np.vstack([root, points[anchors]])
    for a, b in _doubling(1, len(tree), BEGUN):
        parents = np.array(tree)[_nearest(at[:a], at[a:b])]
        for begin in range(a, b, TOGETHER):
            end = min(begin + TOGETHER, b)
            yield Block(np.array(tree[begin:end]), parents[begin - a : end - a], True)
    if len(others):
        cells = _nearest(points[anchors], points[others])
        by_cell = others[np.argsort(cells, kind="stable")]
        ends = np.cumsum(np.bincount(cells, minlength=len(anchors)))
        parts = zip(anchors, np.split(by_cell, ends[:-1]), strict=True)
        for anchor, members in sorted(parts, key=lambda part: len(part[1])):  # scouts are of many small cells
            rows = np.append(anchor, members)
            known, places = np.append(NOMINAL, rows), np.vstack([root, points[rows]])
            parents = np.empty(len(known), dtype=np.int64)
            for a, b in _doubling(2, len(known), TOGETHER):
                parents[a:b] = known[_nearest(places[:a], places[a:b])]
            if len(rows) > 1:
                yield Block(rows[1:], parents[2:])


def tree_of(
    problem: Problem, nominal: Solution | None, arrays: Mapping[str, Array], points: Array, root: Array
) -> Iterator[Block]:  # fmt: skip
    """Blocks of a tree of neighbours: by motions if the problem has an optimum, else by numbers, points and the root.

    nominal: that optimum, of the problem itself.
    """
    near = None if nominal is None else responses_of(problem, nominal, arrays)
    return neighbours(points, root) if near is None else neighbours(near, np.zeros(near.shape[1]))


def responses_of(problem: Problem, nominal: Solution, arrays: Mapping[str, Array]) -> Array | None:
    """Samples as points (M, r), as far apart as their optimal motions to first order; the nominal one is at 0.

    None where samples are too few for that, or where the optimum has no derivatives by what varies.
    """
    numbers = [Number.of(problem, name) for name in arrays]
    if len(next(iter(arrays.values()))) < max(SCOUTS, WORTHWHILE * sum(number.size for number in numbers)):
        return None
    try:
        with np.errstate(all="ignore"):
            dX = nominal.sensitivity(*arrays).dX
            squares, axes = np.linalg.eigh(np.einsum("tip,tiq->pq", dX, dX))
            tangents = np.hstack([number.tangents(arrays[number.name]) for number in numbers])
    except (DDPError, ValueError) as reason:  # samples may be solved nevertheless; ValueError: of matrices
        logger.info("neighbours are the nearest samples by their numbers, not by their motions: %s", reason)
        return None
    some = squares > NOTHING * squares[-1]
    points = np.where(np.isfinite(tangents), tangents, 0.0) @ (axes[:, some] * np.sqrt(squares[some]))
    return points if some.any() and np.isfinite(points).all() else None


def _doubling(first: int, count: int, begun: int) -> Iterator[tuple[int, int]]:
    """Ranges of the numbers first .. count-1: so many of them, as many again, twice as many, four times, ..."""
    a, b = first, first + begun
    while a < count:
        yield a, min(b, count)
        a, b = b, 2 * b - first


def with_scouts(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, the first of which, `SCOUTS` samples or some more, are scouts."""
    before = 0
    for block in blocks:
        yield block._replace(scout=before < SCOUTS)
        before += len(block.rows)


def of_shard(blocks: Iterable[Block], shard: tuple[int, int]) -> list[Block]:
    """Blocks of the share ``(number, count)``, number 1 .. count, with all that these need."""
    number, count = shard
    blocks = list(blocks)
    wanted = {i for i, block in enumerate(blocks) if block.scout or i % count == number - 1}
    having = {int(row): i for i, block in enumerate(blocks) if block.anchors for row in block.rows}
    waiting = list(wanted)
    while waiting:
        for row in blocks[waiting.pop()].needed:
            if having[row] not in wanted:
                wanted.add(having[row])
                waiting.append(having[row])
    return [blocks[i] for i in sorted(wanted)]
