"""Feedback under contacts: the part of errors that contacts leave free, and contacts held in velocity alone."""

import numpy as np
import pinocchio as pin
import pytest

import dynamics
from dynamics.phases.tracking import stiffness
from dynamics.quantities.units import Units
from problems import gaits


@pytest.fixture(scope="module")
def trot():
    return gaits.trot("solo12")


def test_free_errors_move_no_foot_and_forbidden_ones_do_no_work_on_them(trot):
    system, robot = trot.dynamics, trot.dynamics.robot
    X = trot.guess[0][:-1]
    N, _ = system.tracked.free_and_resisted(X)
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


@pytest.mark.parametrize("gait", [gaits.jump, gaits.step])
def test_errors_that_are_free_keep_the_velocities_of_feet_that_stand(gait, rng):
    """Of moving legs, too, whose other posture would give their feet a speed: to first order, by Pinocchio."""
    problem = gait("talos_legs" if gait is gaits.step else "solo12")
    system, robot, X = problem.dynamics, problem.dynamics.robot, problem.guess[0][:-1]
    X = system.integrate(X, np.hstack([np.zeros((len(X), robot.nv)), rng.normal(size=(len(X), robot.nv))]))
    free, data = system.tracked.free_and_resisted(X)[0], robot.model.createData()

    def speeds(x, contacts):
        pin.forwardKinematics(robot.model, data, x[: robot.nq], x[robot.nq :])
        frames = [robot.frame_id(contact.frame) for contact in contacts]
        axes = [pin.LOCAL if contact.size == 6 else pin.LOCAL_WORLD_ALIGNED for contact in contacts]
        pin.updateFramePlacements(robot.model, data)
        found = [pin.getFrameVelocity(robot.model, data, *frame).vector for frame in zip(frames, axes, strict=True)]
        return np.concatenate([one[: contact.size] for one, contact in zip(found, contacts, strict=True)])

    for k in range(0, len(X), 7):
        if contacts := system.phase_of(k).contacts:
            e = 1e-4 * free[k] @ rng.normal(size=system.n)
            before, after = (speeds(system.integrate(X[k], sign * e), contacts) for sign in (-1.0, 1.0))
            assert np.abs(e[: robot.nv]).max() > 1e-5
            np.testing.assert_allclose(after, before, atol=1e-9)


@pytest.mark.parametrize("gait", [gaits.trot, gaits.step])
def test_motions_of_joints_that_move_no_foot_that_stands_resist_nothing(gait):
    """By inertia a light wrist gets a part of what a foot may not do; stiffness of legs would turn it by radians."""
    problem = gait("talos" if gait is gaits.step else "solo12")
    system, robot, X = problem.dynamics, problem.dynamics.robot, problem.guess[0][:-1]
    free, resisted = system.tracked.free_and_resisted(X)
    for k in range(0, len(X), 7):
        contacts = system.phase_of(k).contacts
        feet = [robot.model.frames[robot.frame_id(contact.frame)].parentJoint for contact in contacts]
        legs = {j for foot in feet for j in robot.model.supports[foot]}
        of = np.array([robot.tree.body[i] + 1 in legs for i in range(robot.nv)])
        of[:6], moving = False, np.zeros((robot.nv, robot.nv))
        if contacts:
            J = np.vstack([contact.jacobian(robot, X[k, : robot.nq]) for contact in contacts])
            _, sizes, V = np.linalg.svd(J[:, of], full_matrices=False)
            kept = V[sizes > 0.03 * sizes[0]]  # straight legs hardly move their feet along themselves
            moving[np.ix_(of, of)] = kept.T @ kept
        expected = np.kron(np.eye(2), moving) @ (np.eye(system.n) - free[k])
        np.testing.assert_allclose(resisted[k], expected, atol=1e-9)


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


def test_cones_are_the_first_order_of_contact_forces(trot):
    """Against a dense solve of motion and contacts: exact in controls, by differences in states."""
    system, robot, rng = trot.dynamics, trot.dynamics.robot, np.random.default_rng(0)
    tracked = system.tracked.in_steps([phase.knots for phase in system.phases], system.phase_durations)
    X, U = trot.guess
    X = X + 0.0
    X[:, robot.nq :], U = 0.3 * rng.normal(size=(len(X), robot.nv)), U + 0.3 * rng.normal(size=U.shape)
    assert tracked.tracked.cones(X, U, 1e9) is None  # of which it needs a part
    found, angles = tracked.tracked.cones(X, U, 0.5), 2.0 * np.pi * np.arange(8) / 8.0
    pyramid = np.stack([np.cos(angles), np.sin(angles), np.full(8, -0.5 * np.cos(np.pi / 8.0))], axis=1)
    feet = list(_standing(system))
    for k in (3, 40, len(U) - 2):
        held = [foot for foot in feet if _standing(system)[foot][k]]
        R, nu = np.kron(np.eye(len(held)), pyramid), system.nu

        def force(dx, du, k=k, held=held):
            q, v = np.split(system.integrate(X[k], dx), [robot.nq])
            return _held_forces(robot, q, v, system.actuation @ (U[k] + du), held)

        still = force(np.zeros(system.n), np.zeros(nu))
        by_u = R @ np.stack([force(np.zeros(system.n), du) - still for du in np.eye(nu)], axis=1)
        long, rows = np.linalg.norm(by_u, axis=1), slice(len(R))
        np.testing.assert_allclose(found.C[k, rows] * long[:, None], by_u, atol=1e-8 * long.max())
        room = np.maximum(-R @ still, 0.0)
        np.testing.assert_allclose(found.b[k, rows] * long, room, atol=1e-8 * np.abs(still).max())
        dx, h = rng.normal(size=system.n), 1e-6
        slope = R @ (force(h * dx, np.zeros(nu)) - force(-h * dx, np.zeros(nu))) / (2.0 * h)
        np.testing.assert_allclose((found.D[k, rows] @ dx) * long, slope, rtol=1e-5, atol=1e-6 * np.abs(slope).max())
        assert not found.C[k, len(R) :].any()


def _held_forces(robot, q, v, tau, feet):
    """Forces on points that have no acceleration, in world axes, by Pinocchio's matrices."""
    model, data, axes = robot.model, robot.model.createData(), pin.LOCAL_WORLD_ALIGNED
    h, M = pin.nonLinearEffects(model, data, q, v), pin.crba(model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
    drift = [pin.getFrameClassicalAcceleration(model, data, robot.frame_id(foot), axes).linear for foot in feet]
    J = np.vstack([pin.computeFrameJacobian(model, data, q, robot.frame_id(foot), axes)[:3] for foot in feet])
    none = np.zeros((len(J), len(J)))
    both = np.linalg.solve(np.block([[M, -J.T], [J, none]]), np.concatenate([tau - h, -np.concatenate(drift)]))
    return both[model.nv :]


def test_feet_move_as_pinocchio_says_and_legs_move_them_alone(trot):
    system, robot = trot.dynamics, trot.dynamics.robot
    X, model, data = trot.guess[0][:-1], robot.model, robot.model.createData()
    feet, units = system.tracked.footing(X), system.tracked.units(X)
    assert feet.slow == pytest.approx(0.1 * np.sqrt(units.gravity * units.height))
    assert feet.patience == pytest.approx(0.01 * units.height / feet.slow)
    for foot, name in enumerate(feet.names):
        stands = _standing(system)[name] & ~np.array([system.is_impact(k) for k in range(len(X))])
        assert np.array_equal(feet.moves[:, foot].any(axis=(1, 2)), stands)
        for k in (0, 3, 40, len(X) - 1):
            if not stands[k]:
                continue
            q = X[k, : robot.nq]
            J = pin.computeFrameJacobian(model, data, q, robot.frame_id(name), pin.LOCAL_WORLD_ALIGNED)[:3]
            np.testing.assert_allclose(feet.moves[k, foot], J, atol=1e-12)
            np.testing.assert_allclose(J @ feet.legs[k, foot], np.eye(3), atol=1e-10)
            assert np.abs(feet.legs[k, foot, :6]).max() < 1e-12
    arm = dynamics.RobotDynamics(dynamics.load("ur5"), 0.01)
    assert arm.tracked.footing(np.zeros((3, 12))) is None


def test_soles_turn_with_their_legs():
    problem = gaits.step("talos")
    system, X = problem.dynamics, problem.guess[0][:1]
    feet = system.tracked.footing(X)
    for foot in range(2):
        np.testing.assert_allclose(feet.moves[0, foot] @ feet.legs[0, foot], np.eye(6), atol=1e-9)


def test_names_are_those_of_joints_and_their_numbers(trot):
    q, v, u = trot.dynamics.named_numbers
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
    from dynamics.phases.reaction import standing

    return standing(system)


def test_damping_held_for_a_millisecond_brings_light_joints_to_rest_at_most():
    """No motion of all joints together is damped by more; heavy joints keep their damping."""
    for name, height, light in (("talos", 0.88, 2), ("g1", 0.65, 23), ("icub_reduced", 0.48, 24)):
        robot = dynamics.load(name, root="free-flyer")
        units = Units(height, pin.computeTotalMass(robot.model), 9.81)
        inverse = pin.computeMinverse(robot.model, robot.model.createData(), robot.q0)[6:, 6:]
        damping = -stiffness(units, robot, robot.actuation)[:, robot.nv + 6 :].diagonal()
        root = np.sqrt(damping)
        share = 1e-3 * np.linalg.eigvalsh(root[:, None] * inverse * root).max()
        assert 0.8 < share <= 1.0
        assert (damping < damping.max()).sum() == light
        assert damping.max() == pytest.approx(0.1 * units.torque * units.time)
