"""Wheels, discs and balls that roll: steps against Pinocchio and closed forms, derivatives against differences."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, random_tree, relative_error
from step_oracles import assert_blocks_are_hessians, assert_first_order, assert_second_order, deviation

import ddp
import dynamics
from ddp.errors import ProblemError
from dynamics import Contact, Phase, PhasedDynamics
from dynamics.phases.forces import pushes
from dynamics.phases.reaction import ground_forces
from problems.costs import ControlCost, StateCost

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


def tree(rng, **slides):
    """A random tree with a wheel, a ball and a point that is held."""
    robot = random_tree(11, bodies=6)
    for name, joint in (("wheel", 6), ("ball", 4), ("hand", 5)):
        place = pin.SE3(pin.exp3(rng.normal(size=3)), 0.2 * rng.normal(size=3))
        robot.model.addFrame(pin.Frame(name, joint, 0, place, pin.OP_FRAME))
    wheel = Contact("wheel", "rolling", radius=0.3, axis=rng.normal(size=3), normal=rng.normal(size=3), **slides)
    ball = Contact("ball", "rolling", rng.normal(size=3), radius=0.2, normal=(0.1, -0.2, 1.0))
    return robot, [wheel, ball, Contact("hand", gains=(0.0, 7.0))]


def sliding_tree(rng):
    """A random tree with a wheel that slides at an angle."""
    robot, (wheel, ball, _) = tree(rng, slides=0.7)
    return robot, [wheel, ball]


def coin(rng, **slides):
    """A disc on a slope, kept on it."""
    given = {"radius": 0.25, "axis": (0.2, 1.0, 0.1), "normal": (0.3, 0.1, 1.0), **slides}
    return disc(), [Contact("wheel", "rolling", rng.normal(size=3), **given)]


def skate(rng):
    """A disc that slides along its heading on a slope, kept on it."""
    return coin(rng, slides=np.pi / 2)


SYSTEMS = {"tree": tree, "sliding tree": sliding_tree, "coin": coin, "skate": skate}


@pytest.fixture(params=SYSTEMS)
def case(request, rng):
    robot, contacts = SYSTEMS[request.param](rng)
    phases = [Phase(contacts, 2), Phase(contacts[:1], 1, contacts, 0.3)]
    system = PhasedDynamics(robot, 0.02, phases)
    X = [np.concatenate([robot.random_configuration(rng), 0.5 * rng.normal(size=robot.nv)]) for _ in range(4)]
    return system, np.array(X), rng.normal(size=(4, system.nu))


def material_rows(robot, contact, q):
    """Rows J of the velocity of what touches the plane, of a wheel where the rim is lowest, and the way there."""
    data = robot.model.createData()
    J = pin.computeFrameJacobian(robot.model, data, q, robot.frame_id(contact.frame), pin.LOCAL_WORLD_ALIGNED)
    R = pin.updateFramePlacement(robot.model, data, robot.frame_id(contact.frame)).rotation
    n = np.array(contact.normal)
    if contact.axis is None:
        low, held = -contact.radius * n, np.eye(3)
    else:
        axle = R @ np.array(contact.axis)
        ahead = np.cross(axle, n) / np.linalg.norm(np.cross(axle, n))
        low = min((s * contact.radius * np.cross(axle, ahead) for s in (1, -1)), key=lambda d: d @ n)
        free = pin.exp3((contact.slides or 0.0) * n) @ np.cross(n, ahead)
        held = np.eye(3) if contact.slides is None else np.stack([np.cross(free, n), n])
    return held @ (J[:3] - pin.skew(low) @ J[3:]), low, held @ n


def test_steps_end_without_slipping_and_obey_newton(case):
    system, X, U = case
    robot, h = system.robot, system.dt
    for t, (x, u) in enumerate(zip(X[:2], U[:2], strict=True)):
        q, v = np.split(x, [robot.nq])
        after = np.split(system.step(x, u, t), [robot.nq])[1]
        rows, c = [], []
        for contact in system.phases[0].contacts:
            if contact.kind == "rolling":
                J, low, n = material_rows(robot, contact, q)
                data = robot.model.createData()
                pin.forwardKinematics(robot.model, data, q)
                centre = pin.updateFramePlacement(robot.model, data, robot.frame_id(contact.frame)).translation
                below = np.zeros(3) if contact.target is None else centre + low - contact.target
                height = below @ np.array(contact.normal)
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
    assert_second_order(*case, 5e-4, rng)


def test_blocks_are_hessians_in_the_next_velocity_and_controls(case, rng):
    assert_blocks_are_hessians(*case, rng)


def test_steps_change_with_how_long_they_take(case):
    system, X, U = case
    for t in (0, 1, 3):
        def ends(s, t=t):
            durations = system.phase_durations * (1.0 + s)
            return system.difference(system.step(X[t], U[t], t), system.lasting(durations).step(X[t], U[t], t))

        rate = fourth_order(ends) / system.step_durations(4)[t]
        assert relative_error(system.by_duration(X, U)[t], rate) < 1e-7


def rolled(system, x0, u=None):
    """States of a system under constant controls."""
    N = system.knots
    return system.rollout(np.concatenate(x0), np.tile(np.zeros(system.nu) if u is None else u, (N, 1)))


def speeds(robot, contact, steps):
    """Speed of a body after half a second on a slope, in so many steps, and how fast it turns."""
    system = PhasedDynamics(robot, 0.5 / steps, Phase(contact, steps))
    end = rolled(system, (robot.q0, np.zeros(6)))[-1]
    return np.array([np.linalg.norm(end[7:10]), np.linalg.norm(end[10:])])


@pytest.mark.parametrize(("shape", "share"), [("disc", 1.0 / 1.5), ("ball", 1.0 / 1.4)])
def test_what_rolls_down_a_slope_is_as_fast_as_its_inertia_lets_it(shape, share):
    slope, r = 0.3, 0.25
    robot = disc(radius=r) if shape == "disc" else body(pin.Inertia(0.4, np.zeros(3), 0.16 * r * r * np.eye(3)))
    normal, axis = (np.sin(slope), 0.0, np.cos(slope)), (0.0, 1.0, 0.0) if shape == "disc" else None
    contact = Contact("wheel", "rolling", radius=r, axis=axis, normal=normal)
    speed = G * np.sin(slope) * share * 0.5  # a = g sin(slope) / (1 + I / m r²)
    errors = [speeds(robot, contact, steps) - speed * np.array([1.0, 1.0 / r]) for steps in (200, 400, 800)]
    coarse, middle, fine = np.abs(errors)
    assert (coarse < 5e-3 * speed / r).all()
    np.testing.assert_allclose([coarse / middle, middle / fine], 2.0, rtol=0.1)  # of order one, to the exact speed


@pytest.mark.parametrize(("target", "slips", "depth", "order"), [(None, .258, 0.0303, 1), ([0] * 3, 0.147, 1.42e-3, 2)])
def test_a_disc_that_leans_slips_and_sinks_as_the_page_on_robots_says(target, slips, depth, order):
    robot, found = disc(1.0, 0.1), []
    contact = Contact("wheel", "rolling", target, radius=0.1, axis=(0.0, 1.0, 0.0))
    R, spin = pin.utils.rotate("x", 0.3), np.array([0.5, 8.0, 1.0])
    q = pin.SE3ToXYZQUAT(pin.SE3(R, -contact.lowest(R)))
    v = np.concatenate([R.T @ np.cross(contact.lowest(R), R @ spin), spin])
    for h in (0.01, 0.005, 0.0025):
        X = rolled(PhasedDynamics(robot, h, Phase(contact, round(0.5 / h))), (q, v))
        low = [x[:3] + contact.lowest(pin.XYZQUATToSE3(x[:7]).rotation) for x in X]
        slip = [contact.jacobian(robot, x[:7]) @ x[7:] for x in X[1:]]
        found.append([np.abs(slip).max(), np.abs(np.array(low)[:, 2]).max()])
    np.testing.assert_allclose(found[0], [slips, depth], rtol=0.01)
    np.testing.assert_allclose(np.divide(found[1], found[2]), [2.0, 2.0**order], rtol=0.05)


def test_a_disc_rolls_round_in_circles_at_the_tilt_that_its_motion_keeps():
    r, m, turn, tilt, N = 0.25, 1.3, 2.0, 0.4, 4000
    R, up = pin.utils.rotate("x", tilt), np.array([0.0, 0.0, 1.0])
    contact = Contact("wheel", "rolling", (0.0, 0.0, 0.0), radius=r, axis=(0.0, 1.0, 0.0))
    axle, lever = R[:, 1], r * R[:, 2]  # from where it touches to its centre

    def unbalanced(spin):  # all turns about the vertical: d/dt L = turn × L, and so the velocity of the centre
        w = turn * up + spin * axle
        L = 0.25 * m * r * r * (w + (axle @ w) * axle)
        force = m * (np.cross(turn * up, np.cross(w, lever)) + G * up)
        return (np.cross(turn * up, L) + np.cross(lever, force))[0]

    spin = unbalanced(0.0) / (unbalanced(0.0) - unbalanced(1.0))
    w = turn * up + spin * axle
    robot = disc(m, r)
    q0 = np.concatenate([lever, pin.Quaternion(R).coeffs()])
    X = rolled(PhasedDynamics(robot, 0.5 / N, Phase(contact, N)), (q0, R.T @ np.cross(w, lever), R.T @ w))
    axles = np.array([pin.Quaternion(x[3:7]).matrix()[:, 1] for x in X])
    np.testing.assert_allclose(axles[:, 2], np.sin(tilt), atol=2e-3)
    angle = np.unwrap(np.arctan2(axles[:, 1], axles[:, 0]))
    np.testing.assert_allclose(angle[-1] - angle[0], turn * 0.5, rtol=3e-3)


def cart(*wheels, mass=10.0, inertia=0.6, r=0.1):
    """A planar base with wheels (name, x, y) [m], each a disc of .5 kg about y."""
    model = pin.Model()
    root = model.addJoint(0, pin.JointModelPlanar(), pin.SE3.Identity(), "base")
    model.appendBodyToJoint(root, pin.Inertia(mass, np.zeros(3), inertia * np.eye(3)), pin.SE3.Identity())
    for name, x, y in wheels:
        joint = model.addJoint(root, pin.JointModelRY(), pin.SE3(np.eye(3), np.array([x, y, r])), name)
        disc = pin.Inertia(0.5, np.zeros(3), 0.5 * r * r * np.diag([0.25, 0.5, 0.25]))
        model.appendBodyToJoint(joint, disc, pin.SE3.Identity())
        model.addFrame(pin.Frame(f"{name} wheel", joint, 0, pin.SE3.Identity(), pin.OP_FRAME))
    return dynamics.load(model)


def on(name, **more):
    return Contact(f"{name} wheel", "rolling", radius=0.1, axis=(0.0, 1.0, 0.0), **more)


def test_a_unicycle_goes_round_on_a_circle():
    robot = cart(("only", 0.0, 0.0))
    spin, turn, N = 5.0, 0.8, 300
    X = rolled(PhasedDynamics(robot, 0.01, Phase(on("only"), N)), (robot.q0, [0.5, 0.0, turn, spin]))
    t = 0.01 * np.arange(N + 1)
    radius = 0.1 * spin / turn
    np.testing.assert_allclose(X[:, 0], radius * np.sin(turn * t), atol=1e-11)
    np.testing.assert_allclose(X[:, 1], radius * (1.0 - np.cos(turn * t)), atol=1e-11)


def test_a_differential_drive_speeds_up_and_turns_as_its_torques_say():
    """m v' = (τ_l + τ_r) / r, J ω' = b (τ_r - τ_l) / r, of masses with those of the wheels and of their spin."""
    b, r, h, N = 0.3, 0.1, 0.01, 200
    robot = cart(("left", 0.0, b), ("right", 0.0, -b))
    S = np.vstack([np.zeros((3, 2)), np.eye(2)])
    contacts = [on("left"), on("right", slides=0.0)]
    system = PhasedDynamics(robot, h, Phase(contacts, N), S)
    assert system.lanes > 0  # the second wheel would hold what the first one does
    left, right = 0.3, 0.5
    X = rolled(system, (robot.q0, np.zeros(5)), np.array([left, right]))
    mass = 10.0 + 2 * (0.5 + 0.25)
    inertia = 0.6 + 2 * (0.5 * b * b + 0.125 * r * r + 0.25 * b * b)
    t = h * np.arange(N + 1)
    v = X[:, robot.nq :]
    np.testing.assert_allclose(v[:, 0], (left + right) / r / mass * t, atol=1e-11)
    np.testing.assert_allclose(v[:, 1], 0.0, atol=1e-11)
    np.testing.assert_allclose(v[:, 2], b * (right - left) / r / inertia * t, atol=1e-11)


def test_forces_on_wheels_change_with_how_long_steps_take(case):
    system, X, U = case
    contacts = system.phases[0].contacts
    found = pushes(system, contacts, phase=0)

    def longer(s):
        other = system.lasting(system.phase_durations * (1.0 + s))
        return pushes(other, contacts, phase=0).values(X[:2], U[:2])

    assert relative_error(found.by_duration(X[:2], U[:2]), fourth_order(longer) / 0.02) < 1e-7


def test_forces_on_wheels_are_those_that_move_the_cart():
    robot = cart(("left", 0.0, 0.3), ("right", 0.0, -0.3))
    contacts = [on("left"), on("right", slides=0.0)]
    system = PhasedDynamics(robot, 0.01, [Phase(contacts, 2, dt=0.02), Phase(contacts, 2)], np.eye(5)[:, 3:])
    x0, u = np.concatenate([robot.q0, [0.5, 0.0, 0.8, 5.0, 5.0]]), np.array([0.3, -0.5])
    x0[[9, 10]] = (0.5 - 0.3 * 0.8) / 0.1, (0.5 + 0.3 * 0.8) / 0.1
    X = system.rollout(x0, np.tile(u, (4, 1)))
    forces = ground_forces(system, X, np.tile(u, (4, 1)))
    for k in range(4):
        total = sum(force[k] for force in forces.values())
        turn, h = pin.exp3(np.array([0.0, 0.0, np.arctan2(X[k, 3], X[k, 2])])), system.step_durations(4)[k]
        a = (X[k + 1, robot.nq :] - X[k, robot.nq :]) / h
        v = X[k, robot.nq :]
        of_centre = np.array([a[0] - v[1] * v[2], a[1] + v[0] * v[2], 0.0])  # 10 kg and two wheels of .5 kg
        np.testing.assert_allclose(total, turn @ of_centre * 11.0, atol=1e-9)


def test_wheels_that_hold_what_others_hold_move_as_those_do():
    robot = cart(("a", 0.2, 0.15), ("b", 0.2, -0.15), ("c", -0.2, 0.15), ("d", -0.2, -0.15))
    system = PhasedDynamics(robot, 0.01, Phase([on(name) for name in "abcd"], 200))
    torques = np.repeat([0.0, 0.1], [3, 4])
    v = rolled(system, (robot.q0, [0.4, 0.0, 0.0, 4.0, 4.0, 4.0, 4.0]), torques)[-1, robot.nq :]
    np.testing.assert_allclose(v[0], 0.4 + 2.0 * 0.4 / 0.1 / 13.0, rtol=1e-6)  # 10 kg, and 4 wheels with their spin
    np.testing.assert_allclose(v[3:], v[0] / 0.1, rtol=1e-6)


def test_a_floating_cart_with_a_caster_drives_to_where_it_shall_be():
    model = pin.Model()
    root = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    model.appendBodyToJoint(root, pin.Inertia(10.0, np.array([-0.05, 0.0, 0.1]), 0.5 * np.eye(3)), pin.SE3.Identity())
    spin = pin.Inertia(0.5, np.zeros(3), 0.0025 * np.diag([0.5, 1.0, 0.5]))
    ball = pin.Inertia(0.2, np.zeros(3), 2e-4 * np.eye(3))
    for name, place, joint, inertia in (
        ("left", [0.0, 0.2, 0.0], pin.JointModelRY(), spin), ("right", [0.0, -0.2, 0.0], pin.JointModelRY(), spin),
        ("caster", [-0.3, 0.0, -0.05], pin.JointModelSpherical(), ball),
    ):  # fmt: skip
        index = model.addJoint(root, joint, pin.SE3(np.eye(3), np.array(place)), name)
        model.appendBodyToJoint(index, inertia, pin.SE3.Identity())
        model.addFrame(pin.Frame(f"{name} wheel", index, 0, pin.SE3.Identity(), pin.OP_FRAME))
    robot, ground = dynamics.load(model), {"target": np.zeros(3)}
    contacts = [on("left", **ground), on("right", slides=0.0, **ground),
                Contact("caster wheel", "rolling", np.zeros(3), radius=0.05)]  # fmt: skip
    S = np.eye(robot.nv)[:, 6:8]
    system = PhasedDynamics(robot, 0.02, Phase(contacts, 100), S)
    q0 = robot.q0.copy()
    q0[2] = 0.1
    x0, goal = np.concatenate([q0, np.zeros(robot.nv)]), np.concatenate([q0, np.zeros(robot.nv)])
    goal[:2] = 1.5, 0.5
    weights = np.repeat([100.0, 0.0, 1.0], [6, robot.nv - 6, robot.nv])
    problem = ddp.Problem(
        system, [ControlCost(np.zeros(2), np.full(2, 0.1))], [StateCost(system, goal, weights)], x0, 100
    )
    solution = ddp.solve(problem)
    assert solution.converged
    np.testing.assert_allclose(solution.X[-1, :2], [1.5, 0.5], atol=0.01)
    np.testing.assert_allclose(solution.X[:, 2], 0.1, rtol=1e-12)
    np.testing.assert_allclose(solution.X[:, 3:5], 0.0, atol=1e-12)


def test_a_skate_slides_ahead_and_turns_but_not_aside():
    robot = cart(("blade", 0.0, 0.0))
    system = PhasedDynamics(robot, 0.01, Phase(on("blade", slides=np.pi / 2), 100))
    X = rolled(system, (robot.q0, [1.0, 0.0, 0.5, 0.0]))
    np.testing.assert_allclose(X[:, robot.nq :], np.tile([1.0, 0.0, 0.5, 0.0], (101, 1)), atol=1e-12)
    pushed = system.step(X[0], np.array([3.0, 40.0, 0.0, 0.0]))
    np.testing.assert_allclose(pushed[robot.nq :][:2], [1.0 + 0.01 * (3.0 / 10.5), 0.0], atol=1e-3)


@pytest.mark.parametrize("ways", [(1, 1, 1, 1), (-1, 1, 1, -1), (-1, 1, -1, 1)])
def test_mecanum_wheels_drive_along_across_and_round(ways):
    """r w_i = v_x -+ v_y -+ (a + b) ω (Muir & Neuman 1987), of rollers at 45°."""
    a, b, speed = 0.2, 0.15, 4.0
    places = {"fl": (a, b), "fr": (a, -b), "rl": (-a, b), "rr": (-a, -b)}
    robot = cart(*((name, *place) for name, place in places.items()))
    angles = dict(zip(places, [-np.pi / 4, np.pi / 4, np.pi / 4, -np.pi / 4], strict=True))
    contacts = [on(name, slides=angle) for name, angle in angles.items()]
    system = PhasedDynamics(robot, 0.01, Phase(contacts[:3], 1))
    w = speed * np.array(ways)
    twist = 0.025 * np.array([w.sum(), -w[0] + w[1] + w[2] - w[3], (-w[0] + w[1] - w[2] + w[3]) / (a + b)])
    after = system.step(np.concatenate([robot.q0, twist, w]), np.zeros(system.nu))
    np.testing.assert_allclose(after[robot.nq :], np.concatenate([twist, w]), atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"radius": None}, "radius of the contact at 'wheel': expected that of a wheel or a ball"),
        ({"radius": -1.0}, "radius of the contact"),
        ({"axis": (0.0, 0.0, 0.0)}, "axis of the contact at 'wheel': expected a direction, got zero"),
        ({"gains": (0.0, 1.0)}, "expected none where it rolls"),
        ({"kind": "point"}, "expected None where it does not roll"),
        ({"kind": "point", "radius": None, "axis": None, "normal": (0, 0, 1)}, "normal of the contact at 'wheel'"),
        ({"slides": "aside"}, "slides of the contact at 'wheel': expected"),
        ({"slides": 0.0, "axis": None}, "slides of the contact at 'wheel': expected None of a ball"),
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


@pytest.mark.parametrize("level", [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("kind", ["point", "rolling"])
def test_what_turns_about_its_centre_is_held_in_two_directions_however_high_it_touches(kind, level, rng):
    """A pivot of the third row is rounding, which small pivots before it magnify: that of the second is level²."""
    model, centre = pin.Model(), pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(size=3))
    joint = model.addJoint(0, pin.JointModelSpherical(), centre, "ball")
    model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    q, (v, u) = pin.randomConfiguration(model), rng.normal(size=(2, 3))
    touching = np.array([0.4, -0.3, 0.3 * level])
    at = touching + np.array([0.0, 0.0, 0.1]) if kind == "rolling" else touching
    R = centre.rotation @ pin.Quaternion(q).matrix()
    model.addFrame(pin.Frame("tip", joint, 0, pin.SE3(np.eye(3), R.T @ at), pin.OP_FRAME))
    contact = Contact("tip", kind, radius=0.1) if kind == "rolling" else Contact("tip", gains=(0.0, 100.0))
    system = PhasedDynamics(dynamics.load(model), 0.01, Phase([contact], 1))
    x = np.concatenate([q, v])
    moved, basis = deviation(system, x, u, 0), np.eye(9)
    truth = np.stack([fourth_order(lambda s, e=e: moved(s * e), 1e-2) for e in basis], axis=-1)
    assert relative_error(np.hstack(system.linearize(x, u)), truth) < 1e-5
    if kind == "rolling":
        assert np.abs(np.cross(R.T @ touching, system.step(x, u)[4:])).max() < 1e-5
