"""Kernels for GPUs: their arithmetic with memory of threads side by side, their machine code, and what is refused."""

import importlib.util
import re
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError
from oracles import random_state, random_tree

import dynamics
from ddp.compiling.kernel import kernel
from ddp.errors import ModelError
from ddp.machine.memory import address_of, as_matrix, as_quads, floats_at, rows_at
from ddp.machine.simd import load
from ddp.machine.struct import Struct, integer, matrix, nested, reals, several
from dynamics.rigid_bodies import batch


def has_compiler():
    """Whether CUDA's compiler is there: an extra, with numba from 0.67 on, and not for macOS."""
    if importlib.util.find_spec("numba_cuda") is None or numba.version_info.short < (0, 67):
        return False
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        load_nvidia_dynamic_lib("nvrtc")
    except DynamicLibNotFoundError:
        return False
    return True


HAS_CUDA = has_compiler()
THREADS = 32
_apart = rows_at(types.float64, step=THREADS)


@kernel
def threads_one_by_one(tree, memory, N, nq, nv, q, v, a, weight, out, first, last):
    """Hessians of inverse dynamics and derivatives of forward dynamics as threads of a GPU make them."""
    square = nv * nv
    none = as_matrix(floats_at(out), 1, 0)
    for t in range(N):
        own = _apart(memory + 8 * t)
        x, y, z, w = (
            as_matrix(floats_at(q + 8 * t * nq), 1, nq), as_matrix(floats_at(v + 8 * t * nv), 1, nv),
            as_matrix(floats_at(a + 8 * t * nv), 1, nv), as_matrix(floats_at(weight + 8 * t * nv), 1, nv),
        )  # fmt: skip
        batch.inverse_dynamics_hessian(
            tree, own, x, y, z, w, none, as_matrix(floats_at(out + 8 * t * square), 4, N * square)
        )
        failed = batch.forward_dynamics_derivatives(
            tree, own, x, y, z, none, as_matrix(floats_at(first + 8 * t * square), 3, N * square)
        )
        last[t] = failed


@pytest.mark.parametrize("seed", range(12))
def test_numbers_32_apart_give_what_numbers_side_by_side_give(seed):
    robot, rng = random_tree(seed), np.random.default_rng(seed)
    N, nq, nv = 3, robot.nq, robot.nv
    q, v, a = (np.array(one) for one in zip(*(random_state(robot, rng) for _ in range(N)), strict=True))
    mu = rng.normal(size=(N, nv))
    memory = np.full((batch.size(robot.tree.nb, nq, nv), THREADS), np.nan)
    memory[:, N:] = 7.0
    out, first, failed = np.empty((4, N, nv, nv)), np.empty((3, N, nv, nv)), np.zeros(N, dtype=np.int64)
    addresses = [array.ctypes.data for array in (q, v, a, mu, out, first)]
    threads_one_by_one(robot.tree.address, memory.ctypes.data, N, nq, nv, *addresses, failed)
    assert (failed == -1).all()
    assert (memory[:, N:] == 7.0).all(), "a thread wrote to another's memory"
    scale = max(1.0, np.abs(out).max())
    for mine, theirs in zip(out, dynamics.inverse_dynamics_hessian(robot, q, v, a, mu), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13 * scale)
    for mine, theirs in zip(first, dynamics.forward_dynamics_derivatives(robot, q, v, a), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-11 * max(1.0, np.abs(theirs).max()))


@kernel
def read_register(address):
    return load(_apart(address), 0)[0]


@kernel
def read_quads(address):
    return as_quads(_apart(address))[0]


@kernel
def read_address(address):
    return address_of(_apart(address))


@pytest.mark.parametrize("read", [read_register, read_quads, read_address])
def test_registers_and_addresses_of_numbers_that_are_apart_are_refused(read):
    with pytest.raises(TypingError):
        read(0)


class Inner(Struct):
    x: np.ndarray = reals()


class Outer(Struct):
    n: int = integer()
    m: np.ndarray = matrix()
    inner: Inner = nested(Inner)
    others: tuple = several()


def test_words_of_a_copy_lead_to_copies_alone():
    inner = Inner(x=[1.0, 2.0])
    outer = Outer(n=3, m=np.eye(2), inner=inner, others=[inner, inner])
    copies = {}

    def place(array):
        copies[1000 + len(copies)] = np.array(array)
        return 999 + len(copies)

    n, start, pitch, count, nested_at, several_at = outer.words(place)
    assert (n, pitch, count) == (3, 2, 2)
    np.testing.assert_array_equal(copies[start], np.eye(2))
    for at in (nested_at, *copies[several_at]):
        np.testing.assert_array_equal(copies[copies[at][0]], [1.0, 2.0])


if HAS_CUDA:

    def test_a_kernel_compiles_for_hopper_with_few_spills(monkeypatch):
        from cuda.core import Linker, LinkerOptions, ObjectCode
        from numba import cuda

        from dynamics.extras import gpu

        # what a grid calls compiles for the device at hand, and there is none
        monkeypatch.setattr(cuda.dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
        ptx, _ = cuda.compile(gpu.grid_of(gpu._inverse_hessian).py_func, gpu.SIGNATURE, cc=(9, 0))
        options = LinkerOptions(arch="sm_90", ptxas_options=["-v"])
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
        assert linker.link("cubin").code
        stores = [int(found) for found in re.findall(r"(\d+) bytes spill stores", linker.get_info_log())]
        assert stores
        assert max(stores) <= 640  # 580 bytes, of 255 registers, with CUDA 13.5

    def test_machines_without_a_gpu_say_so():
        from numba import cuda

        from dynamics.extras.gpu import GpuDynamics

        if not cuda.is_available():
            with pytest.raises(ModelError, match="no GPU: expected an NVIDIA GPU with its driver"):
                GpuDynamics(dynamics.load("ur5"))
