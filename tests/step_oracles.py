"""Derivatives of systems' steps by differences, along exponential coordinates of states and along controls."""

from functools import partial

import numpy as np
from oracles import fourth_order, hessian_of_blocks, relative_error

from ddp.machine.aligned import working_memory
from ddp.systems.structure import shape_of_second, structure_of
from ddp.systems.system import COUPLED, Expansion, expanded


def deviation(system, x, u, t):
    """The deviation of the step of knot t from its nominal one, as a function of (dx, du)."""
    after, n = system.step(x, u, t), system.n
    return lambda z: system.difference(after, system.step(system.integrate(x, z[:n]), u + z[n:], t))


def assert_first_order(system, X, U):
    """A and B of every knot are differences of its step."""
    for t, (x, u) in enumerate(zip(X, U, strict=True)):
        moved = deviation(system, x, u, t)
        basis = np.eye(system.n + system.nu)
        truth = np.stack([fourth_order(lambda s, e=e, moved=moved: moved(s * e)) for e in basis], axis=-1)
        assert relative_error(np.hstack(system.linearize(x, u, t)), truth) < 1e-8


def assert_second_order(system, X, U, h, rng):
    """Hessians of every knot, under a random weight, are second differences of its step along random directions."""
    for t, (x, u) in enumerate(zip(X, U, strict=True)):
        moved, weight = deviation(system, x, u, t), rng.normal(size=system.n)
        H = system.hessian(x, u, weight, t)
        assert np.array_equal(H, H.T)
        for _ in range(4):
            d = rng.normal(size=len(H))
            near, far = moved(h * d) + moved(-h * d), moved(2 * h * d) + moved(-2 * h * d)
            second = weight @ (16 * near - far - 30 * moved(0.0 * d)) / (12 * h * h)
            assert abs(d @ H @ d - second) < 1e-6 * np.abs(d) @ np.abs(H) @ np.abs(d) + 1e-7


def assert_blocks_are_hessians(system, X, U, rng):
    """Blocks of all knots at once are each one's Hessian, with weights on steps and on the forces of contacts."""
    N, known = len(U), structure_of(system, len(U))
    assert known.blockwise >= COUPLED
    whole, weights = expanded(system, X, U), rng.normal(size=(N, system.n))
    whole.record[:, system._modes.g :][:, : system.notes_size] = rng.normal(size=(N, system.notes_size))
    T = np.full((N, *shape_of_second(known, system.n, system.nu)), np.nan)
    H = np.empty((N, *[system.n + system.nu] * 2))
    working_memory(system._room_of_blocks)[:] = np.nan
    system.contract_batch(whole.record, weights, T)
    system.contract(whole.record, weights, H)
    for k in range(N):
        F = np.hstack([whole.A[k], whole.B[k]])
        assert relative_error(hessian_of_blocks(T[k], F, known.halves[1], known.blockwise), H[k]) < 1e-11
        system.contract_batch(whole.record[k : k + 1], weights[k : k + 1], alone := np.full_like(T[:1], np.nan))
        np.testing.assert_array_equal(alone[0], T[k])


def assert_memory_does_not_matter(system, X, U):
    """A knot's derivatives are the same bits behind knots of other modes and alone, in memory full of NaN."""
    n, N, nz = system.n, len(U), system.n + system.nu
    weight, whole = np.cos(np.arange(N * n)).reshape(N, n), Expansion.of(system, N, np.zeros)
    H, alone = np.empty((N, nz, nz)), np.empty((1, nz, nz))
    system.expand(X, U, whole)
    system.expand_second(X, U, whole)
    system.contract(whole.record, weight, H)
    for k in range(N):
        own = Expansion.of(system, 1, partial(np.full, fill_value=np.nan))
        working_memory(system._room_of_expansions)[:] = np.nan
        system.expand(X[k : k + 1], U[k : k + 1], own, k)
        system.expand_second(X[k : k + 1], U[k : k + 1], own, k)
        working_memory(system._room_of_contractions)[:] = np.nan
        system.contract(own.record, weight[k : k + 1], alone)
        for mine, truth in ((own.A, whole.A[k]), (own.B, whole.B[k]), (alone, H[k])):
            assert np.isfinite(truth).all()
            np.testing.assert_array_equal(mine[0], truth)
