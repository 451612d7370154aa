"""Loops: pairs of frames of a robot that are held together; compiled once for the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ddp.errors import ModelError, instance, instances, numbers, said, suggesting
from ddp.machine.declared import each
from ddp.machine.struct import Struct, integer, integers, reals
from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.omissions import Omissions
from dynamics.robots.tree import Indices

AXES = ("x", "y", "z", "rx", "ry", "rz")

RANK, SHARE, SAMPLES, SWEEPS, OPEN, BRANCH, NOTHING = 1e-7, 1e-5, 3, 60, 1e-7, 1e-3, 1e-9
"""Rows are redundant if singular values are this small a part, or what is left of a row without others, in so many
closed postures, where the largest entry counts as at least NOTHING; those are found in so many steps of Newton's
method. Rows are open from so many m or rad; those that others hold, as well as numbers of files do, from BRANCH times
the largest lever."""


@suggesting
@dataclass(frozen=True)
class Loop:
    """Two frames of a robot that are held together, but for what is free: a closed chain.

    frame_a, frame_b: names of frames; "universe" is the world's.
    free: what may move, of x, y, z (the origin of a, along the axes of b) and rx, ry, rz (turns about axes that both
    frames share): "ry" is a hinge about y, "rx ry rz" a ball, "" a weld. In a planar mechanism all that lies across the
    plane is free: "y rx ry rz" holds two hinges about y together.
    spare: what of this joints and other loops hold already: no equation, but closed wherever postures are closed.
    """

    frame_a: str
    frame_b: str
    free: str = ""
    spare: str = ""

    def __post_init__(self) -> None:
        for field in ("frame_a", "frame_b", "free", "spare"):
            instance(f"{field} of a loop", getattr(self, field), str, "text", ModelError)
        for one in self.free.split():
            if one not in AXES:
                raise ModelError(f"free of {self}: expected some of {', '.join(AXES)}, got {said(one)}")
        for one in self.spare.split():
            if one not in self.free.split():
                raise ModelError(f"spare of {self}: expected some of {self.free!r}, which are free, got {said(one)}")

    @property
    def whole(self) -> Loop:
        """The loop that holds what others hold, too."""
        return Loop(self.frame_a, self.frame_b, " ".join(set(self.free.split()) - set(self.spare.split())))

    def __str__(self) -> str:
        return f"the loop of {self.frame_a!r} and {self.frame_b!r}"


class Mechanism:
    """Bodies of a model of Pinocchio's as loops see them, -1 being the world; what is found of them needs no speed."""

    def __init__(self, model: pin.Model) -> None:
        self.model, self.name, self.nv = model, str(model.name), int(model.nv)

    def place(self, frame: str) -> tuple[int, pin.SE3]:
        """The body that carries a frame, and the frame's pose on it; ModelError if there is none."""
        if not self.model.existFrame(frame):
            raise ModelError(f"loop: {self.name} has no frame {said(frame)}")
        found = self.model.frames[self.model.getFrameId(frame)]
        return int(found.parentJoint) - 1, found.placement

    def poses(self, q: Array) -> list[tuple[pin.SE3, Array]]:
        """Pose of every body, and the motions (6, nv) that degrees of freedom give it, at the world's origin."""
        data = self.model.createData()
        pin.computeJointJacobians(self.model, data, q)
        rates = (pin.getJointJacobian(self.model, data, j, pin.WORLD) for j in range(1, self.model.njoints))
        return [(pose, J.reshape(6, -1)) for pose, J in zip(list(data.oMi)[1:], rates, strict=True)]

    def moved(self, q: Array, dq: Array) -> Array:
        """q ⊕ dq."""
        return np.asarray(pin.integrate(self.model, q, dq))

    def dofs(self, body: int) -> list[int]:
        """The degrees of freedom that carry a body, from the root outwards."""
        found: list[int] = []
        for joint in list(self.model.supports[body + 1])[1:]:
            first = self.model.joints[joint].idx_v
            found += range(first, first + self.model.joints[joint].nv)
        return found

    def root(self, body: int) -> int:
        """The body on the world that carries a body."""
        return int(list(self.model.supports[body + 1])[1]) - 1


class Row(NamedTuple):
    """One equation of a loop: π·x = 0 of four numbers x in the frame of body A, and π in that of B."""

    x: Array
    plane: Array


def rows_of(m: Mechanism, loop: Loop) -> list[Row]:
    """Equations of a loop: places along held axes, and axes of both frames that stay at right angles."""
    (_, a), (_, b) = ends_of(m, loop)
    free, rows = set(loop.free.split()), []
    for k, axis in enumerate(AXES[:3]):
        if axis not in free:
            d = b.rotation[:, k]
            rows.append(Row(np.append(a.translation, 1.0), np.append(d, -d @ b.translation)))
    held = [k for k in range(3) if AXES[3 + k] not in free]
    pairs = [((k + 1) % 3, (k + 2) % 3) for k in held]
    if len(held) == 2:
        (about,) = set(range(3)) - set(held)
        pairs = [(about, k) for k in held]
    for i, j in pairs:
        rows.append(Row(np.append(a.rotation[:, i], 0.0), np.append(b.rotation[:, j], 0.0)))
    return rows


def ends_of(m: Mechanism, loop: Loop) -> list[tuple[int, pin.SE3]]:
    """The bodies of a loop, -1 for the world, and the poses of its frames on them."""
    return [m.place(name) for name in (loop.frame_a, loop.frame_b)]


def errors(m: Mechanism, loops: Sequence[Loop], q: Array) -> tuple[Array, Array]:
    """e (nc,) and e_q (nc, nv) of loops."""
    poses, e, J = [*m.poses(q), (pin.SE3.Identity(), np.zeros((6, m.nv)))], [], []
    for loop in loops:
        (A, Ja), (B, Jb) = (poses[body] for body, _ in ends_of(m, loop))
        for row in rows_of(m, loop):
            x = A.homogeneous @ row.x
            d = B.rotation @ row.plane[:3]
            plane = np.append(d, row.plane[3] - d @ B.translation)
            along = np.concatenate([d * x[3], np.cross(x[:3], d)])
            e.append(plane @ x)
            J.append(along @ (Ja - Jb))
    return np.array(e), np.array(J).reshape(-1, m.nv)


def closed(m: Mechanism, loops: Sequence[Loop], q: Array) -> Array | None:
    """The configuration near q that closes loops, their axes in the same sense; None if there is none."""
    whole = [loop.whole for loop in loops]
    if np.abs(distances(m, loops, q)[0]).max(initial=0.0) < 1e-12 and _is_on_branch(m, whole, q):
        return q
    for first in ([], whole):  # rows that others hold are closed on some branches alone, which they lead to
        found = _approached(m, loops, _approached(m, first, q))
        left = np.append(errors(m, loops, found)[0], distances(m, loops, found)[0])
        if np.abs(left).max(initial=0.0) < 1e-9 and _is_on_branch(m, whole, found):
            return found
    return None


def _is_on_branch(m: Mechanism, whole: Sequence[Loop], q: Array) -> bool:
    e, J = distances(m, whole, q)
    return bool(np.abs(e).max(initial=0.0) < BRANCH * max(1.0, np.abs(J).max(initial=0.0)))


def _approached(m: Mechanism, loops: Sequence[Loop], q: Array) -> Array:
    """Configuration to which Levenberg's steps (JᵀJ + |e|²)⁻¹ Jᵀ e, Newton's in the end, lead from q to close loops.

    They do not run along what redundant loops leave free, where J has a small singular value (Yamashita & Fukushima
    2001). Lengths are measured in one of the robot's, so that units do not matter. Steps turn by .5 rad at most.
    """
    sweep, length, held = 0, 0.0, [axis for loop in loops for axis in AXES if axis not in loop.free.split()]
    places = np.isin(held, AXES[:3])
    slides = np.max([np.abs(rates[3:]).max(axis=0) for _, rates in m.poses(q)], axis=0) == 0.0
    while sweep < SWEEPS and held:
        e, J = distances(m, loops, q) if sweep < SWEEPS - 3 else errors(m, loops, q)
        length = max(length, np.abs(J[places][:, ~slides]).max(initial=0.0), np.abs(e[places]).max(initial=0.0))
        row, column = (np.where(some, length or 1.0, 1.0) for some in (places, slides))
        e = e / row
        U, s, Vt = np.linalg.svd(J / row[:, None] * column, full_matrices=False)
        gain = np.where(s > 1e-9 * s[0], s / np.maximum(s**2 + e @ e, 1e-300), 0.0)
        step = -Vt.T @ (gain * (U.T @ e))
        size = np.abs(step).max(initial=0.0)
        q = m.moved(q, column * step * min(1.0, 0.5 / max(size, 1e-300)))
        sweep = max(sweep + 1, SWEEPS - 3 if size < 1e-10 else 0)
    return q


def distances(m: Mechanism, loops: Sequence[Loop], q: Array) -> tuple[Array, Array]:
    """Distances of held directions from being held [m, rad], and their rates; unlike e, not zero at half a turn."""
    poses, e, J = [*m.poses(q), (pin.SE3.Identity(), np.zeros((6, m.nv)))], [], []
    for loop in loops:
        (A, Ja), (B, Jb) = ((poses[body][0] * placement, poses[body][1]) for body, placement in ends_of(m, loop))
        between, free = B.actInv(A), loop.free.split()
        seen = B.actionInverse @ (Ja - Jb)
        held = [k for k in range(3) if AXES[3 + k] not in free]
        R = between.rotation
        turn = pin.log3(R)
        if len(held) == 2:
            (about,) = set(range(3)) - set(held)
            across = np.cross(np.eye(3)[about], R[:, about])
            turn = across * np.arctan2(np.linalg.norm(across), R[about, about]) / max(np.linalg.norm(across), 1e-300)
        of_turn = pin.Jlog3(R) @ R.T @ seen[3:] if len(held) == 3 else seen[3:]
        if len(held) == 1:
            h, i, j = held[0], (held[0] + 1) % 3, (held[0] + 2) % 3
            turn = np.full(3, np.arctan2(R[j, i], R[i, i]))
            tilt = R[h, i] / max(R[i, i] ** 2 + R[j, i] ** 2, 1e-300)
            of_turn = np.tile(seen[3 + h] - tilt * (R[i, i] * seen[3 + i] + R[j, i] * seen[3 + j]), (3, 1))
        places = [k for k in range(3) if AXES[k] not in free]
        moved = seen[:3] - pin.skew(between.translation) @ seen[3:]
        e += [*between.translation[places], *turn[held]]
        J += [*moved[places], *of_turn[held]]
    return np.array(e), np.array(J).reshape(-1, m.nv)


class Loops(Struct):
    """Loops as flat arrays; nc: rows of e; count: loops; entries: of ``path``.

    pair (count, 8): bodies A and B, -1 for the world; their roots; first and past the last of rows and of path.
    path (entries, 2): a degree of freedom and whether it moves A (0) or B (1); of A first, from the root outwards.
    point, plane (nc, 4): x and π in the frames of A and B.
    previous (nv + nc,): order in which the step's matrix is eliminated, see elimination.py; rows of e come first.
    """

    nc, count, entries = each(3, integer)
    pair: Indices = integers(8)
    path: Indices = integers(2)
    point, plane = each(2, reals, 4)
    previous: Indices = integers()


def compile_loops(m: Mechanism, previous: Indices, loops: Sequence[Loop], q0: Array) -> Loops:
    """The arrays of some loops, after a look at whether one holds what others hold already: ModelError names it."""
    pair: list[list[int]] = []
    path: list[list[int]] = []
    points: list[Array] = []
    planes: list[Array] = []
    for loop in loops:
        (a, _), (b, _) = ends_of(m, loop)
        rows, begin = rows_of(m, loop), len(path)
        if not rows:
            continue
        sides = [m.dofs(body) if body >= 0 else [] for body in (a, b)]
        common = set(sides[0]) & set(sides[1])
        for side in (0, 1):
            path += [[i, side] for i in sides[side] if i not in common]
        roots = [m.root(body) if body >= 0 else -1 for body in (a, b)]
        pair.append([a, b, *roots, len(points), len(points) + len(rows), begin, len(path)])
        points += [row.x for row in rows]
        planes += [row.plane for row in rows]
    nc = len(points)
    order = np.arange(-1, m.nv + nc - 1) if nc else previous
    _check_rank(m, loops, q0)
    return Loops(
        nc=nc, count=len(pair), entries=len(path), pair=np.array(pair, dtype=np.int64).reshape(-1, 8),
        path=np.array(path, dtype=np.int64).reshape(-1, 2), point=np.array(points).reshape(-1, 4),
        plane=np.array(planes).reshape(-1, 4), previous=order,
    )  # fmt: skip


def _check_rank(model: Mechanism, loops: Sequence[Loop], q0: Array) -> None:
    """Raise ModelError for the first loop of which a part holds nothing that loops before it do not."""
    if not loops:
        return
    sizes, Js = np.cumsum([len(rows_of(model, loop)) for loop in loops]), _rates_nearby(model, loops, q0)
    if len(Js) < SAMPLES:
        raise ModelError(f"{model.name}: no configuration near q0 closes {', '.join(map(str, loops))}")
    ranks = np.max([[np.linalg.matrix_rank(J[:end], tol=RANK * np.abs(J).max()) for end in sizes] for J in Js], axis=0)
    short = np.flatnonzero(ranks < sizes)
    if len(short):
        loop, lacking = loops[short[0]], int(sizes[short[0]] - ranks[short[0]])
        if found := opened(model, loops, _redundant(model, loops, q0), q0):
            named = ", ".join(f"{axis} of {loops[i]}" for i, axis in found)
            raise ModelError(
                f"{named}: nothing else holds them, but they have no rate of their own at q0: expected a bent posture,"
                f" got q0 = {numbers(q0)}"
            )
        raise ModelError(
            f"{loop} holds {lacking} direction{'s' if lacking > 1 else ''} that joints and other loops hold already:"
            f" set them free, in a planar mechanism all across the plane; got free={loop.free!r}"
        )


def _rates_nearby(model: Mechanism, loops: Sequence[Loop], q0: Array) -> list[Array]:
    """e_q of loops in closed postures near q0: SAMPLES of them, fewer where none is found."""
    rng, found = np.random.default_rng(0), []
    for _ in range(SAMPLES):
        near = closed(model, loops, model.moved(q0, 0.1 * rng.normal(size=model.nv)))
        found.append(closed(model, loops, q0) if near is None else near)
    return [errors(model, loops, q)[1] for q in found if q is not None]


def is_short(J: Array) -> bool:
    """Whether rows of e_q depend on each other."""
    finite = bool(J.size) and bool(np.isfinite(J).all())
    return finite and bool(np.linalg.matrix_rank(J, tol=RANK * np.abs(J).max()) < len(J))


def independent(m: Mechanism, loops: Sequence[Loop], q0: Array, omissions: Omissions) -> tuple[Loop, ...]:
    """Loops without the rows that hold what joints and others hold already: those are set free, weakest first.

    Rows that open where the others stay closed, as of a straight mechanism, are named as omissions.
    """
    if not loops:
        return ()
    redundant = _redundant(m, loops, q0)
    found = opened(m, loops, redundant, q0)
    for i, axis in found:
        omissions.drop(
            "directions {} have no rate of their own at the reference posture but open beside it, and are not held:"
            " give the file a bent reference posture", f"{axis} of {loops[i]}",
        )  # fmt: skip
    kept = [_freed(loop, redundant[i]) for i, loop in enumerate(loops)]
    if not any(rows_of(m, loop) for loop in kept):
        return ()
    spare = [" ".join(axis for axis in axes if (i, axis) not in found) for i, axes in enumerate(redundant)]
    return tuple(replace(loop, spare=axes) for loop, axes in zip(kept, spare, strict=True))


def _redundant(m: Mechanism, loops: Sequence[Loop], q0: Array) -> list[list[str]]:
    """Axes of each loop that joints and other loops hold already, the weakest."""
    J = np.stack(_rates_nearby(m, loops, q0))
    left, found, begin = J.copy(), [], 0
    for one in loops:
        held = [axis for axis in AXES if axis not in one.free.split()]
        rest = dict(zip(held, range(begin, begin + len(held)), strict=True))
        begin += len(held)
        while rest:
            sizes = {axis: np.linalg.norm(left[:, r], axis=1).max() for axis, r in rest.items()}
            axis = max(sizes, key=lambda axis: sizes[axis])
            if sizes[axis] <= SHARE * max(np.abs(J).max(), NOTHING):
                break
            chosen = left[:, rest.pop(axis)]
            unit = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), 1e-300)
            left = left - np.einsum("srv,sv->sr", left, unit)[..., None] * unit[:, None]
        found.append(list(rest))
    return found


def _freed(one: Loop, axes: Sequence[str]) -> Loop:
    """A loop of which more is free."""
    return replace(one, free=" ".join(axis for axis in AXES if axis in (*one.free.split(), *axes)))


def opened(
    m: Mechanism, loops: Sequence[Loop], redundant: Sequence[Sequence[str]], q0: Array, least: float = OPEN
) -> list[tuple[int, str]]:
    """Held directions of loops that are open in postures beside q0 which close all that is not redundant."""
    rows = [(i, axis) for i, one in enumerate(loops) for axis in AXES if axis not in one.free.split()]
    rng, gaps = np.random.default_rng(0), np.zeros(len(rows))
    kept = [_freed(*pair) for pair in zip(loops, redundant, strict=True)]
    if not rows or (base := closed(m, loops, q0)) is None:
        return []
    for _ in range(SAMPLES):
        near = closed(m, kept, m.moved(base, 0.02 * rng.normal(size=m.nv)))
        if near is not None:
            gaps = np.maximum(gaps, np.abs(distances(m, loops, near)[0]))
    return [row for row, gap in zip(rows, gaps, strict=True) if gap > least]


def given(m: Mechanism, loops: Iterable[Loop]) -> tuple[Loop, ...]:
    """Loops of bodies as they were given, checked."""
    found = instances("loops", loops, Loop, "Loops", error=ModelError)
    for loop in found:
        if ends_of(m, loop)[0][0] < 0:
            raise ModelError(f"{loop}: expected a frame_a that a joint moves, got one fixed to the world")
        if not rows_of(m, loop.whole):
            raise ModelError(f"free of {loop}: expected something that is held, got {loop.free!r}")
    return found
