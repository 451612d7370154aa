"""The full-space step and its multipliers against the conditions of its quadratic model, knot by knot."""

from dataclasses import replace
from functools import partial

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET

import ddp
import dynamics
from ddp.constraints import row_table
from ddp.interior import passes, trials
from ddp.interior.point import Point
from ddp.parallel.workers import Workers, differentiator
from dynamics import Contact, Phase, PhasedDynamics
from problems import arm, cartpole, quadrotor
from problems.costs import ControlCost, StateCost
from tests.benchmarks.optimisers import limited


def standing(held):
    """anymal that stands, lifts two feet and strikes the ground with these; others are held in place, or not."""
    robot = dynamics.load("anymal")
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    feet = [Contact(name, target=data.oMf[robot.frame_id(name)].translation) for name in FEET["anymal"]]
    phases = [Phase(feet, 3, held=held), Phase(feet[:2], 3, held=held), Phase(feet[:2], 3, feet[2:], held=held)]
    system = PhasedDynamics(robot, 0.02, phases)
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    running = [StateCost(system, x0, 1.0), ControlCost(system.nominal_control(x0), 1e-3)]
    return ddp.Problem(system, running, [], x0, system.knots)


FREE = [(cartpole.swing_up, 0.1), (arm.reach, 0.1), (quadrotor.loop, 0.1)]


@pytest.mark.parametrize(
    ("build", "away"), [*FREE, (partial(standing, False), 0.1), (partial(standing, True), 0.01)]
)
@pytest.mark.parametrize("blend", [0.0, 0.5, 1.0])
def test_multipliers_of_a_step_make_the_gradient_of_its_model_vanish(rng, build, away, blend):
    problem, mu = build(), 1e3
    system = problem.dynamics
    n = system.n
    U = np.tile(system.nominal_control(problem.x0), (problem.horizon, 1))
    U += 0.1 * rng.normal(size=U.shape)
    X = system.integrate(system.rollout(problem.x0, U), away * rng.normal(size=(len(U) + 1, n)))
    X[0] = problem.x0
    with differentiator(problem, Workers(1)) as work:
        point = Point(problem, work, X, U, 1.0, 0.01)
        point.differentiate()
        weights = rng.normal(size=point.weights.shape)
        point.weights[:] = weights
        point.judge()
        X, U = point.X.copy(), point.U.copy()
        assert point.propose(blend, mu, False).failed == -1
        point.do(trials.accept, point.do(trials.along, 1.0, np.inf), 1.0)
        d = work.derivatives
        for t, (x, u) in enumerate(zip(point.x, point.u, strict=False)):
            H = np.diag(d.diagonal[t]) if problem.separable[t] else blend * d.exact[t] + (1.0 - blend) * d.lzz[t]
            H = H + mu * np.eye(len(H)) + blend * system.hessian(X[t], U[t], weights[t], t)
            gradient = d.lz[t] + H @ np.concatenate([x, u]) + np.hstack([d.A[t], d.B[t]]).T @ point.weights[t]
            gradient[:n] -= point.costate[t]
            size = 1.0 + np.abs(d.lz[t]).max() + np.abs(point.weights[t]).max()
            np.testing.assert_allclose(gradient, 0.0, atol=1e-12 * size)
    assert np.abs(point.x).max() > 1e-6


def test_swept_hessians_are_those_of_costs_and_rows_whatever_was_written_to_them_before(rng):
    """Of costs that are diagonal, and rows that have first columns alone, columns of their own, or any."""
    whole = ddp.Inequality(lambda x, u: x[7] * u[2] * np.cos(x[1]), upper=1.0)
    problem = replace(limited.cluttered_reach(), constraints_at={3: [whole]})
    system, N = problem.dynamics, problem.horizon
    X, U = np.tile(problem.x0, (N + 1, 1)) + 0.1 * rng.normal(size=(N + 1, system.nx)), rng.normal(size=(N, system.nu))
    X[0] = problem.x0
    with differentiator(problem, Workers(1)) as work, np.errstate(all="ignore"):
        for _ in range(2):
            point = Point(problem, work, X, U, 1.0, 0.01)
            point.differentiate()
            point.judge()
            point.do(passes.condense)
            rows, own, bounds, d = point.rows, point.place.own, point.bounds, work.derivatives
            diagonal = problem.separable[:, None, None]
            H = np.where(diagonal, np.eye(d.lz.shape[1]) * d.diagonal[:, None], d.exact)
            nowhere = np.zeros(N + 1, dtype=np.int64)
            row_table.add_squares(rows.table, own["J"], bounds.w, nowhere, H, d.diagonal)
            rows.add_curvature(X, point.U, own["factors"] * bounds.y, H)
            touched, found = rows.touched, own["to_exact"]
            assert (touched[3], touched[4], *diagonal[:-1]) == (system.n + 3, system.n // 2, *[True] * N)
            np.testing.assert_allclose(found, H, rtol=1e-13, atol=1e-13 * np.abs(H).max())
            found[:] = own["to_lzz"][:] = np.nan
