"""Implicit steps: both orders, stiff springs, energy, motions that no step follows, solvers, any number of workers."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of, random_tree, sprung
from step_oracles import assert_first_order, assert_second_order

import ddp
import dynamics
from ddp.errors import ModelError
from dynamics import Robot, RobotDynamics
from dynamics.robots.equipment import Equipment
from dynamics.steps.implicit_steps import METHODS
from problems.costs import ControlCost, StateCost

IMPLICIT = (*METHODS,)


@pytest.mark.parametrize("integrator", IMPLICIT)
@pytest.mark.parametrize("seed", range(6))
def test_both_orders_are_differences_of_steps_of_random_trees(integrator, seed, rng):
    robot = random_tree(seed, bodies=5)
    robot = sprung(robot, rng) if robot.model.nq - robot.nv < robot.nv else robot
    system = RobotDynamics(robot, 0.02, rng.normal(size=(robot.nv, 3)), integrator, damping=True)
    x, u = np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)]), rng.normal(size=3)
    assert_first_order(system, x[None], u[None])
    assert_second_order(system, x[None], u[None], 5e-3, rng)


def stiff_arm(stiffness, damping):
    """A UR5 with springs in all joints."""
    model = dynamics.load("ur5").model.copy()
    model.damping = np.full(6, damping)
    return Robot(model, equipment=Equipment(stiffness=np.full(6, stiffness), springref=np.full(6, 0.3)))


@pytest.mark.parametrize("integrator", ["implicit-euler", "sdirk2"])
def test_stiff_springs_that_explicit_steps_cannot_follow_come_to_rest(integrator):
    """Springs of 1e7 N m/rad hold the arm where Pinocchio's gravity and they balance; a fine step is 1e-5 s there."""
    robot, dt = stiff_arm(1e7, 1e3), 0.02
    x0, U = np.concatenate([robot.q0, np.zeros(6)]), np.zeros((100, 6))
    assert not np.isfinite(RobotDynamics(robot, dt, integrator="rk4", damping=True).rollout(x0, U)).all()
    X = RobotDynamics(robot, dt, integrator=integrator, damping=True).rollout(x0, U)
    gravity = pin.rnea(robot.model, robot.model.createData(), X[-1, :6], np.zeros(6), np.zeros(6))
    np.testing.assert_allclose(-1e7 * (X[-1, :6] - 0.3), gravity, rtol=0, atol=1e-6)
    assert np.abs(X[-1, 6:]).max() < 1e-12


def test_the_midpoint_rule_keeps_energy_for_long():
    """Bounded by h², without drift: a chain of groups, free, with gravity; backward Euler's loses much of it."""
    robot = chain_of("spherical", "revolute", "planar")
    rng = np.random.default_rng(3)
    x0 = np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)])

    def energies(dt, integrator):
        system = RobotDynamics(robot, dt, np.eye(robot.nv), integrator)
        X = system.rollout(x0, np.zeros((round(4.0 / dt), robot.nv)))
        return dynamics.energy(robot, X[:, : robot.nq], X[:, robot.nq :])

    coarse, fine = energies(2e-3, "implicit-midpoint"), energies(1e-3, "implicit-midpoint")
    errors = [np.abs(E - E[0]).max() / np.ptp(energies(2e-3, "implicit-euler")) for E in (coarse, fine)]
    assert 3.0 < errors[0] / errors[1] < 5.0
    assert errors[1] < 1e-2


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_wild_states_end_as_no_numbers_and_disturb_no_other_lane(integrator, rng):
    robot = random_tree(5)
    system = RobotDynamics(robot, 0.01, np.eye(robot.nv), integrator)
    X = np.stack([np.r_[robot.random_configuration(rng), rng.normal(size=robot.nv)] for _ in range(8)])
    U = rng.normal(size=(8, robot.nv))
    calm = system.step(X, U)
    X[2, robot.nq :], U[5] = 1e9, 1e200
    after = system.step(X, U)
    assert np.isnan(after[5, robot.nq :]).all()
    np.testing.assert_array_equal(np.delete(after, (2, 5), axis=0), np.delete(calm, (2, 5), axis=0))


def reach(integrator, dt=0.05, N=20):
    robot = stiff_arm(200.0, 20.0)
    system = RobotDynamics(robot, dt, integrator=integrator, damping=True)
    x0, goal = np.r_[robot.q0, np.zeros(6)], np.r_[robot.q0 + 0.5, np.zeros(6)]
    near = StateCost(system, goal, np.r_[np.full(6, 10.0), np.full(6, 0.1)])
    return ddp.Problem(system, [near, ControlCost(np.zeros(6), np.full(6, 1e-4))], [near], x0, N)


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_solvers_converge_and_derivatives_of_the_problem_are_right(integrator, rng):
    problem = reach(integrator)
    U = rng.normal(size=(20, 6))
    assert ddp.check_derivatives(problem, problem.dynamics.rollout(problem.x0, U), U).ok
    exact, gauss_newton = ddp.solve(problem, ddp.DDP()), ddp.solve(problem, ddp.ILQR())
    assert exact.converged
    assert gauss_newton.converged
    assert abs(exact.cost - gauss_newton.cost) < 1e-8 * exact.cost


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_results_are_equal_to_the_last_bit_for_any_number_of_workers(integrator):
    alone, *others = (ddp.solve(reach(integrator), workers=workers) for workers in (1, 2, 3))
    for other in others:
        np.testing.assert_array_equal(alone.X, other.X)
        np.testing.assert_array_equal(alone.U, other.U)


def test_massless_bodies_with_friction_move_as_far_as_that_lets_them(rng):
    """No mass matrix is inverted: without inertia motion obeys d v = τ."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "slide")
    model.appendBodyToJoint(joint, pin.Inertia(1e-12, np.zeros(3), 1e-12 * np.eye(3)), pin.SE3.Identity())
    model.damping = np.array([2.0])
    system = RobotDynamics(Robot(model), 0.1, integrator="implicit-euler", damping=True)
    np.testing.assert_allclose(system.step(np.zeros(2), np.array([3.0])), [0.15, 1.5], rtol=1e-10)


def test_steps_that_newtons_method_does_not_find_say_so(rng):
    robot = random_tree(7, bodies=4)
    system = RobotDynamics(robot, 0.1, integrator="implicit-euler")
    with pytest.raises(ModelError, match="or Newton's method does not converge: take shorter"):
        system.linearize(np.append(robot.q0, 1e3 * rng.normal(size=robot.nv)), np.zeros(system.nu))
