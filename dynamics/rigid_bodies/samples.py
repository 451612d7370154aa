# mypy: allow-untyped-defs, allow-untyped-calls
"""The arguments of the functions on robots, checked at the border: one sample or a batch of them."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ddp.compiling.kernel import kernel
from ddp.errors import DDPError, ModelError, ProblemError, as_array, axes, choice, items, numbers
from ddp.machine.aligned import aligned_zeros, working_memory
from ddp.machine.number import WIDTH
from ddp.machine.recycled import recycled
from ddp.protocols import Array
from dynamics.rigid_bodies.batch import size
from dynamics.robots.model import Robot, check_robot

Named = TypeVar("Named", bound=tuple[Array, ...])

_FLOAT = np.dtype(np.float64)
_SHORTEST, _LONGEST = (1.0 - 1e-6) ** 2, (1.0 + 1e-6) ** 2

FEXT_FRAMES = ("local", "world")
"""Axes in which an external wrench is constant: its joint's frame, or the world's, at its body's origin."""


@kernel
def count_finite(x):
    """Count the entries of an array that are numbers."""
    count = 0
    for number in x.flat:
        count += abs(number) < np.inf
    return count


@kernel
def are_sound(Q, first, second, weight, spans):
    """Whether all entries are numbers, and Q from spans[k, 0] to before spans[k, 1] has length one, up to 1e-6."""
    for k in range(spans.shape[0]):
        for t in range(Q.shape[0]):
            square = 0.0
            for i in range(spans[k, 0], spans[k, 1]):
                square += Q[t, i] * Q[t, i]
            if not _SHORTEST <= square <= _LONGEST:
                return False
    finite = count_finite(Q) == Q.size and count_finite(first) == first.size
    return finite and count_finite(second) == second.size and count_finite(weight) == weight.size


def _is_single(q: ArrayLike) -> bool:
    """Whether this is one sample rather than a batch."""
    if isinstance(q, np.ndarray):
        return q.ndim < 2
    return not isinstance(q, (list, tuple)) or axes(q[0] if len(q) else 0.0) == 0


def check_configurations(robot: Robot, field: str, Q: Array, error: type[DDPError] = ProblemError) -> None:
    """Raise ``error`` if a row of Q (N, nq) has a quaternion, or a (cos, sin), that is not unit."""
    for joint, first, end in robot.unit_numbers:
        part = Q[:, first:end]
        norms = np.sqrt(np.vecdot(part, part))
        if not (norms.max(initial=1.0) <= 1.0 + 1e-6 and norms.min(initial=1.0) >= 1.0 - 1e-6):
            bad = int(np.argmax(~(np.abs(norms - 1.0) <= 1e-6)))
            where = f" of sample {bad}" if len(Q) > 1 else ""
            what = "unit quaternion (x, y, z, w)" if end - first == 4 else "unit (cos, sin)"
            raise error(
                f"{field}[{first}:{end}]{where}, joint {robot.joint_names[joint]!r}: expected a {what}, got norm"
                f" {norms[bad]:.6g}; normalise it first (pinocchio.normalize)"
            )


class Stack:
    """Configurations q (N, nq) of a robot, and ``vectors`` (N, nv) by names, one sample or a batch of them, checked."""

    def __init__(self, robot: Robot, q: ArrayLike, *vectors: tuple[str, ArrayLike]) -> None:
        check_robot(robot)
        self.robot, self.single = robot, _is_single(q)
        self.N = 1 if self.single else len(q)  # type: ignore[arg-type]
        try:
            self.q = self._stack("q", q, robot.nq)
        except ProblemError as reason:
            is_state = np.shape(q)[-1:] == (robot.nq + robot.nv,) if axes(q) else False
            of_state = f", which is a state (q, v), of which the first {robot.nq} numbers are q" if is_state else ""
            raise ProblemError(f"{reason}{of_state}") from None
        self.vectors = found = [self._stack(field, value, robot.nv) for field, value in vectors]
        if not are_sound(self.q, *found, *(3 - len(found)) * [self.q], robot.unit_spans):
            for field, value in (("q", q), *vectors):
                as_array(field, value, np.shape(value))
            check_configurations(robot, "q", self.q)

    def _stack(self, field: str, value: ArrayLike, size: int) -> Array:
        """An argument as (N, size), numbers or not."""
        if self.single:
            return as_array(field, value, (size,), finite=False)[None]
        if type(value) is np.ndarray and value.shape == (self.N, size) and value.dtype == _FLOAT and value.flags.carray:
            return value  # kernels take it as it is
        return as_array(field, value, (self.N, size), finite=False)

    def rows(self, field: str, value: ArrayLike | None, size: int) -> Array:
        """An argument as (N, size), zeros if there is none."""
        if value is None:
            return np.zeros((self.N, size))
        shape = (size,) if self.single else (self.N, size)
        return as_array(field, value, shape).reshape(self.N, size)

    def zeros(self) -> Array:
        """Zeros (nv,) or (N, nv), velocities or accelerations of rest."""
        return np.zeros(self.robot.nv) if self.single else np.zeros((self.N, self.robot.nv))

    def check(self, failed: int) -> None:
        """Raise ModelError if the mass matrix of a sample, -1 for none, is not positive definite."""
        if self.robot.loops:
            name = self.robot.name
            raise ModelError(f"{name} has loops, which only RobotDynamics(integrator='implicit-euler') holds")
        if failed >= 0:
            where = "" if self.single else f" of sample {failed}"
            raise ModelError(
                f"{self.robot.name}: the mass matrix{where} is not positive definite at q = {numbers(self.q[failed])},"
                " or accelerations overflow"
            )

    def wrenches(self, fext: ArrayLike | None) -> Array:
        """Wrenches (N, nb, 6) of bodies, without that on the world, of one set or one a sample; (N, 0, 6) of None."""
        if fext is None:
            return np.empty((self.N, 0, 6))
        rows = self.robot.tree.nb + 1
        shape = (rows, 6) if axes(fext) == 2 or (self.single and axes(fext) != 3) else (self.N, rows, 6)
        given = as_array("fext", fext, shape)
        return np.ascontiguousarray(np.broadcast_to(given, (self.N, rows, 6))[:, 1:])

    def lanes(self, numbers: int) -> Array:
        """Working memory for eight samples at a time or, if that is less work, for one."""
        return working_memory(numbers, 1 if 2 * self.N < WIDTH else WIDTH)

    def result(self, array: Array) -> Array:
        """A result without the leading axis, for one sample."""
        return array[0] if self.single else array

    def named(self, found: Named) -> Named:
        """Results of a named tuple without the leading axis, for one sample."""
        return found._make(array[0] for array in found) if self.single else found  # type: ignore[attr-defined]


class Samples(Stack):
    """Arguments of one call, checked and stacked along a leading axis.

    first, second, weight[0] (N, nv); fext, world (N, nb or 0, 6): wrenches that turn with their bodies, and
    those that keep their direction in the world.
    """

    def __init__(
        self, robot: Robot, q: ArrayLike, first: tuple[str, ArrayLike], second: tuple[str, ArrayLike],
        fext: ArrayLike | None, fext_frame: str, weight: tuple[str, ArrayLike] | None = None,
    ) -> None:  # fmt: skip
        choice("fext_frame", fext_frame, FEXT_FRAMES)
        super().__init__(robot, q, first, second, *(() if weight is None else (weight,)))
        self.first, self.second, *self.weight = self.vectors
        if robot.is_hybrid and fext is not None and fext_frame == "world":
            raise ModelError(
                f"fext_frame: expected 'local' for {robot.name}, which has rods (Assembly.wrench adds one that keeps"
                " its direction)"
            )
        none = self.wrenches(None)
        given = none if fext is None else self.wrenches(fext)
        self.fext, self.world = (none, given) if fext_frame == "world" else (given, none)

    @property
    def has_world(self) -> bool:
        """Whether there are wrenches that keep their direction in the world."""
        return self.world.shape[1] > 0

    def run(self, kernel: Any, *out: Any, room: int = 0, rods: bool = False) -> Any:
        """Fill ``out`` with a kernel of batch.py, which takes ``room`` numbers of memory beyond ``size``.

        rods: whether the kernel knows them; else ModelError for a robot that has some.
        """
        robot = self.robot
        given = self.q, self.first, self.second, *self.weight, self.fext
        return kernel(robot.handle if rods else robot.tree.address, self.memory(room), *given, *out)

    def memory(self, room: int = 0) -> Array:
        """Working memory of the kernels of batch.py, and ``room`` numbers more."""
        robot = self.robot
        return self.lanes(size(robot.tree.nb, robot.nq, robot.nv, robot.room) + room)

    def matrices(self, count: int) -> Array:
        return recycled((count, self.N, self.robot.nv, self.robot.nv))

    def tensors(self, count: int) -> Array:
        return aligned_zeros((count, self.N, self.robot.nv, self.robot.nv, self.robot.nv))

    def earlier(self, out: Sequence[Array]) -> list[Array]:
        """Tensors that an earlier call returned, to be written again."""
        shape = (self.N, *[self.robot.nv] * 3)
        given = items("out", out, "arrays that an earlier call returned")
        arrays = [as_array("out", array, shape[1:] if self.single else shape, finite=False) for array in given]
        if len(arrays) != 4 or any(mine is not theirs for mine, theirs in zip(arrays, given, strict=True)):
            raise ProblemError("out: expected the arrays that an earlier call returned, contiguous and writeable")
        return [array.reshape(shape) for array in arrays]
