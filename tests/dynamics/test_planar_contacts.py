"""Contacts of robots whose joints move in one plane: across it they hold nothing."""

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import points_of_a_shank
from oracles import fourth_order, random_inertia, random_placement, relative_error
from step_oracles import assert_first_order, assert_second_order

import dynamics
from ddp.errors import ModelError
from dynamics import Contact, Phase, PhasedDynamics

HOPPER = """<mujoco model="hopper"><worldbody><body pos="0 0 1"><joint type="slide" axis="1 0 0"/>
<joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 .3 0 0 0" size=".05"/>
<body><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05"/>
<body pos="0 0 -.4"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05"/>
<body pos="0 0 -.4"><joint axis="0 1 0"/><geom type="capsule" fromto="-.1 0 0 .2 0 0" size=".03"/>
<site name="sole" pos=".05 0 -.03"/><site name="toe" pos=".2 0 -.03"/></body></body></body></body></worldbody>
</mujoco>"""
HELD = {"point": [0, 2], "surface": [0, 2, 4]}
"""Rows of contacts that hold something: along x and z, and about y."""


@pytest.fixture
def hopper():
    return dynamics.load(HOPPER)


def state(robot, rng):
    return np.array([0.1, -0.05, 0.3, -0.7, 0.9, -0.4]) + 0.01 * rng.normal(size=6), rng.normal(size=(2, robot.nv))


def standing(robot, q, kind, away=0.0):
    pose = dynamics.frame_placement(robot, q, "sole")
    pose[[0, 2], 3] += away
    return Contact("sole", kind, pose[:3, 3] if kind == "point" else pose, (30.0, 9.0), "local")


@pytest.mark.parametrize("kind", HELD)
def test_motion_and_impacts_are_those_of_the_directions_in_which_joints_move(hopper, kind, rng):
    q, (v, tau) = state(hopper, rng)
    contact, rows = standing(hopper, q, kind), HELD[kind]
    M, J = dynamics.mass_matrix(hopper, q), contact.jacobian(hopper, q)[rows]
    a, f = dynamics.contact_dynamics(hopper, q, v, tau, [contact])
    left = tau + J.T @ f[rows] - dynamics.inverse_dynamics(hopper, q, v, a)
    np.testing.assert_allclose(left, 0.0, atol=1e-11)
    drift = (contact.jacobian(hopper, q + 1e-6 * v) - contact.jacobian(hopper, q - 1e-6 * v))[rows] @ v / 2e-6
    if kind == "point":  # classical, in the axes of the foot, which turn with it
        np.testing.assert_allclose(np.delete(f, rows), 0.0)
        turn = dynamics.frame_velocity(hopper, q, v, "sole", "local")[3:]
        drift += np.cross(turn, contact.jacobian(hopper, q) @ v)[rows]
    np.testing.assert_allclose(J @ a + drift + 9.0 * J @ v, 0.0, atol=1e-7)
    after, impulse = dynamics.impact_dynamics(hopper, q, v, [contact])
    np.testing.assert_allclose(J @ after, 0.0, atol=1e-12)
    np.testing.assert_allclose(M @ (after - v), J.T @ impulse[rows], atol=1e-12)


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("way", ["stabilised", "held", "struck"])
def test_derivatives_are_differences_of_steps(hopper, kind, way, rng):
    q, (v, u) = state(hopper, rng)
    contact = standing(hopper, q, kind, 0.0 if way == "struck" else 1e-3)
    phase = Phase([] if way == "struck" else [contact], 1, [contact] if way == "struck" else (), held=way == "held")
    system = PhasedDynamics(hopper, 0.01, phase)
    X, U = np.tile(np.append(q, 0.3 * v), (system.knots, 1)), np.tile(u, (system.knots, 1))
    assert system.lanes > 0
    assert_first_order(system, X, U)
    assert_second_order(system, X, U, 1e-3, rng)


@pytest.mark.parametrize("names", [["sole"], ["sole", "toe"]], ids=["regular", "redundant"])
def test_targets_beside_the_plane_are_felt_no_more_than_those_in_it(hopper, names, rng):
    q, (v, tau) = state(hopper, rng)
    found = []
    for aside in 0.0, 0.3:
        poses = [dynamics.frame_placement(hopper, q, name) for name in names]
        for pose in poses:
            pose[:2, 3] += 0.01, aside
        contacts = [Contact(*given, (30.0, 9.0)) for given in zip(names, ["surface"] * 2, poses, strict=False)]
        first = dynamics.contact_dynamics_derivatives(hopper, q, v, tau, contacts)
        second = dynamics.contact_dynamics_hessian(hopper, q, v, tau, contacts, tau, np.ones(6 * len(names)))
        f = dynamics.contact_dynamics(hopper, q, v, tau, contacts).f
        found.append([f, *first.a, *first.f, *second])
        assert np.abs(f.reshape(-1, 6)[:, [1, 3, 5]]).max() == 0.0
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-9 * np.abs(here).max())


def test_what_is_held_twice_has_no_derivatives_and_says_so(rng):
    robot = dynamics.load("anymal")
    names = points_of_a_shank(robot, rng)
    points = [Contact(name, target=dynamics.frame_position(robot, robot.q0, name)) for name in names]
    system = PhasedDynamics(robot, 0.01, Phase(points, 1, held=True))
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    with pytest.raises(ModelError, match="of 9 directions that are held, it moves 6 independently"):
        system.linearize(x, np.zeros(system.nu))
    assert np.isfinite(system.step(x, np.zeros(system.nu))).all()


def turned_hopper(R):
    """The hopper with its plane and gravity turned by R, and frames on its foot turned against its own."""
    model = dynamics.load(HOPPER).model.copy()
    model.jointPlacements[1] = pin.SE3(R, np.zeros(3)) * model.jointPlacements[1]
    model.gravity.linear = R @ model.gravity.linear
    for name in "sole", "toe":
        frame = model.frames[model.getFrameId(name)]
        place = pin.SE3(frame.placement.rotation @ R.T, frame.placement.translation)
        model.addFrame(pin.Frame(f"turned {name}", frame.parentJoint, 0, place, pin.OP_FRAME))
    return dynamics.load(model)


def turns(rng):
    return [pin.exp3(np.array([0.0, 0.0, np.pi / 4])), *(pin.exp3(rng.normal(size=3)) for _ in range(2))]


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("way", ["stabilised", "held", "struck"])
def test_steps_are_the_same_in_planes_that_are_tilted(kind, way, rng):
    """Across them is no row of any contact: regularised, derivatives were off by 1e-3 and held steps were refused."""
    (q, (v, u)), weight, found = state(dynamics.load(HOPPER), rng), rng.normal(size=12), []
    for R in (np.eye(3), *turns(rng)):
        robot = turned_hopper(R)
        pose = dynamics.frame_placement(robot, q, "turned sole")
        pose[:3, 3] += R @ np.array([1e-3, 0.0, 1e-3]) * (way != "struck")
        contact = Contact("turned sole", kind, pose[:3, 3] if kind == "point" else pose, (30.0, 9.0))
        phase = Phase([] if way == "struck" else [contact], 1, [contact] if way == "struck" else (), held=way == "held")
        system, x = PhasedDynamics(robot, 0.01, phase), np.append(q, 0.3 * v)
        assert system.lanes > 0
        found.append((system.step(x, u), *system.linearize(x, u), system.hessian(x, u, weight)))
    for other in found[1:]:
        for here, there in zip(found[0], other, strict=True):
            assert relative_error(there, here) < 1e-10


@pytest.mark.parametrize("names", [["sole"], ["sole", "toe"]], ids=["regular", "redundant"])
@pytest.mark.parametrize("kind", HELD)
def test_forces_turn_with_planes_that_are_tilted(kind, names, rng):
    q, (v, tau) = state(dynamics.load(HOPPER), rng)
    bar, found = (1e-10, 1e-6)[len(names) - 1], []
    for R in (np.eye(3), *turns(rng)):
        robot, many = turned_hopper(R), [np.tile(x, (9, 1)) for x in (q, v, tau)]
        contacts = [Contact(f"turned {name}", kind) for name in names]
        a, f = dynamics.contact_dynamics(robot, q, v, tau, contacts)
        by_a, by_f = dynamics.contact_dynamics_derivatives(robot, q, v, tau, contacts)
        of_nine = dynamics.contact_dynamics_derivatives(robot, *many, contacts)
        after = dynamics.impact_dynamics(robot, q, v, contacts, 0.3)
        back = np.kron(np.eye(len(f) // 3), R.T)
        found.append((a, back @ f, *by_a, *(back @ D for D in by_f), after[0], back @ after[1]))
        assert max(relative_error(many[0], one) for many, one in zip(of_nine.a, by_a, strict=True)) < bar
    for other in found[1:]:
        for here, there in zip(found[0], other, strict=True):
            assert relative_error(there, here) < bar


def chain_in_a_plane(rng):
    """Five joints that turn about one axis or slide across it, in a random plane, and a tip."""
    model, R = pin.Model(), pin.exp3(rng.normal(size=3))
    for i in range(5):
        turn = pin.exp3(np.array([0.0, rng.normal(), 0.0]))
        place = pin.SE3(R @ turn if i == 0 else turn, 0.4 * rng.normal(size=3))
        slide = pin.JointModelPrismaticUnaligned(pin.exp3(np.array([0.0, rng.normal(), 0.0]))[0])
        joint = model.addJoint(i, slide if i == 2 else pin.JointModelRY(), place, f"joint{i}")
        model.appendBodyToJoint(joint, random_inertia(rng), pin.SE3.Identity())
    model.addFrame(pin.Frame("tip", joint, 0, random_placement(rng), pin.OP_FRAME))
    return dynamics.load(model)


def dense_accelerations(robot, kind, q, v, tau):
    """Accelerations that hold the tip with the least force, by dense least squares."""
    model, data, frame, nothing = robot.model, robot.model.createData(), robot.frame_id("tip"), np.zeros(robot.nv)
    pin.forwardKinematics(model, data, q, v, nothing)
    pin.updateFramePlacements(model, data)
    axes = pin.LOCAL if kind == "surface" else pin.LOCAL_WORLD_ALIGNED
    J = pin.computeFrameJacobian(model, data, q, frame, axes)[: 6 if kind == "surface" else 3]
    drift = pin.getFrameAcceleration(model, data, frame, axes).vector
    if kind == "point":
        drift = pin.getFrameClassicalAcceleration(model, data, frame, axes).linear
    M = dynamics.mass_matrix(robot, q)
    free = np.linalg.solve(M, tau - pin.rnea(model, data, q, v, nothing))
    G = np.linalg.solve(M, J.T)
    return free - G @ np.linalg.lstsq(J @ G, drift + J @ free, rcond=1e-9)[0]


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("seed", range(6))
def test_chains_in_any_plane_move_as_dense_least_squares_say(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    robot = chain_in_a_plane(rng)
    q, v, tau, d = rng.normal(size=(4, robot.nv))
    a = dynamics.contact_dynamics(robot, q, v, tau, Contact("tip", kind)).a
    assert relative_error(a, dense_accelerations(robot, kind, q, v, tau)) < 1e-10
    first = dynamics.contact_dynamics_derivatives(robot, q, v, tau, Contact("tip", kind)).a
    by_q = fourth_order(lambda t: dense_accelerations(robot, kind, q + t * d, v, tau))
    by_v = fourth_order(lambda t: dense_accelerations(robot, kind, q, v + t * d, tau))
    assert relative_error(first.dq @ d, by_q) < 1e-6
    assert relative_error(first.dv @ d, by_v) < 1e-8


@pytest.mark.parametrize("kind", HELD)
def test_planes_whose_axes_are_rounded_are_told_of(kind, caplog):
    def told(aside, name):
        text = HOPPER.replace('model="hopper"', f'model="{name}"').replace('<body><joint axis="0 1 0"/>', aside)
        robot = dynamics.load(text)
        caplog.clear()
        for _ in range(2):
            dynamics.contact_dynamics(robot, robot.q0, np.zeros(6), np.zeros(6), Contact("sole", kind))
        return caplog.messages

    assert told('<body><joint axis="0 1 0"/>', f"plain {kind}") == []
    assert told('<body><joint axis="0.3 1 0"/>', f"spatial {kind}") == []
    (words,) = told('<body><joint axis="0.000003673 1 0"/>', f"rounded {kind}")
    assert f"rounded {kind}: the contact at 'sole' is held in a direction in which joints move it by less" in words


def pivoting(rng, hinge):
    """A body on a hinge of the world and another on it, and a frame on the axis of the first hinge."""
    model = pin.Model()
    first = model.addJoint(0, hinge, random_placement(rng), "first")
    other = model.addJoint(first, pin.JointModelRY(), random_placement(rng), "other")
    for joint in (first, other):
        model.appendBodyToJoint(joint, random_inertia(rng), pin.SE3.Identity())
    turned = pin.SE3(random_placement(rng).rotation, np.zeros(3))
    model.addFrame(pin.Frame("pivot", first, 0, turned, pin.FrameType.OP_FRAME))
    return dynamics.load(model)


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("hinge", [pin.JointModelRX(), pin.JointModelRevoluteUnaligned(0.6, 0.0, 0.8)], ids=["x", "b"])
def test_places_that_no_joint_moves_are_held_by_no_force(kind, hinge, rng):
    contact = Contact("pivot", kind)
    for _ in range(8):  # rounding of what is nothing differs
        robot, q, (v, tau) = pivoting(rng, hinge), rng.normal(size=2), rng.normal(size=(2, 2))
        a, f = dynamics.contact_dynamics(robot, q, v, tau, [contact])
        after, impulse = dynamics.impact_dynamics(robot, q, v, [contact])
        np.testing.assert_array_equal([f[:3], impulse[:3]], 0.0)
        if kind == "point":
            np.testing.assert_allclose(a, dynamics.forward_dynamics(robot, q, v, tau), rtol=1e-12)
            np.testing.assert_allclose(after, v, rtol=1e-12)
        else:  # what turns it is held
            np.testing.assert_allclose([a[0], after[0]], 0.0, atol=1e-12)
        system = PhasedDynamics(robot, 0.01, Phase([contact], 1, True))
        X, U = np.tile(np.append(q, v), (2, 1)), np.tile(tau, (2, 1))
        assert_first_order(system, X, U)
        assert_second_order(system, X, U, 1e-3, rng)
