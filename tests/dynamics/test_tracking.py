"""Feedback under contacts: the part of errors that contacts leave free, and contacts held in velocity alone."""

import numpy as np
import pinocchio as pin
import pytest

import dynamics
from problems import gaits


@pytest.fixture(scope="module")
def trot():
    return gaits.trot("solo12")


def test_free_errors_move_no_foot_and_forbidden_ones_do_no_work_on_them(trot):
    system, robot = trot.dynamics, trot.dynamics.robot
    X = trot.guess[0][:-1]
    N = system.tracked.free_directions(X)
    feet = {name: standing for name, standing in _standing(system).items()}
    for k in range(0, len(X), 7):
        q = X[k, : robot.nq]
        data = robot.model.createData()
        M = pin.crba(robot.model, data, q)
        own = N[k, : robot.nv, : robot.nv]
        assert np.array_equal(own, N[k, robot.nv :, robot.nv :])
        assert not N[k, : robot.nv, robot.nv :].any()
        np.testing.assert_allclose(own @ own, own, atol=1e-10)
        np.testing.assert_allclose((np.eye(robot.nv) - own).T @ M @ own, 0.0, atol=1e-10)
        for foot, standing in feet.items():
            J = pin.computeFrameJacobian(robot.model, data, q, robot.frame_id(foot), pin.LOCAL_WORLD_ALIGNED)[:3]
            moved = np.abs(J @ own).max()
            assert moved < 1e-10 if standing[k] else moved > 0.1


def test_contacts_of_feedback_stop_velocities_and_pull_to_no_place(trot):
    system = trot.dynamics
    counts = [2 * phase.knots for phase in system.phases]
    fine = system.tracked.in_steps(counts, system.phase_durations)
    assert [phase.knots for phase in fine.phases] == counts
    np.testing.assert_allclose(fine.phase_durations, system.phase_durations)
    for phase, own in zip(system.phases, fine.phases, strict=True):
        assert [contact.frame for contact in own.contacts] == [contact.frame for contact in phase.contacts]
        assert all(contact.target is None and contact.gains == (0.0, 0.0) for contact in own.contacts)
        assert not own.held


def test_names_are_those_of_joints_and_their_numbers(trot):
    q, v, u = trot.dynamics.tracked.names()
    robot = trot.dynamics.robot
    assert q[:7] == [f"root_joint.{number}" for number in ("x", "y", "z", "qx", "qy", "qz", "qw")]
    assert (len(q), len(v), len(u)) == (robot.nq, robot.nv, 12)
    assert q[7:] == v[6:] == u == robot.joint_names[1:]


def test_the_same_robot_twice_as_heavy_is_held_twice_as_stiffly(trot):
    robot = trot.dynamics.robot
    model = robot.model.copy()
    for inertia in model.inertias:
        inertia.mass *= 2.0
    heavy = gaits.trot(dynamics.Robot(model, robot.q0))
    light, twice = (p.dynamics.tracked.weights(*p.guess).restoring for p in (trot, heavy))
    np.testing.assert_allclose(twice, 2.0 * light, rtol=1e-9)


def _standing(system):
    from problems.reaction import standing

    return standing(system)
