"""The tiled knot of the sweep against dense algebra."""

import numpy as np
import pytest
from oracles import random_blocks

from ddp.compiling.kernel import kernel
from ddp.sweeps.riccati import (
    action_value,
    add_blocks,
    add_coupling,
    add_ends,
    bend,
    factorize,
    forget_idle,
    load_hessian,
    load_step,
    policy,
    value,
)
from ddp.sweeps.room import RoomOwner, read_room
from ddp.systems.structure import numbers_of_blocks
from ddp.systems.system import COUPLED, ENDING, MOTIONS

NO_BLOCKS = np.zeros((0, 0))
SIZES = [(2, 1), (4, 1), (12, 6), (14, 7), (12, 4), (36, 12), (76, 32), (5, 3), (9, 13), (1, 2)]


@kernel
def sweep(room, h, bent, A, B, H, l, k, K, T, factor, in_blocks):
    """All knots; the room's value comes in as that of the end and goes out as that of the start. Failed knot, or -1.

    T (N, .): second orders, ``in_blocks``, which are added ``factor`` times; (0, .) if there are none.
    """
    r = read_room(room)
    N = len(l)
    for t in range(N - 1, -1, -1):
        load_hessian(r, H[t].ctypes.data)
        load_step(r, bent, A[t].ctypes.data, B[t].ctypes.data)
        blocks = T[t].ctypes.data if len(T) > 0 else 0
        if blocks != 0:
            bend(r, factor, blocks, bent)
            if in_blocks == ENDING:
                add_ends(r, factor, blocks, bent)
        action_value(r, h[t:], bent, 2, r.Q, r.ld, l[t].ctypes.data, factor, blocks)
        if blocks != 0:
            add_blocks(r, factor, blocks)
            if in_blocks >= COUPLED:
                add_coupling(r, factor, blocks, bent)
        forget_idle(r)
        if not factorize(r):
            return t
        policy(r, k[t].ctypes.data, K[t].ctypes.data)
        value(r)
    return -1


def dense_sweep(F, H, l, V, v):
    """The recursion as it is written, by numpy."""
    n = len(v)
    k, K = [], []
    for t in range(len(F) - 1, -1, -1):
        Q, q = H[t] + F[t].T @ V @ F[t], l[t] + F[t].T @ v
        gains = -np.linalg.solve(Q[n:, n:], np.column_stack([q[n:], Q[n:, :n]]))
        k.append(gains[:, 0])
        K.append(gains[:, 1:])
        V, v = Q[:n, :n] + Q[:n, n:] @ K[-1], q[:n] + Q[:n, n:] @ k[-1]
        V = 0.5 * (V + V.T)
    return np.array(k[::-1]), np.array(K[::-1]), V, v


def random_problem(rng, N, n, nu):
    nz = n + nu
    F = np.concatenate([np.eye(n) + 0.3 / np.sqrt(n) * rng.normal(size=(N, n, n)), rng.normal(size=(N, n, nu))], 2)
    root = rng.normal(size=(N, nz, nz)) / np.sqrt(nz)
    V = rng.normal(size=(n, n))
    return F, root @ root.transpose(0, 2, 1) + np.eye(nz), rng.normal(size=(N, nz)), V @ V.T / n, rng.normal(size=n)


def swept(h, bent, F, H, l, V, v, T=NO_BLOCKS, factor=0.0, in_blocks=0):
    N, nz = l.shape
    n = len(v)
    room = RoomOwner(n, nz - n, np.max(h) > 0.0, len(bent))
    room.V[:], room.v[:2] = V, v
    k, K = np.empty((N, nz - n)), np.empty((N, nz - n, n))
    A, B = np.ascontiguousarray(F[:, :, :n]), np.ascontiguousarray(F[:, :, n:])
    steps, rows = np.broadcast_to(h, N).copy(), np.array(bent, np.int64).reshape(-1, 2)
    failed = sweep(room.address, steps, rows, A, B, H, l, k, K, T, factor, in_blocks)
    return failed, k, K, room.V, room.v[0]


def close(got, expected):
    """Relative to the largest entry: to rounding, which a dozen knots amplify."""
    return np.abs(got - expected).max() <= 1e-11 * np.abs(expected).max()


@pytest.mark.parametrize(("n", "nu"), SIZES)
def test_the_tiled_sweep_is_the_dense_recursion(n, nu):
    problem = random_problem(np.random.default_rng(n), 7, n, nu)
    failed, *got = swept(0.0, [], *problem)
    assert failed == -1
    assert all(close(a, b) for a, b in zip(got, dense_sweep(*problem), strict=True))


@pytest.mark.parametrize(("n", "nu"), [size for size in SIZES if size[0] % 2 == 0])
@pytest.mark.parametrize("bent", [[], [(0, 6)], [(1, 3), (4, 2)]])
def test_a_semi_implicit_step_gives_what_its_dense_form_gives(n, nu, bent):
    m, N, h = n // 2, 5, np.array([0.1, 0.0, 0.2, 0.0, 0.1])
    bent = [(i, size) for i, size in bent if i + size <= m]
    rng = np.random.default_rng(n)
    F, *rest = random_problem(rng, N, n, nu)
    F[:, :m] = h[:, None, None] * F[:, m:]
    F[:, :m, :m] += np.eye(m)
    for i, size in bent:
        F[:, i : i + size] = rng.normal(size=(N, size, n + nu))
    failed, *got = swept(h, bent, F, *rest)
    assert failed == -1
    assert all(close(a, b) for a, b in zip(got, dense_sweep(F, *rest), strict=True))


@pytest.mark.parametrize(("n", "nu"), [(2, 1), (12, 6), (12, 4), (14, 7), (36, 12)])
@pytest.mark.parametrize("bent", [[], [(0, 6)], [(1, 3), (4, 2)]])
@pytest.mark.parametrize("h", [0.0, 0.1])
@pytest.mark.parametrize("in_blocks", [MOTIONS, COUPLED, ENDING])
def test_a_second_order_in_blocks_is_one_in_z(n, nu, bent, h, in_blocks):
    """Of δq, δv, δx' = F δz and δu it is a Hessian in z = (δq, δv, δu)."""
    m, N, factor = n // 2, 5, 0.7
    bent = [(i, size) for i, size in bent if i + size <= m]
    rng = np.random.default_rng(n + len(bent))
    F, H, *rest = random_problem(rng, N, n, nu)
    if h > 0.0:
        F[:, :m] = h * F[:, m:]
        F[:, :m, :m] += np.eye(m)
        for i, size in bent:
            F[:, i : i + size] = rng.normal(size=(N, size, n + nu))
    T, dense = np.zeros((N, numbers_of_blocks(m, np.reshape(bent, (-1, 2)), in_blocks, nu))), H.copy()
    for t in range(N):
        T[t], whole = random_blocks(rng, F[t], bent, in_blocks)
        dense[t] += factor * whole
    failed, *got = swept(h, bent, F, H, *rest, T.reshape(N, -1), factor, in_blocks)
    assert failed == -1
    assert all(close(a, b) for a, b in zip(got, dense_sweep(F, dense, *rest), strict=True))


@pytest.mark.parametrize("nu", [1, 2, 5, 7, 12])
@pytest.mark.parametrize("poison", [-10.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_is_found_wherever_it_is(nu, poison):
    n, N = 4, 6
    for control in range(nu):
        F, H, l, V, v = random_problem(np.random.default_rng(control), N, n, nu)
        F[2, :, n:] = 0.0
        H[2, n + control, n + control] = poison
        assert swept(0.0, [], F, H, l, V, v)[0] == 2


def test_a_control_that_acts_on_nothing_is_left_alone():
    N, n, nu = 4, 6, 8
    F, H, l, V, v = random_problem(np.random.default_rng(0), N, n, nu)
    idle, busy = [1, 6], [0, 2, 3, 4, 5, 7]
    F[:, :, [n + i for i in idle]] = 0.0
    H[:, [n + i for i in idle]] = 0.0
    H[:, :, [n + i for i in idle]] = 0.0
    l[:, [n + i for i in idle]] = 0.0
    kept = [*range(n), *(n + i for i in busy)]
    failed, k, K, _, _ = swept(0.0, [], F, H, l, V, v)
    expected_k, expected_K, _, _ = dense_sweep(F[:, :, kept], H[:, kept][:, :, kept], l[:, kept], V, v)
    assert failed == -1
    assert not k[:, idle].any()
    assert not K[:, idle].any()
    assert close(k[:, busy], expected_k)
    assert close(K[:, busy], expected_K)
