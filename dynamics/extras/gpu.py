# mypy: allow-untyped-defs, allow-untyped-calls
"""Rigid-body dynamics on a GPU: the CPU's own kernels, compiled for CUDA, one sample to each thread.

    from dynamics.extras.gpu import GpuDynamics

    gpu = GpuDynamics(dynamics.load("ur5"))
    blocks = gpu.inverse_dynamics_hessian(Q, V, A, mu)      # (N, nq), (N, nv) ... to (N, nv, nv) each

Functions, results and conventions are those of `dynamics`. NumPy arrays are copied to the GPU and results back; arrays
that live there (of CuPy, PyTorch, JAX, numba: whatever has ``__cuda_array_interface__``) are read where they are, and
results stay there. Needs ``pip install 'mayne[gpu]'`` and an NVIDIA driver; double precision.

No formula stands here. numba-cuda compiles the Python functions of rigid_bodies/batch.py a second time; the robot's
tree is copied with the addresses of its arrays replaced. A thread's working memory has its numbers 32 apart, those of
the 32 threads of a warp side by side, so that a warp reads and writes whole lines.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numba
import numpy as np
from numba import cuda, types
from numpy.typing import ArrayLike, NDArray

from ddp.compiling.kernel import inline, kernel
from ddp.errors import ModelError, ProblemError, as_array, positive_integer
from ddp.machine.memory import as_matrix, floats_at, rows_at
from dynamics.rigid_bodies import batch
from dynamics.rigid_bodies.rigid_body import ForwardDerivatives, ForwardHessian, InverseDerivatives, InverseHessian
from dynamics.rigid_bodies.samples import Samples
from dynamics.robots.model import Robot, check_rigid

APART = 0, 67
"""The first numba that tells the code of processors and GPUs apart: before, the one is lost where the other is made."""

WARP = 32
"""Threads that run together: their numbers lie side by side."""

THREADS = 64
"""Threads of a block."""

BLOCKS = 4
"""Blocks on each multiprocessor at the same time: 255 registers a thread leave room for no more."""

SHARE = 0.25
"""Share of the free memory of a GPU that working memory may take."""


class OnDevice(Protocol):
    """An array in a GPU's memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


Given = ArrayLike | OnDevice
Result = NDArray[np.float64] | OnDevice


# -- one sample: rows of one sample in, so that kernels of batches take it for a batch ----------------------

_own_memory = rows_at(types.float64, step=WARP)
_integers_at = rows_at(types.int64)


@inline
def _sample(address, t, columns):
    """The t-th row at an address."""
    return as_matrix(floats_at(address + 8 * t * columns), 1, columns)


@inline
def _wrenches(address, t, columns):
    """Wrenches of the t-th sample, of (N, njoints, 6): without that on the world, or none."""
    return as_matrix(floats_at(address + 8 * (t * (columns + 6) + 6)), 1, columns)


@inline
def _matrices(address, count, t, N, nv):
    """Matrices of the t-th sample among ``count`` times N matrices."""
    return as_matrix(floats_at(address + 8 * t * nv * nv), count, N * nv * nv)


@kernel
def _inverse(tree, own, q, v, a, mu, fext, out, t, N, nv):
    batch.inverse_dynamics(tree, own, q, v, a, fext, _sample(out, t, nv))
    return -1


@kernel
def _inverse_derivatives(tree, own, q, v, a, mu, fext, out, t, N, nv):
    batch.inverse_dynamics_derivatives(tree, own, q, v, a, fext, _matrices(out, 3, t, N, nv))
    return -1


@kernel
def _inverse_hessian(tree, own, q, v, a, mu, fext, out, t, N, nv):
    batch.inverse_dynamics_hessian(tree, own, q, v, a, mu, fext, _matrices(out, 4, t, N, nv))
    return -1


@kernel
def _forward(tree, own, q, v, tau, weight, fext, out, t, N, nv):
    return batch.forward_dynamics(tree, own, q, v, tau, fext, _sample(out, t, nv))


@kernel
def _forward_derivatives(tree, own, q, v, tau, weight, fext, out, t, N, nv):
    return batch.forward_dynamics_derivatives(tree, own, q, v, tau, fext, _matrices(out, 3, t, N, nv))


@kernel
def _forward_hessian(tree, own, q, v, tau, weight, fext, out, t, N, nv):
    none = as_matrix(floats_at(out), 0, 0)
    return batch.forward_dynamics_hessian(tree, own, q, v, tau, weight, fext, none, _matrices(out, 4, t, N, nv))


@kernel
def _is_sound(row, columns):
    """Whether all numbers of a row are finite."""
    nothing = 0.0
    for i in range(columns):
        nothing += 0.0 * row[0, i]
    return nothing == 0.0


@kernel
def _is_unit(q, spans, count):
    """Whether quaternions and (cos, sin) have length one: spans (count, 2) are their first and past the last."""
    for k in range(count):
        square = 0.0
        for i in range(spans[2 * k], spans[2 * k + 1]):
            square += q[0, i] * q[0, i]
        if not abs(square - 1.0) <= 2e-6:
            return False
    return True


@cache
def grid_of(function: Callable[..., int]) -> Any:
    """A kernel of CUDA: every thread takes samples, a grid apart from each other, through a kernel of one sample.

    failed (3,): the first sample with a number that is not finite, with a configuration that is not unit, with a mass
    matrix that is not positive definite; N for none.
    """

    @cuda.jit
    def grid(tree, memory, numbers, N, nq, nv, wrenches, spans, units, q, first, second, weight, fext, out, failed):  # type: ignore[no-untyped-def]
        t = cuda.grid(1)
        own = _own_memory(memory + 8 * (t // WARP * WARP * numbers + t % WARP))
        while t < N:
            x, y, z, w, f = (
                _sample(q, t, nq), _sample(first, t, nv), _sample(second, t, nv), _sample(weight, t, nv),
                _wrenches(fext, t, wrenches),
            )  # fmt: skip
            sound = _is_sound(x, nq) and _is_sound(y, nv) and _is_sound(z, nv) and _is_sound(f, wrenches)
            if not (sound and _is_sound(w, nv)):
                cuda.atomic.min(failed, 0, t)
            elif not _is_unit(x, _integers_at(spans), units):
                cuda.atomic.min(failed, 1, t)
            elif function(tree, own, x, y, z, w, f, out, t, N, nv) >= 0:
                cuda.atomic.min(failed, 2, t)
            t += cuda.gridsize(1)

    return grid


SIGNATURE = types.void(*[types.int64] * 15, types.Array(types.int64, 1, "C"))
"""Types of a grid's arguments."""


# -- a robot on a GPU ----------------------------------------------------------------------------------------


class GpuDynamics:
    """A rigid robot's dynamics on the GPU that is at hand: methods as the functions of `dynamics`, for many samples.

    threads: how many samples at a time, a multiple of 64; by default as many as the GPU runs at once, fewer where their
    working memory would take more than a quarter of its free memory.
    Raises ModelError for robots with rods or loops, for a singular mass matrix, and where there is no GPU; ProblemError
    for arguments, those on the GPU as well. Results there are arrays of numba, with ``__cuda_array_interface__``.
    """

    def __init__(self, robot: Robot, threads: int | None = None) -> None:
        check_rigid(robot)
        if numba.version_info.short < APART:
            raise ModelError(f"GpuDynamics: expected numba 0.67 or later, got {numba.__version__}")
        if robot.loops:
            raise ModelError(f"{robot.name} has loops, which only RobotDynamics(integrator='implicit-euler') holds")
        if not cuda.is_available():
            raise ModelError("no GPU: expected an NVIDIA GPU with its driver, and 'mayne[gpu]' installed")
        self.robot, tree = robot, robot.tree
        self._kept: list[Any] = []
        self._tree = self._place(tree.words(self._place))
        self._spans = self._place(robot.unit_spans)
        self._numbers = batch.size(tree.nb, robot.nq, robot.nv)
        if threads is not None and positive_integer("threads", threads) % THREADS:
            raise ProblemError(f"threads: expected a multiple of {THREADS}, got {threads}")
        self.threads = self._most_threads() if threads is None else threads
        self._memory = cuda.device_array(self.threads * self._numbers)

    def _place(self, array: Any) -> int:
        """Copy an array to the GPU; its address there."""
        copy = cuda.to_device(array if array.size else np.zeros(1, array.dtype))
        self._kept.append(copy)
        return _address(copy)

    def _most_threads(self) -> int:
        device = cuda.get_current_device()
        free, _ = cuda.current_context().get_memory_info()
        fit = int(SHARE * free) // (8 * self._numbers)
        return max(THREADS, min(device.MULTIPROCESSOR_COUNT * BLOCKS * THREADS, fit // THREADS * THREADS))

    def inverse_dynamics(self, q: Given, v: Given, a: Given, fext: Given | None = None) -> Result:
        """See `dynamics.inverse_dynamics`."""
        return self._run(_inverse, q, ("v", v), ("a", a), fext)[0]

    def inverse_dynamics_derivatives(
        self, q: Given, v: Given, a: Given, fext: Given | None = None
    ) -> InverseDerivatives:
        """See `dynamics.inverse_dynamics_derivatives`."""
        return InverseDerivatives(*self._run(_inverse_derivatives, q, ("v", v), ("a", a), fext, count=3))

    def inverse_dynamics_hessian(
        self, q: Given, v: Given, a: Given, mu: Given, fext: Given | None = None
    ) -> InverseHessian:
        """See `dynamics.inverse_dynamics_hessian`; qq is iterated."""
        return InverseHessian(*self._run(_inverse_hessian, q, ("v", v), ("a", a), fext, ("mu", mu), count=4))

    def forward_dynamics(self, q: Given, v: Given, tau: Given, fext: Given | None = None) -> Result:
        """See `dynamics.forward_dynamics`."""
        return self._run(_forward, q, ("v", v), ("tau", tau), fext)[0]

    def forward_dynamics_derivatives(
        self, q: Given, v: Given, tau: Given, fext: Given | None = None
    ) -> ForwardDerivatives:
        """See `dynamics.forward_dynamics_derivatives`."""
        return ForwardDerivatives(*self._run(_forward_derivatives, q, ("v", v), ("tau", tau), fext, count=3))

    def forward_dynamics_hessian(
        self, q: Given, v: Given, tau: Given, weight: Given, fext: Given | None = None
    ) -> ForwardHessian:
        """See `dynamics.forward_dynamics_hessian`; qq is iterated."""
        found = self._run(_forward_hessian, q, ("v", v), ("tau", tau), fext, ("weight", weight), count=4)
        return ForwardHessian(*found)

    def _run(
        self, function: Any, q: Any, first: Any, second: Any, fext: Any, weight: Any = None, count: int = 0
    ) -> list[Any]:
        """Results of a function of one sample, ``count`` matrices each or, if 0, a vector."""
        robot = self.robot
        nq, nv, nb = robot.nq, robot.nv, robot.tree.nb
        named = [("q", q, nq), (*first, nv), (*second, nv), *([] if weight is None else [(*weight, nv)])]
        here = not any(cuda.is_cuda_array(value) for value in (q, first[1], second[1], fext, *(weight or ())[1:]))
        single = False
        if here:
            s = Samples(robot, q, first, second, fext, "local", weight)
            N, single, arrays = s.N, s.single, [s.q, s.first, s.second, *s.weight]
            wrenches = None if fext is None else np.concatenate([np.zeros((N, 1, 6)), s.fext], axis=1)
        else:
            shape = q.__cuda_array_interface__["shape"] if cuda.is_cuda_array(q) else np.shape(q)
            if len(shape) != 2:
                raise ProblemError(f"q: expected (N, nq) of arrays on a GPU, got shape {tuple(shape)}")
            N = int(shape[0])
            arrays = [_checked(name, value, (N, size)) for name, value, size in named]
            wrenches = None if fext is None else _checked("fext", fext, (N, nb + 1, 6))
        given = [_sent(one) for one in (*arrays, *([] if wrenches is None else [wrenches]))]
        out = cuda.device_array((N, nv) if count == 0 else (count, N, nv, nv))
        addresses = [_address(one) for one in given[: len(arrays)]]
        addresses += [addresses[2]] * (4 - len(addresses)) + [_address(given[-1])]
        failed = cuda.to_device(np.full(3, N))
        blocks = min(self.threads // THREADS, -(-N // THREADS))
        if N:
            grid_of(function)[blocks, THREADS](
                self._tree, _address(self._memory), self._numbers, N, nq, nv, 0 if fext is None else 6 * nb,
                self._spans, len(robot.unit_spans), *addresses, _address(out), failed,
            )  # fmt: skip
        _raise_failed(robot, failed.copy_to_host(), N)
        found = out.copy_to_host() if here else out
        results = [found] if count == 0 else [found[k] for k in range(count)]
        return [one[0] for one in results] if single else results


def _address(array: Any) -> int:
    """Address of an array in the memory of the GPU."""
    return int(array.__cuda_array_interface__["data"][0])


def _sent(array: Any) -> Any:
    """An array on the GPU, where it may be already."""
    return array if cuda.is_cuda_array(array) else cuda.to_device(np.ascontiguousarray(array))


def _checked(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """An argument of which some others are on the GPU: contiguous doubles of a shape."""
    if not cuda.is_cuda_array(value):
        return as_array(name, value, shape)
    array = cuda.as_cuda_array(value)
    if array.shape != shape or array.dtype != np.float64 or not array.is_c_contiguous():
        raise ProblemError(
            f"{name}: expected contiguous float64 of shape {shape}, got {array.dtype} of shape {array.shape}"
            + ("" if array.is_c_contiguous() else ", not contiguous")
        )
    return array


def _raise_failed(robot: Robot, failed: Any, N: int) -> None:
    """Raise the error of the first sample that failed."""
    if failed[0] < N:
        raise ProblemError(f"sample {failed[0]}: expected finite numbers")
    if failed[1] < N:
        raise ProblemError(f"q of sample {failed[1]}: expected unit quaternions and (cos, sin)")
    if failed[2] < N:
        raise ModelError(
            f"{robot.name}: the mass matrix of sample {failed[2]} is not positive definite, or accelerations overflow"
        )
