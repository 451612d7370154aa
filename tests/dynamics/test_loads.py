"""Loads on rods and bodies: contact, water, wrenches of controls; residuals to second order against complex steps."""

import numpy as np
import pytest
from oracles import COMPLEX_STEP, complex_steps, relative_error
from rod_oracles import random_assembly

from ddp.compiling.kernel import kernel
from ddp.machine.aligned import working_memory
from ddp.machine.memory import as_matrix, memory_of, rows_of
from dynamics import ContactSprings, Cylinder, Plane, Water
from dynamics.rigid_bodies.kinematics import Workspace
from dynamics.rigid_bodies.passive import entries_of
from dynamics.rigid_bodies.residual import residual_by_controls, residual_derivatives, residual_hessian


@kernel
def residuals(tree, pulls, memory, Q, V, A, U, none, out):
    """R, R_q, R_v, M, R_u of samples, one after the other in rows of out."""
    Q, V, A, U, out = rows_of(Q), rows_of(V), rows_of(A), rows_of(U), rows_of(out)
    ws, nv = Workspace(memory_of(memory), tree), tree.nv
    for t in range(len(Q)):
        x = out[t]
        R, tau, by = x[: nv], x[nv : 2 * nv], x[2 * nv :]
        Rq, Rv, M = as_matrix(by, nv, nv), as_matrix(by[nv * nv :], nv, nv), as_matrix(by[2 * nv * nv :], nv, nv)
        residual_derivatives(tree, rows_of(pulls), Q[t], V[t], A[t], U[t], rows_of(none), ws, tau, R, Rq, Rv, M)
        Ru = as_matrix(by[3 * nv * nv :], nv, tree.cables)
        residual_by_controls(tree, rows_of(pulls)[:0], Q[t], 1.0, 0, ws, Ru)


@kernel
def hessian(tree, memory, q, v, a, u, omega, none, out):
    """qq, qv, vv, qa, qu of one sample, one after the other."""
    ws, nv, x = Workspace(memory_of(memory), tree), tree.nv, rows_of(out)
    qq, qv, vv, qa = (
        as_matrix(x, nv, nv), as_matrix(x[nv * nv :], nv, nv), as_matrix(x[2 * nv * nv :], nv, nv),
        as_matrix(x[3 * nv * nv :], nv, nv),
    )  # fmt: skip
    qu = as_matrix(x[4 * nv * nv :], nv, tree.cables)
    residual_hessian(
        tree, rows_of(q), rows_of(v), rows_of(a), rows_of(u), rows_of(omega), rows_of(none), ws, qq, qv, vv, qa, qu
    )


class Residual:
    """R of a robot and its derivatives, for floats and complex numbers."""

    def __init__(self, robot):
        self.tree, self.nq, self.nv = robot.resisting(False, True), robot.nq, robot.nv
        self.cables = robot.tree.cables
        self.pulls = entries_of(np.zeros((robot.nv, max(self.cables, 1))))

    def first(self, q, v, a, u):
        """R, R_q, R_v, M, R_u of samples."""
        kind = np.result_type(q, v, a, u)
        N, nv = len(q), self.nv
        given = [np.ascontiguousarray(x, kind) for x in (q, v, a, np.hstack([u, np.zeros((N, 1))]))]
        memory, size = np.zeros(Workspace.size(self.tree), kind), nv * nv
        out = np.zeros((N, 2 * nv + 3 * size + nv * self.cables), kind)
        residuals(self.tree, self.pulls, memory, *given, np.zeros((0, 6), kind), out)
        by = out[:, 2 * nv : 2 * nv + 3 * size].reshape(N, 3, nv, nv)
        return out[:, :nv], by[:, 0], by[:, 1], by[:, 2], out[:, 2 * nv + 3 * size :].reshape(N, nv, -1)

    def second(self, q, v, a, u, omega):
        """Blocks of the Hessian of ω·R."""
        nv, out = self.nv, np.zeros(4 * self.nv**2 + self.nv * self.cables)
        hessian(self.tree, working_memory(Workspace.size(self.tree), 1), q, v, a, np.append(u, 0.0), omega,
                np.zeros((0, 6)), out)  # fmt: skip
        return *out[: 4 * nv * nv].reshape(4, nv, nv), out[4 * nv * nv :].reshape(nv, -1)


def assert_exact(robot, rng, speed=1.0, bars=(1e-12, 1e-11)):
    f = Residual(robot)
    q, (v, a, omega) = robot.random_configuration(rng), speed * rng.normal(size=(3, robot.nv))
    u = rng.normal(size=f.cables)
    R, *first = f.first(*(x[None] for x in (q, v, a, u)))
    assert np.isfinite(R).all()
    found = [f.first(*complex_steps(f, (q, v, a, u), along)) for along in range(4 if f.cables else 3)]
    for k, (mine, by) in enumerate(zip(first, found, strict=False)):
        assert relative_error(mine[0], by[0].imag.T / COMPLEX_STEP) < bars[0], k
    second = f.second(q, v, a, u, omega)
    (_, q_q, q_v, q_a, q_u), (_, _, v_v, *_), *_ = found
    truths = [  # row first derivative, column second
        np.einsum("i,kij->jk", omega, q_q.imag / COMPLEX_STEP), np.einsum("i,kij->kj", omega, q_v.imag / COMPLEX_STEP),
        np.einsum("i,kij->kj", omega, v_v.imag / COMPLEX_STEP), np.einsum("i,kij->kj", omega, q_a.imag / COMPLEX_STEP),
        np.einsum("i,kij->kj", omega, q_u.imag / COMPLEX_STEP),
    ]  # fmt: skip
    for k, (mine, truth) in enumerate(zip(second, truths, strict=True)):
        if truth.size:
            assert relative_error(mine, truth) < bars[1], k


SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_wrenches_of_controls_are_exact(seed, rng):
    build, frames = random_assembly(seed)
    rod = build.rods[min(build.rods)].name
    build.wrench("dead", frames[-1]).wrench("following", frames[-2], follows=True)
    build.wrench("dead, within", f"{rod}/2").wrench("following, within", f"{rod}/1", follows=True)
    assert_exact(build.robot(), rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_springs_of_contact_are_exact(seed, rng):
    build, _ = random_assembly(seed)
    tilted, smoothing = [0.3, -0.5, 1.0], [0.0, 0.01][seed % 2]
    build.contact(ContactSprings(Plane([0.1, 0.0, 0.3], tilted), 1e3, 1.5, smoothing))
    build.contact(ContactSprings(Cylinder([0.1, 0.2, 0.0], tilted, 0.2), 1e3, 2.5, smoothing))
    assert_exact(build.robot(), rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_water_is_exact(seed, rng):
    build, _ = random_assembly(seed)
    build.water(Water(1200.0, (0.5, 1.0, 1.5), (0.2, 1.0, 1.3)))
    assert_exact(build.robot(), rng)
