"""Wheels, discs and balls that roll: steps against Pinocchio's dynamics and closed forms, derivatives by differences."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, random_tree, relative_error
from step_oracles import assert_first_order, assert_second_order

import dynamics
from ddp.errors import ProblemError
from dynamics import Contact, Phase, PhasedDynamics

G = 9.81


def body(inertia, name="wheel"):
    """A free body."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), name)
    model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    model.addFrame(pin.Frame(name, joint, 0, pin.SE3.Identity(), pin.OP_FRAME))
    return dynamics.load(model)


def disc(mass=1.3, radius=0.25):
    """A thin disc about its y axis."""
    return body(pin.Inertia(mass, np.zeros(3), mass * radius**2 * np.diag([0.25, 0.5, 0.25])))


def tree(rng):
    """A random tree with a wheel, a ball and a point that is held."""
    robot = random_tree(11, bodies=6)
    for name, joint in (("wheel", 6), ("ball", 4), ("hand", 5)):
        place = pin.SE3(pin.exp3(rng.normal(size=3)), 0.2 * rng.normal(size=3))
        robot.model.addFrame(pin.Frame(name, joint, 0, place, pin.OP_FRAME))
    wheel = Contact("wheel", "rolling", radius=0.3, axis=rng.normal(size=3), normal=rng.normal(size=3))
    ball = Contact("ball", "rolling", rng.normal(size=3), radius=0.2, normal=(0.1, -0.2, 1.0))
    return robot, [wheel, ball, Contact("hand", gains=(0.0, 7.0))]


def coin(rng):
    """A disc on a slope, kept on it, and a system that it strikes."""
    given = Contact("wheel", "rolling", rng.normal(size=3), radius=0.25, axis=(0.2, 1.0, 0.1), normal=(0.3, 0.1, 1.0))
    return disc(), [given]


SYSTEMS = {"tree": tree, "coin": coin}


@pytest.fixture(params=SYSTEMS)
def case(request, rng):
    robot, contacts = SYSTEMS[request.param](rng)
    phases = [Phase(contacts, 2), Phase(contacts[:1], 1, contacts, 0.3)]
    system = PhasedDynamics(robot, 0.02, phases)
    X = [np.concatenate([robot.random_configuration(rng), 0.5 * rng.normal(size=robot.nv)]) for _ in range(4)]
    return system, np.array(X), rng.normal(size=(4, system.nu))


def material_rows(robot, contact, q, of_axis):
    """Rows J of the velocity of what touches the plane, of a wheel by a search for its lowest point."""
    data = robot.model.createData()
    J = pin.computeFrameJacobian(robot.model, data, q, robot.frame_id(contact.frame), pin.LOCAL_WORLD_ALIGNED)
    R = pin.updateFramePlacement(robot.model, data, robot.frame_id(contact.frame)).rotation
    n, axle = np.array(contact.normal), None if contact.axis is None else R @ np.array(contact.axis)
    if axle is None:
        low = -contact.radius * n
    else:  # where on the rim the height is least: a circle about the axle
        e = np.cross(axle, n) / np.linalg.norm(np.cross(axle, n))
        low = contact.radius * np.cross(axle, e)
        low = min((low, -low), key=lambda d: d @ n)
    return J[:3] - pin.skew(low) @ J[3:], low


def test_steps_end_without_slipping_and_obey_newton(case):
    system, X, U = case
    robot, h = system.robot, system.dt
    for t, (x, u) in enumerate(zip(X[:2], U[:2], strict=True)):
        q, v = np.split(x, [robot.nq])
        after = np.split(system.step(x, u, t), [robot.nq])[1]
        rows, c = [], []
        for contact in system.phases[0].contacts:
            if contact.kind == "rolling":
                J, low = material_rows(robot, contact, q, True)
                data = robot.model.createData()
                pin.forwardKinematics(robot.model, data, q)
                centre = pin.updateFramePlacement(robot.model, data, robot.frame_id(contact.frame)).translation
                n = np.array(contact.normal)
                height = 0.0 if contact.target is None else n @ (centre + low - contact.target)
                np.testing.assert_allclose(J @ after, -height / h * n, atol=1e-10 * (1.0 + np.abs(after).max()))
                rows.append(J)
                c.append(J @ v / h + height / h**2 * n)
            else:
                data, frame = robot.model.createData(), robot.frame_id(contact.frame)
                pin.forwardKinematics(robot.model, data, q, v, 0.0 * v)
                pin.updateFramePlacement(robot.model, data, frame)
                J = pin.computeFrameJacobian(robot.model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)[:3]
                bias = pin.getFrameClassicalAcceleration(robot.model, data, frame, pin.LOCAL_WORLD_ALIGNED).linear
                rows.append(J)
                c.append(bias + contact.gains[1] * J @ v)
        J, c = np.vstack(rows), np.concatenate(c)
        M, b = pin.crba(robot.model, robot.model.createData(), q), pin.nle(robot.model, robot.model.createData(), q, v)
        M = np.triu(M) + np.triu(M, 1).T
        K = np.block([[M, -J.T], [J, np.zeros((len(J), len(J)))]])
        a = np.linalg.solve(K, np.concatenate([system.actuation @ u - b, -c]))[: robot.nv]
        assert relative_error(after, v + h * a) < 1e-9


def test_derivatives_are_differences_of_steps(case):
    assert_first_order(*case)


def test_hessians_are_second_differences_of_steps(case, rng):
    assert_second_order(*case, 2e-3, rng)


def test_steps_change_with_how_long_they_take(case):
    system, X, U = case
    for t in (0, 1, 3):
        def ends(s, t=t):
            durations = system.phase_durations * (1.0 + s)
            return system.difference(system.step(X[t], U[t], t), system.lasting(durations).step(X[t], U[t], t))

        rate = fourth_order(ends) / system.step_durations(4)[t]
        assert relative_error(system.by_duration(X, U)[t], rate) < 1e-7


def flat(q0, v0, contact, robot, steps, h, u=None):
    system = PhasedDynamics(robot, h, Phase([contact], steps))
    U = np.zeros((steps, system.nu)) if u is None else np.tile(u, (steps, 1))
    return system.rollout(np.concatenate([q0, v0]), U)


def test_a_disc_rolls_down_a_slope_as_fast_as_its_inertia_lets_it():
    slope, r, h, N = 0.3, 0.25, 1e-3, 500
    normal = np.array([np.sin(slope), 0.0, np.cos(slope)])
    contact = Contact("wheel", "rolling", radius=r, axis=(0.0, 1.0, 0.0), normal=normal)
    X = flat([0, 0, 0, 0, 0, 0, 1.0], np.zeros(6), contact, disc(radius=r), N, h)
    speed = G * np.sin(slope) / 1.5 * N * h  # a = g sin(slope) / (1 + I / m r²)
    v = pin.Quaternion(X[-1, 3:7]).matrix() @ X[-1, 7:10]
    np.testing.assert_allclose(np.linalg.norm(v), speed, rtol=1e-9)
    np.testing.assert_allclose(X[-1, 11], speed / r, rtol=1e-9)


def test_a_ball_rolls_two_sevenths_less_than_it_would_slide():
    r = 0.1
    ball = body(pin.Inertia(0.4, np.zeros(3), 0.4 * 0.4 * r * r * np.eye(3)))
    normal = np.array([0.5, 0.0, 1.0]) / np.sqrt(1.25)
    X = flat([0, 0, 0, 0, 0, 0, 1.0], np.zeros(6), Contact("wheel", "rolling", radius=r, normal=normal), ball, 200, 1e-3)
    v = pin.Quaternion(X[-1, 3:7]).matrix() @ X[-1, 7:10]
    np.testing.assert_allclose(np.linalg.norm(v), 5.0 / 7.0 * G * 0.5 / np.sqrt(1.25) * 0.2, rtol=1e-9)


@pytest.mark.parametrize("tilt", [0.0, 0.4])
def test_a_disc_rolls_round_in_circles(tilt):
    """Steady motion of a tilted disc: Ω² (k sin t cos t + R (1 + 2 k) cos t / r) ... = g sin t / r, k = 1/4."""
    r, N = 0.25, 4000
    h, k, turn = 0.5 / N, 0.25, 2.0
    if tilt == 0.0:
        spin, radius = 12.0, 12.0 * r / turn
    else:
        # about the point of contact: m g r sin t = Ω² [m r R cos t (1 + 2k) + k m r² ... ], solved for the spin below
        spin = None
    rotation = pin.utils.rotate("x", tilt)
    contact = Contact("wheel", "rolling", (0.0, 0.0, 0.0), radius=r, axis=(0.0, 1.0, 0.0))
    q0 = np.concatenate([[0.0, -r * np.sin(tilt), r * np.cos(tilt)], pin.Quaternion(rotation).coeffs()])
    if spin is None:
        I_d, I_a, m = k * 1.3 * r * r, 2 * k * 1.3 * r * r, 1.3
        # angular velocity: turn e_z + s axle; axle = (0, cos t, sin t); centre moves with ω × (r cos t e_z - r sin t e_y)
        axle, up = rotation[:, 1], np.array([0.0, 0.0, 1.0])
        lever = -contact.lowest(rotation)

        def unbalanced(s):
            w = turn * up + s * axle
            Lw = I_d * w + (I_a - I_d) * (axle @ w) * axle
            dL = np.cross(turn * up, Lw)  # steady: everything turns about the vertical
            acc = np.cross(turn * up, np.cross(w, lever))
            force = m * (acc + G * up)
            return (dL - np.cross(-lever, force))[0]

        a, b = unbalanced(0.0), unbalanced(1.0)
        spin = -a / (b - a)
        radius = None
    w = rotation.T @ (turn * np.array([0.0, 0.0, 1.0]) + spin * rotation[:, 1])
    lever = -contact.lowest(rotation)
    v0 = np.concatenate([rotation.T @ np.cross(rotation @ w, lever), w])
    X = flat(q0, v0, contact, disc(radius=r), N, h)
    tilts = [pin.Quaternion(x[3:7]).matrix()[2, 1] for x in X]
    np.testing.assert_allclose(tilts, np.sin(tilt), atol=2e-3)
    turned = pin.log3(pin.Quaternion(X[-1, 3:7]).matrix() @ pin.exp3(-rotation[:, 1] * 0.0) @ rotation.T)
    heading = np.array([pin.Quaternion(x[3:7]).matrix()[:2, 1] for x in X])
    angle = np.unwrap(np.arctan2(heading[:, 1], heading[:, 0]))
    np.testing.assert_allclose(angle[-1] - angle[0], turn * 0.5, rtol=3e-3)
    if radius is not None:
        d = np.linalg.norm(X[-1, :2] - X[0, :2])
        np.testing.assert_allclose(d, 2 * radius * np.sin(0.5 * turn * 0.5), rtol=2e-3)
    assert turned is not None


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"radius": None}, "radius of the contact at 'wheel': expected that of a wheel or a ball"),
        ({"radius": -1.0}, "radius of the contact"),
        ({"axis": (0.0, 0.0, 0.0)}, "axis of the contact at 'wheel': expected a direction, got zero"),
        ({"gains": (0.0, 1.0)}, "expected none where it rolls"),
        ({"kind": "point"}, "expected none of what does not roll"),
    ],
)
def test_malformed_wheels_are_refused(changes, said):
    with pytest.raises(ProblemError, match=said):
        Contact(**{"frame": "wheel", "kind": "rolling", "radius": 0.1, "axis": (0.0, 1.0, 0.0)} | changes)


def test_wheels_need_steps_of_time():
    robot, contact = disc(), Contact("wheel", "rolling", radius=0.1)
    with pytest.raises(ProblemError, match="in continuous time, got one that rolls"):
        dynamics.contact_dynamics(robot, robot.q0, np.zeros(6), np.zeros(6), contact)
    with pytest.raises(ProblemError, match="held of a phase: expected False where 'wheel' rolls"):
        Phase(contact, 1, held=True)
