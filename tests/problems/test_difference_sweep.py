"""Linearisation of a moving base: the sweep of differences, and the four requirements of its paper, one test each."""

import numpy as np
import pinocchio as pin
import pytest
import scipy.linalg
from complex_flow import accelerations_by_complex_step
from moving_base import Recursions
from oracles import relative_error
from thorough import cases

import dynamics
import viz
from problems import linearization


@pytest.fixture(scope="module")
def robot():
    return linearization.branched()


@pytest.fixture(scope="module")
def state(robot):
    return linearization.perturbed(robot)


def accelerations_of(robot, state):
    """∂a/∂(q, v) (nv, 2 nv) by complex step."""
    unloaded = np.zeros((robot.model.njoints, 6))
    return accelerations_by_complex_step(robot, *state, unloaded, np.empty((robot.nv, 0)))


def with_base(robot, state, R, p=(0.3, -0.2, 0.5)):
    """The state with its base at a pose."""
    q = state.q.copy()
    q[:7] = pin.SE3ToXYZQUAT(pin.SE3(R, np.array(p)))
    return state._replace(q=q)


def linearized(robot, state):
    return dynamics.linearize(robot, *state).A


def test_the_robot_is_the_papers(robot, state):
    kinds = {joint.shortname().removeprefix("JointModel")[0] for joint in list(robot.model.joints)[2:]}
    assert kinds == {*"RPH"}  # revolute, prismatic, helical
    assert (state.q[7:] == linearization.POSITION).all()
    numbers = np.abs(np.concatenate([state.v, state.tau, dynamics.forward_dynamics(robot, *state)]))
    assert len(np.unique(numbers)) == 3 * robot.nv
    assert np.bincount(robot.tree.parent[1:]).max() > 1  # it forks


def test_exact_differences_converge_to_the_linearisation_until_rounding(robot, state):
    found = linearization.sweep(robot, state)
    one_sided, central, rounding = found.slopes
    assert abs(one_sided - 1.0) < 0.05
    assert abs(central - 2.0) < 0.05
    assert abs(rounding + 1.0) < 0.1
    assert found.floor <= 1e-8
    assert found.ok
    assert relative_error(linearized(robot, state)[robot.nv :], accelerations_of(robot, state)) < 1e-12


def test_singularity_free_at_every_attitude_of_the_base(robot, state, rng):
    """A pitch of ±90 degrees is as good as any; and without gravity no attitude makes a difference at all."""
    upright = [pin.rpy.rpyToMatrix(0.4, s * np.pi / 2, -0.7) for s in (1.0, -1.0)]
    for R in (*upright, *(pin.exp3(2.0 * rng.normal(size=3)) for _ in range(5))):
        turned = with_base(robot, state, R)
        truth = accelerations_of(robot, turned)
        assert relative_error(linearized(robot, turned)[robot.nv :], truth) < 1e-12
    weightless = linearization.branched(gravity=np.zeros(3))
    still, *others = (linearized(weightless, with_base(weightless, state, R)) for R in (np.eye(3), *upright))
    assert np.abs(still[weightless.nv :, :6]).max() < 1e-12 * np.abs(still).max()
    for other in others:
        assert relative_error(other, still) < 1e-12


def test_moving_base_is_linearised_along_with_its_joints(robot, state, rng):
    """Twelve of the columns are the base's: A is that of the flow, and does not see where the base is, nor its yaw."""
    A, n = linearized(robot, state), 2 * robot.nv
    assert A.shape == (n, n) == (24, 24)
    assert np.abs(A[:, :3][robot.nv :]).max() < 1e-12 * np.abs(A).max()  # gravity is uniform
    R = pin.XYZQUATToSE3(state.q[:7]).rotation
    elsewhere = with_base(robot, state, pin.rpy.rpyToMatrix(0.0, 0.0, 1.1) @ R, p=rng.normal(size=3))
    assert relative_error(linearized(robot, elsewhere), A) < 1e-12
    twist = scipy.linalg.block_diag(-pin.Motion(state.v[:6]).action, np.zeros((6, 6)))
    np.testing.assert_allclose(A[:12], np.hstack([twist, np.eye(12)]), atol=1e-14)


def test_recursive_formulas_of_the_paper_give_the_same_matrices(robot, state):
    a = dynamics.forward_dynamics(robot, *state)
    paper = Recursions(robot, state.q, state.v, a)
    assert relative_error(paper.torques(), state.tau) < 1e-12
    inverse = paper.inverse_mass_matrix()
    assert relative_error(dynamics.inverse_mass_matrix(robot, state.q), inverse) < 1e-12
    by_state = np.hstack(paper.by_state())
    ours = dynamics.inverse_dynamics_derivatives(robot, state.q, state.v, a)
    assert relative_error(np.hstack([ours.dq, ours.dv]), by_state) < 1e-12
    assert relative_error(linearized(robot, state)[robot.nv :], -inverse @ by_state) < 1e-12


def test_wrong_matrices_are_told(robot, state):
    found = linearization.sweep(robot, state)
    floor = np.maximum(found.central, 1e-6 * found.scale)
    assert not linearization.DifferenceSweep(found.deltas, found.one_sided, floor, found.scale).ok
    assert "WRONG" in str(linearization.DifferenceSweep(found.deltas, found.one_sided, floor, found.scale))


def test_a_figure_of_the_errors_is_written(robot, state, tmp_path):
    found = linearization.sweep(robot, state, 10.0 ** np.arange(-1.0, -13.0, -1.0))
    errors = {"one-sided": found.one_sided, "central": found.central}
    for suffix in cases([".png", ".pdf", ".svg"], [".svg"]):
        path = viz.plot_differences(found.deltas, errors, tmp_path / f"sweep{suffix}", "errors")
        assert path.stat().st_size > 1000
