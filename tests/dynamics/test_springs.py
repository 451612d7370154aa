"""Springs and viscous friction of joints against MuJoCo, hand-written equations and physics."""

import pickle

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET, Constrained
from oracles import fourth_order, random_inertia, random_placement, relative_error, sprung
from thorough import cases

import ddp
import dynamics
from ddp import differences
from ddp.errors import ModelError
from dynamics import Contact, ContactForces, Phase, PhasedDynamics, Robot, RobotDynamics
from dynamics.robots.equipment import Equipment
from problems.costs import ControlCost, StateCost
from problems.legged import follow_nominal

INTEGRATORS = ("semi-implicit-euler", "euler", "rk4", "implicit-euler", "implicit-midpoint", "sdirk2")


def numbers(values):
    return " ".join(repr(float(x)) for x in np.ravel(values))


def twins(seed):
    """A random tree of hinges and slides with springs and friction, as our robot and as MuJoCo's model."""
    rng = np.random.default_rng(seed)
    n, model, bodies = int(rng.integers(2, 9)), pin.Model(), []
    stiffness, springref = rng.uniform(0.0, 30.0, n) * (rng.random(n) < 0.7), rng.normal(size=n)
    model.name = f"sprung {seed}"

    def passive(i):
        found = {"stiffness": stiffness[i], "springref": springref[i], "damping": 0.1 * (i + 1)}
        return " ".join(f'{name}="{numbers(value)}"' for name, value in found.items())

    for i in range(n):
        parent, placement, inertia = int(rng.integers(0, i + 1)), random_placement(rng), random_inertia(rng)
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        hinge = rng.random() < 0.6
        joint = (pin.JointModelRevoluteUnaligned if hinge else pin.JointModelPrismaticUnaligned)(axis)
        model.appendBodyToJoint(model.addJoint(parent, joint, placement, f"j{i}"), inertia, pin.SE3.Identity())
        x, y, z, w = pin.Quaternion(placement.rotation).coeffs()
        J = inertia.inertia
        joint = f'type="{"hinge" if hinge else "slide"}" axis="{numbers(axis)}"'
        head = f"""<body pos="{numbers(placement.translation)}" quat="{numbers([w, x, y, z])}">
            <joint {joint} {passive(i)}/>
            <inertial mass="{inertia.mass!r}" pos="{numbers(inertia.lever)}"
              fullinertia="{numbers([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])}"/>"""
        bodies.append((parent, head))
    model.damping = 0.1 * np.arange(1, n + 1)

    def tree(parent):
        return "".join(head + tree(i + 1) + "</body>" for i, (of, head) in enumerate(bodies) if of == parent)

    xml = f'<mujoco><compiler angle="radian" balanceinertia="false"/><worldbody>{tree(0)}</worldbody></mujoco>'
    theirs = mujoco.MjModel.from_xml_string(xml)
    order = []  # MuJoCo numbers joints depth first

    def visit(parent):
        for i, (of, _) in enumerate(bodies):
            if of == parent:
                order.append(i)
                visit(i + 1)

    visit(0)
    robot = Robot(model, equipment=Equipment(stiffness=stiffness, springref=springref, damped=True))
    return robot, theirs, np.array(order)


@pytest.mark.parametrize("seed", range(6))
def test_accelerations_with_springs_and_friction_are_mujocos(seed, rng):
    robot, theirs, order = twins(seed)
    system, data = RobotDynamics(robot, 1.0, integrator="euler"), mujoco.MjData(theirs)
    for _ in range(5):
        q, v, u = rng.normal(size=(3, robot.nv))
        data.qpos, data.qvel, data.qfrc_applied = q[order], v[order], u[order]
        mujoco.mj_forward(theirs, data)
        a = system.step(np.r_[q, v], u)[robot.nq :] - v
        assert relative_error(a[order], data.qacc) < 1e-9


FILE = """<mujoco><compiler angle="radian"/><option gravity="0 0 -3"/><worldbody>
<body pos="0 0 1"><joint name="rail" type="slide" axis="1 0 0" stiffness="40" springref=".2" damping=".3"/>
  <geom type="box" size=".1 .1 .1"/>
  <body pos=".1 0 0"><joint name="hinge" axis="0 1 0" stiffness="3" springref="-.5" damping=".05" armature=".01"/>
    <geom type="capsule" fromto="0 0 0 .2 0 -.5" size=".03"/></body></body></worldbody>
<actuator><motor joint="rail" gear="12" ctrlrange="-1 .5" ctrllimited="true"/></actuator></mujoco>"""


def test_a_file_with_springs_friction_and_a_motor_moves_as_in_mujoco(tmp_path, rng):
    path = tmp_path / "sprung.xml"
    path.write_text(FILE)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    robot, data = dynamics.load(path), mujoco.MjData(theirs)
    system = RobotDynamics(robot, 1.0, integrator="euler")
    np.testing.assert_array_equal(system.control_limits, [[-1.0, 0.5]])
    for _ in range(5):
        q, v, u = rng.normal(size=2), rng.normal(size=2), rng.uniform(-1.0, 0.5, size=1)
        data.qpos, data.qvel, data.ctrl = q, v, u
        mujoco.mj_forward(theirs, data)
        assert relative_error(system.step(np.r_[q, v], u)[2:] - v, data.qacc) < 1e-9


class Cart:
    """A cart on a spring with a pole on another, by hand: x = (position, angle, speeds), u = (force,), complex or not.

    Cart of mass M, pole's mass m at a distance l, an angle from hanging down.
    """

    M, m, l, g = 1.3, 0.4, 0.7, 9.81
    stiffness, springref, damping = np.array([40.0, 3.0]), np.array([0.2, -0.5]), np.array([0.3, 0.05])

    def robot(self):
        model = pin.Model()
        cart = model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "cart")
        model.appendBodyToJoint(cart, pin.Inertia(self.M, np.zeros(3), np.eye(3)), pin.SE3.Identity())
        pole = model.addJoint(cart, pin.JointModelRY(), pin.SE3.Identity(), "pole")
        at = np.array([0.0, 0.0, -self.l])
        model.appendBodyToJoint(pole, pin.Inertia(self.m, at, np.zeros((3, 3))), pin.SE3.Identity())
        model.damping = self.damping
        return Robot(model, equipment=Equipment(np.eye(2, 1), None, self.stiffness, self.springref, damped=True))

    def acceleration(self, q, v, u):
        s, c, w = np.sin(q[1]), np.cos(q[1]), self.m * self.l
        mass = np.array([[self.M + self.m, -w * c], [-w * c, w * self.l]])
        tau = -self.stiffness * (q - self.springref) - self.damping * v
        tau = tau + np.array([u[0] - w * s * v[1] ** 2, -w * self.g * s])
        return np.linalg.solve(mass, tau)

    def step(self, z, h, integrator):
        q, v, u = z[:2], z[2:4], z[4:]
        if integrator == "semi-implicit-euler":
            after = v + h * self.acceleration(q, v, u)
            return np.concatenate([q + h * after, after])

        if integrator not in ("euler", "rk4"):
            share = 1.0 - np.sqrt(0.5) if integrator == "sdirk2" else 1.0
            theta, once = 0.5 if integrator == "implicit-midpoint" else 1.0, z[:4]
            once = self.stage(once, z[4:], share * h, theta)
            if integrator != "sdirk2":
                return once
            return self.stage(z[:4] + (1.0 / share - 1.0) * (once - z[:4]), z[4:], share * h, theta)

        def rate(x):
            return np.concatenate([x[2:], self.acceleration(x[:2], x[2:], u)])

        x = z[:4]
        if integrator == "euler":
            return x + h * rate(x)
        a = rate(x)
        b = rate(x + h / 2 * a)
        c = rate(x + h / 2 * b)
        return x + h / 6 * (a + 2 * b + 2 * c + rate(x + h * c))

    def stage(self, x, u, h, theta):
        """x + h times the rate at x + theta (stage - x): fixed points, contracting where h is small."""
        after, before = x, None
        for _ in range(200):
            if before is not None and np.array_equal(after, before):
                break
            middle, before = x + theta * (after - x), after
            after = x + h * np.concatenate([middle[2:], self.acceleration(middle[:2], middle[2:], u)])
        return after

    def derivatives(self, z, h, integrator):
        """By complex step: no differences are taken."""
        columns = [self.step(z + 1e-30j * e, h, integrator).imag / 1e-30 for e in np.eye(5)]
        return np.stack(columns, axis=1)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_and_both_orders_of_a_cart_on_a_spring_are_those_of_its_equations(integrator, rng):
    cart, h = Cart(), 0.03
    system = RobotDynamics(cart.robot(), h, integrator=integrator)
    for _ in range(cases(5, 2)):
        z, weight = rng.normal(size=5), rng.normal(size=4)
        x, u = z[:4], z[4:]
        assert relative_error(system.step(x, u), cart.step(z, h, integrator)) < 1e-13
        assert relative_error(np.hstack(system.linearize(x, u)), cart.derivatives(z, h, integrator)) < 1e-12

        def gradient(dz, z=z, weight=weight):
            return weight @ cart.derivatives(z + dz, h, integrator)

        H = np.stack([fourth_order(lambda s, e=e, of=gradient: of(s * e)) for e in np.eye(5)])
        assert relative_error(system.hessian(x, u, weight), H) < 1e-9


def oscillator(mass, stiffness, rest=0.0):
    """A mass that slides on a spring, without gravity."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "slide")
    model.appendBodyToJoint(joint, pin.Inertia(mass, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    model.gravity = pin.Motion.Zero()
    return Robot(model, equipment=Equipment(stiffness=np.array([stiffness]), springref=np.array([rest])))


def test_each_direction_of_a_joint_has_a_spring_of_its_own():
    model, stiffness, rest = pin.Model(), np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3])
    joint = model.addJoint(0, pin.JointModelTranslation(), pin.SE3.Identity(), "free in space")
    model.appendBodyToJoint(joint, pin.Inertia(2.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    model.gravity = pin.Motion.Zero()
    system = RobotDynamics(Robot(model, equipment=Equipment(stiffness=stiffness, springref=rest)), 0.01)
    x = np.array([0.5, 0.7, -0.4, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(system.step(x, np.zeros(3))[3:], 0.01 * stiffness * (rest - x[:3]) / 2.0, rtol=1e-13)
    A, _ = system.linearize(x, np.zeros(3))
    np.testing.assert_allclose(A[3:, :3], -0.01 * np.diag(stiffness) / 2.0, rtol=1e-13, atol=1e-16)


def test_a_mass_on_a_spring_swings_in_its_period_and_keeps_its_energy():
    mass, stiffness, rest, amplitude, N = 2.0, 50.0, 0.3, 0.1, 400
    rate = np.sqrt(stiffness / mass)
    h = 2.0 * np.pi / rate / N
    x0, U = np.array([rest + amplitude, 0.0]), np.zeros((N, 1))
    q, v = RobotDynamics(oscillator(mass, stiffness, rest), h, integrator="rk4").rollout(x0, U).T
    t = h * np.arange(N + 1)
    np.testing.assert_allclose(q, rest + amplitude * np.cos(rate * t), rtol=0, atol=1e-8)  # h⁴ of the method
    np.testing.assert_allclose(v, -amplitude * rate * np.sin(rate * t), rtol=0, atol=1e-8 * rate)
    energy = 0.5 * mass * v**2 + 0.5 * stiffness * (q - rest) ** 2
    assert np.ptp(energy) < 1e-7 * energy[0]
    q, v = RobotDynamics(oscillator(mass, stiffness, rest), h).rollout(x0, np.zeros((50 * N, 1))).T
    energy = 0.5 * mass * v**2 + 0.5 * stiffness * (q - rest) ** 2
    assert np.abs(energy - energy[0]).max() < rate * h * energy[0]  # symplectic: bounded by the step for ever


def test_friction_takes_just_the_energy_it_dissipates(rng):
    """d/dt (kinetic + gravity's + springs' energy) = -Σ damping v² of a free tree, by steps of order four."""
    robot, _, _ = twins(3)
    stiffness, rest, D = robot.equipment.stiffness, robot.equipment.springref, np.asarray(robot.model.damping)
    system = RobotDynamics(robot, 1e-3, integrator="rk4")
    X = system.rollout(np.r_[0.1 * rng.normal(size=robot.nq), rng.normal(size=robot.nv)], np.zeros((200, robot.nv)))
    data = robot.model.createData()
    energies = [pin.computeMechanicalEnergy(robot.model, data, x[: robot.nq], x[robot.nq :]) for x in X]
    total = np.array(energies) + 0.5 * ((X[:, : robot.nq] - rest) ** 2 @ stiffness)
    power = X[:, robot.nq :] ** 2 @ D
    lost = 1e-3 / 3 * (power[0] + power[-1] + 4 * power[1:-1:2].sum() + 2 * power[2:-1:2].sum())  # Simpson's rule
    assert abs(total[0] - total[-1] - lost) < 1e-6 * lost


def test_the_nominal_control_holds_an_arm_against_gravity_and_its_springs(rng):
    robot = sprung(dynamics.load("ur5"), rng)
    system = RobotDynamics(robot, 0.01)
    x = np.r_[robot.random_configuration(rng), np.zeros(6)]
    u = system.nominal_control(x)
    assert np.abs(system.step(x, u) - x).max() < 1e-13
    assert np.abs(system.step(x, RobotDynamics(robot, 0.01, springs=False).nominal_control(x)) - x).max() > 1e-3
    np.testing.assert_array_equal(system.nominal_control(np.r_[x[:6], np.ones(6)]), u)


def test_the_nominal_control_holds_a_robot_on_its_feet_against_its_springs(rng):
    robot = sprung(dynamics.load("anymal"), rng)
    for held in (False, True):
        data = robot.model.createData()
        pin.framesForwardKinematics(robot.model, data, robot.q0)
        feet = [Contact(foot, target=data.oMf[robot.frame_id(foot)].translation.copy()) for foot in FEET["anymal"]]
        system = PhasedDynamics(robot, 0.01, Phase(feet, 5, held=held))
        x = np.r_[robot.q0, np.zeros(robot.nv)]
        assert np.abs(system.rollout(x, np.tile(system.nominal_control(x), (5, 1))) - x).max() < 1e-9
        stay = StateCost(system, x, np.ones(36))
        X, U = follow_nominal(ddp.Problem(system, [], [stay], x, 5, during={range(5): [stay]}))
        assert np.abs(system.rollout(x, U) - X).max() < 1e-9


def test_contact_forces_feel_springs_and_their_derivatives_are_exact(rng):
    robot = sprung(dynamics.load("hyq"), rng)
    contacts = [Contact("lf_foot", gains=(0.0, 20.0)), Contact("rh_foot", gains=(0.0, 20.0), reference="local")]
    forces, stiffness, rest = ContactForces(robot, contacts, damping=True), *robot.equipment[2:4]
    oracle, nq, nv = Constrained(robot, contacts), robot.nq, robot.nv
    system = RobotDynamics(robot, 0.01)
    x = np.r_[robot.random_configuration(rng), rng.normal(size=nv)]
    u, n = 10.0 * rng.normal(size=12), system.n

    def force(z):
        moved = system.integrate(x, z[:n])
        q, v = moved[:nq], moved[nq:]
        tau = system.actuation @ (u + z[n:]) - np.asarray(robot.model.damping) * v
        tau[6:] -= stiffness[6:] * (q[7:] - rest[6:])
        return oracle.motion(q, v, tau)[nv:]

    zero, weight = np.zeros(n + 12), rng.normal(size=6)
    assert relative_error(forces.values(x[None], u[None])[0], force(zero)) < 1e-9
    J = differences.real_jacobian(force, zero)
    assert relative_error(forces.derivatives(x[None], u[None])[0], J) < 1e-8
    H = differences.real_hessian(lambda z: weight @ force(z), zero)
    assert relative_error(forces.hessians(x[None], u[None], weight[None])[0], H) < 1e-6


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_every_derivative_of_a_problem_with_springs_is_right(integrator, rng):
    robot = sprung(dynamics.load("ur5"), rng)
    system = RobotDynamics(robot, 0.02, integrator=integrator, damping=True)
    x0 = np.r_[robot.q0, np.zeros(6)]
    terms = [StateCost(system, x0, np.ones(12)), ControlCost(np.zeros(6), np.ones(6))]
    problem = ddp.Problem(system, terms, terms[:1], x0, 5)
    U = rng.normal(size=(5, 6))
    assert ddp.check_derivatives(problem, system.rollout(x0, U), U).ok


def test_a_spring_relieves_the_controls_of_a_solved_problem():
    """An arm whose springs are at rest where it must stay needs no torque but gravity's: the optimum knows them."""
    robot, rest = oscillator(1.0, 30.0, 0.2), np.array([0.2, 0.0])
    system = RobotDynamics(robot, 0.02)
    stay = StateCost(system, rest, np.full(2, 10.0))
    problem = ddp.Problem(system, [stay, ControlCost(np.zeros(1), np.ones(1))], [stay], rest, 20)
    solution = ddp.solve(problem)
    assert solution.converged
    np.testing.assert_allclose(solution.U, 0.0, atol=1e-12)
    assert solution.cost < 1e-20


def test_springs_and_friction_act_where_they_are_asked_to(rng):
    made = sprung(dynamics.load("ur5"), rng)
    plain = Robot(made.model, made.q0)
    damped = Robot(made.model, made.q0, None, made.equipment._replace(damped=True))
    x, u = rng.normal(size=12), rng.normal(size=6)

    def step(robot, **options):
        return RobotDynamics(robot, 0.01, **options).step(x, u)

    np.testing.assert_array_equal(step(made, springs=False), step(plain))
    np.testing.assert_array_equal(step(made, damping=True), step(damped))
    np.testing.assert_array_equal(step(damped, damping=False), step(made))
    np.testing.assert_array_equal(step(damped, damping=False, springs=False), step(plain))
    assert np.abs(step(made) - step(plain)).max() > 1e-3
    assert np.abs(step(made) - step(damped)).max() > 1e-4
    phase = Phase(Contact("tool0"), 3)
    for robot, options in ((made, {}), (damped, {}), (damped, {"damping": False, "springs": False})):
        free, phased = RobotDynamics(robot, 0.01, **options), PhasedDynamics(robot, 0.01, phase, **options)
        assert (phased.damping, phased.springs) == (free.damping, free.springs)
        assert (phased.lasting([0.06]).damping, phased.lasting([0.06]).springs) == (free.damping, free.springs)
        forces = ContactForces(robot, phase.contacts, **options)
        assert (forces.damping, forces.springs) == (free.damping, free.springs)
    q, v = x[:6], x[6:]
    np.testing.assert_array_equal(dynamics.forward_dynamics(made, q, v, u), dynamics.forward_dynamics(plain, q, v, u))
    held = [dynamics.contact_dynamics_derivatives(robot, q, v, u, phase.contacts) for robot in (made, plain)]
    np.testing.assert_array_equal(held[0].a.dq, held[1].a.dq)


def test_springs_of_no_stiffness_change_no_bit(rng):
    plain = dynamics.load("hyq")
    none = Robot(plain.model, plain.q0, None, Equipment(stiffness=np.zeros(18), springref=rng.normal(size=18)))
    x, u, w = np.r_[plain.q0, rng.normal(size=18)], rng.normal(size=12), rng.normal(size=36)
    for options in ({}, {"damping": True}, {"integrator": "rk4"}):
        one, other = (RobotDynamics(robot, 0.01, **options) for robot in (plain, none))
        np.testing.assert_array_equal(one.step(x, u), other.step(x, u))
        np.testing.assert_array_equal(np.hstack(one.linearize(x, u)), np.hstack(other.linearize(x, u)))
        np.testing.assert_array_equal(one.hessian(x, u, w), other.hessian(x, u, w))


def test_an_impact_does_not_feel_springs(rng):
    robot = sprung(dynamics.load("anymal"), rng)
    feet = [Contact(foot) for foot in FEET["anymal"][:2]]
    x, u = np.r_[robot.q0, rng.normal(size=18)], rng.normal(size=12)
    with_springs, without = (
        PhasedDynamics(robot, 0.01, Phase(feet, 1, feet), damping=True, springs=springs) for springs in (True, False)
    )
    np.testing.assert_array_equal(with_springs.step(x, u), without.step(x, u))
    assert np.abs(with_springs.step(x, u, 1) - without.step(x, u, 1)).max() > 1e-4


def test_copies_keep_their_springs(rng):
    robot = sprung(dynamics.load("ur5"), rng)
    x, u = rng.normal(size=12), rng.normal(size=6)
    limits = np.tile([-3.0, 4.0], (6, 1))
    for system in (
        RobotDynamics(robot, 0.01), RobotDynamics(robot, 0.01, None, "rk4", True, False, limits),
        PhasedDynamics(robot, 0.01, Phase(Contact("tool0"), 1), None, True, True, limits),
    ):  # fmt: skip
        again = pickle.loads(pickle.dumps(system))
        np.testing.assert_array_equal(again.step(x, u), system.step(x, u))
        np.testing.assert_array_equal(again.robot.equipment.stiffness, robot.equipment.stiffness)
        np.testing.assert_array_equal(again.control_limits, system.control_limits)


@pytest.mark.parametrize(
    ("kind", "where", "joint"),
    [
        (pin.JointModelRUBZ(), 1, "JointModelRUBZ"),
        (pin.JointModelSpherical(), 2, "JointModelSpherical"),
        (pin.JointModelPlanar(), 1, "JointModelPlanar"),
        (pin.JointModelFreeFlyer(), 4, "JointModelFreeFlyer"),
    ],
)
def test_a_spring_of_a_joint_whose_position_is_no_number_is_refused(kind, where, joint, rng):
    model = pin.Model()
    hinge = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(hinge, random_inertia(rng), pin.SE3.Identity())
    odd = model.addJoint(hinge, kind, pin.SE3.Identity(), "odd")
    model.appendBodyToJoint(odd, random_inertia(rng), pin.SE3.Identity())
    stiffness = np.eye(model.nv)[0]
    Robot(model, equipment=Equipment(stiffness=stiffness))
    stiffness[where] = 2.0
    with pytest.raises(ModelError, match=rf"stiffness of joint 'odd': expected springs on joints .* for a {joint}"):
        Robot(model, equipment=Equipment(stiffness=stiffness))


@pytest.mark.parametrize(
    ("equipment", "words"),
    [
        (Equipment(stiffness=np.ones(5)), r"stiffness: expected shape \(6,\), got \(5,\)"),
        (Equipment(stiffness=np.full(6, np.nan)), "stiffness: expected finite numbers, got nan"),
        (Equipment(stiffness=np.ones(6), springref=np.ones(7)), r"springref: expected shape \(6,\), got \(7,\)"),
    ],
)
def test_springs_that_make_no_sense_are_refused(equipment, words):
    with pytest.raises(ModelError, match=words):
        Robot(dynamics.load("ur5").model, equipment=equipment)
