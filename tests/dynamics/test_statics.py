"""Rest by Pinocchio's inverse dynamics, and simulated motion by SciPy's stiff solver."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import JOINTS, chain_of, passive, pin_forces, random_tree, sprung
from scipy.integrate import solve_ivp
from thorough import cases

import dynamics
from ddp.errors import ProblemError
from dynamics import Loop, Robot, RobotDynamics, simulate, statics
from dynamics.robots import loop
from dynamics.robots.equipment import Equipment


def springy(robot, stiffness):
    return Robot(robot.model.copy(), robot.q0, equipment=Equipment(stiffness=np.full(robot.nv, stiffness)))


def unbalanced(robot, q, tau, fext=None):
    """Torques that are left, by Pinocchio; springs at rest at zero."""
    extra = () if fext is None else (pin_forces(fext),)
    zero = np.zeros(robot.nv)
    left = pin.rnea(robot.model, robot.model.createData(), q, zero, zero, *extra) - tau
    return left + robot.tree.stiffness * (q - robot.tree.springref if robot.nq == robot.nv else 0.0)


def test_an_arm_on_springs_rests_where_pinocchio_says_under_every_load(rng):
    robot = springy(dynamics.load("ur5"), 80.0)
    U, fext = rng.normal(scale=10.0, size=(19, 6)), rng.normal(scale=5.0, size=(19, 7, 6))
    rest = statics(robot, U, fext)
    assert np.all(rest.converged)
    for q, u, wrenches in zip(rest.q, U, fext, strict=True):
        assert np.abs(unbalanced(robot, q, u, wrenches)).max() < 1e-9
    for k in (0, 9, 18):
        np.testing.assert_array_equal(statics(robot, U[k], fext[k]).q, rest.q[k])


@pytest.mark.parametrize("seed", [0, 2, 4, 6])
def test_trees_with_springs_come_to_stable_rest(seed, rng):
    """The Hessian of the energy is positive there: small displacements bring torques back."""
    flat = [kind for kind, make in JOINTS.items() if make(rng).nq == make(rng).nv]
    robot = sprung(random_tree(seed, joint=lambda rng: JOINTS[flat[rng.integers(len(flat))]](rng)), rng)
    rest = statics(robot, np.zeros(robot.nv), actuation=np.eye(robot.nv))
    assert rest.converged
    zero = np.zeros(robot.nv)
    K = dynamics.inverse_dynamics_derivatives(robot, rest.q, zero, zero).dq + np.diag(robot.tree.stiffness)
    assert np.linalg.eigvalsh(K + K.T).min() > -1e-8


def test_a_pendulum_is_found_hanging_and_never_standing():
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "pivot")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.array([0.0, 0.0, 0.5]), 0.01 * np.eye(3)), pin.SE3.Identity())
    starts = np.append(np.linspace(-3.0, 3.0, 13) + 0.05, 0.0)[:, None]  # the last one stands exactly
    rest = statics(Robot(model), q0=starts)
    assert np.all(rest.converged)
    np.testing.assert_allclose(np.cos(rest.q), -1.0, atol=1e-12)


def test_a_straight_column_buckles_above_eulers_load():
    light = dynamics.Material(1e7, 0.4, 1e-6)
    rod = dynamics.Rod("rod", 1.0, dynamics.Circle(0.01), light, bending=(6, None), gauss=20)
    column = dynamics.Assembly(gravity=(0.0, 0.0, 0.0)).rod(rod).wrench("load", "rod/tip").robot()
    critical = 0.25 * np.pi**2 * 1e7 * 0.25 * np.pi * 0.01**4
    loads = -critical * np.outer([0.99, 1.1], np.eye(6)[0])
    rest = statics(column, u=loads)
    assert rest.converged.all()
    tips = dynamics.frame_placement(column, rest.q, "rod/tip")[:, :3, 3]
    np.testing.assert_allclose(tips[0], [1.0, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(np.abs(tips[1]), [0.820296, 0.0, 0.508534], atol=2e-6)  # the elastica


def test_rest_is_found_where_joints_below_a_rod_turn_freely():
    silicone = dynamics.Material(1e6, 0.5, 1000.0, 1e4)
    finger = dynamics.Rod("finger", 0.2, dynamics.Circle(0.015, 0.008), silicone, bending=1, gauss=2)
    hinge = dynamics.Assembly("hinge").joint("pivot", pin.JointModelRZ()).rod(finger, on="pivot").robot()
    for robot in hinge, dynamics.Assembly.of(dynamics.load("ur5")).rod(finger, on="tool0").robot():
        rest = statics(robot, q0=[robot.q0, robot.q0 + 0.1])
        assert rest.converged.all()
        zero = np.zeros(robot.nv)
        for q in rest.q:
            torques = dynamics.inverse_dynamics(robot, q, zero, zero)[:-4]  # of all joints but the rod
            assert np.abs(torques).max() < 1e-8


def four_bar(size, mass=1.0):
    """Four bars with hinges about y, the longest ``size`` [m], under gravity in proportion to it."""
    model = pin.Model()
    model.gravity = pin.Motion(np.array([0.0, 0.0, -9.81 * size]), np.zeros(3))
    bars = ("crank", "universe", 0.0, 0.5), ("rod", "crank", 0.5, 1.0), ("rocker", "universe", 0.8, 0.6)
    for name, before, x, length in bars:
        place = pin.SE3(np.eye(3), np.array([x * size, 0.0, 0.0]))
        j = model.addJoint(model.getJointId(before), pin.JointModelRY(), place, name)
        middle, bent = np.array([0.5 * length * size, 0.0, 0.0]), mass * length**3 * size**2 / 12.0
        model.appendBodyToJoint(j, pin.Inertia(mass * length, middle, np.diag([bent, bent, bent])), pin.SE3.Identity())
        end = pin.SE3(np.eye(3), 2.0 * middle)
        model.addFrame(pin.Frame(f"end of {name}", j, 0, end, pin.FrameType.OP_FRAME))
    return Robot(model, np.array([-1.2, 0.7, -1.9]), loops=[Loop("end of rod", "end of rocker", "y rx ry rz")])


def test_closed_chains_rest_alike_in_any_units(rng):
    starts = four_bar(1.0).q0 + 0.3 * rng.normal(size=(10, 3))
    usual = [statics(four_bar(1.0), q0=four_bar(1.0).closed(q)) for q in starts]
    for size, mass in ((0.1, 1.0), (1e-3, 1e-9), (1e3, 1e6)):
        robot = four_bar(size, mass)
        for q, one in zip(starts, usual, strict=True):
            found = statics(robot, q0=robot.closed(q))
            assert found.converged
            assert found.iterations == one.iterations < 40
            assert found.q == pytest.approx(one.q, abs=1e-7)
            torque = dynamics.inverse_dynamics(robot, found.q, np.zeros(3), np.zeros(3))
            J = loop.errors(robot.mechanism, robot.loops, found.q)[1]
            assert np.abs(torque - J.T @ found.forces).max() < 1e-8 * np.abs(torque).max()


def hung_plate(size):
    """A free plate that hangs by balls on three rods with arms above; size: of lengths, its mass goes with the cube."""
    bodies, ends = "", ""
    for k in range(3):
        place = " ".join(map(str, 0.3 * size * np.array([np.cos(2.1 * k), np.sin(2.1 * k), 0.0])))
        bodies += f"""<body name="arm{k}" pos="{place}" euler="0 0 {2.1 * k}"><joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 {0.4 * size} 0 0" size="{0.02 * size}"/>
        <body name="rod{k}" pos="{0.4 * size} 0 0"><joint axis="0 1 0"/><joint axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 {-0.6 * size} 0 {-0.8 * size}" size="{0.01 * size}"/></body></body>"""
        ends += f'<connect body1="rod{k}" body2="plate" anchor="{-0.6 * size} 0 {-0.8 * size}"/>'
    return dynamics.load(f"""<mujoco model="plate"><compiler angle="radian"/><worldbody>{bodies}
    <body name="plate" pos="0 0 {-0.8 * size}"><freejoint/><geom type="cylinder" size="{0.2 * size} {0.02 * size}"/>
    </body></worldbody><equality>{ends}</equality></mujoco>""")


def test_a_free_body_hangs_alike_at_any_size():
    usual, small = (statics(hung_plate(size), q0=hung_plate(size).closed(hung_plate(size).q0)) for size in (1.0, 0.01))
    assert usual.converged
    assert small.converged
    assert small.iterations < usual.iterations + 10
    assert small.q[:9] == pytest.approx(usual.q[:9], abs=1e-6)


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_what_slides_goes_as_far_as_it_must_in_any_unit(unit):
    """A hoist of soft springs on which a loaded beam swings and slides; unit: of lengths, in a metre."""
    model = pin.Model()
    model.gravity = pin.Motion(np.array([0.0, 0.0, -9.81 * unit]), np.zeros(3))
    for k, (joint, at) in enumerate(((pin.JointModelPZ(), 0.0), (pin.JointModelRY(), 0.3), (pin.JointModelPX(), 0.0))):
        body = pin.Inertia.FromSphere(1.0, 0.1 * unit)
        index = model.addJoint(k, joint, pin.SE3.Identity(), f"{k}")
        model.appendBodyToJoint(index, body, pin.SE3(np.eye(3), np.array([0.2, 0.0, -at]) * unit))
    robot = Robot(model, equipment=Equipment(stiffness=np.array([3.0, 5.0 * unit**2, 3.0])))
    rest = statics(robot)
    assert rest.converged
    assert rest.q[0] == pytest.approx(-9.81 * unit)
    assert np.abs(unbalanced(robot, rest.q, np.zeros(3))).max() < 1e-9 * unit**2
    assert rest.iterations < 60


def test_a_robot_that_nothing_holds_up_does_not_converge():
    robot = dynamics.load("hyq")
    rest = statics(robot)
    assert rest.converged is False
    assert rest.residual > 100.0


def test_batches_of_two_lengths_are_refused():
    with pytest.raises(ProblemError, match=r"u, q0, fext: expected batches of one length, got \[2, 3\]"):
        statics(dynamics.load("ur5"), np.zeros((2, 6)), q0=np.zeros((3, 6)))


def stiff_arm():
    model = dynamics.load("ur5").model.copy()
    model.damping = np.full(6, 10.0)
    return Robot(model, equipment=Equipment(stiffness=np.full(6, 300.0)))


ADAPTED = [("sdirk2", 1e-3), ("implicit-midpoint", 1e-4), ("sdirk2", 1e-5)]


@pytest.mark.parametrize(("integrator", "tolerance"), cases(ADAPTED, ADAPTED[:2]))
def test_simulated_motion_is_that_of_a_stiff_solver(integrator, tolerance):
    robot = stiff_arm()
    data, x0 = robot.model.createData(), np.concatenate([robot.q0, np.zeros(6)])

    def u(t):
        return 5.0 * np.sin(3.0 * t + np.arange(6))

    def rate(t, x):
        tau = u(t) - 300.0 * x[:6] - 10.0 * x[6:]
        return np.concatenate([x[6:], pin.aba(robot.model, data, x[:6], x[6:], tau)])

    system = RobotDynamics(robot, 0.05, integrator=integrator, damping=True)
    motion = simulate(system, x0, u, 1.0, tolerance=tolerance)
    truth = solve_ivp(rate, (0.0, 1.0), x0, "Radau", motion.t, rtol=1e-9, atol=1e-10).y.T
    assert np.abs(motion.X - truth).max() < 20 * tolerance
    assert motion.steps > 3 * len(motion.U)


def test_without_a_tolerance_motion_is_a_rollout(rng):
    system = RobotDynamics(stiff_arm(), 0.02, integrator="implicit-midpoint")
    x0, U = rng.normal(size=12), rng.normal(size=(10, 6))
    by_rows, by_time = simulate(system, x0, U, 0.2), simulate(system, x0, lambda t: U[int(t / 0.02)], 0.2)
    np.testing.assert_array_equal(by_rows.X, system.rollout(x0, U))
    np.testing.assert_array_equal(by_rows.X, by_time.X)
    np.testing.assert_array_equal(simulate(system, x0, U[0], 0.2).X, system.rollout(x0, np.tile(U[0], (10, 1))))
    with pytest.raises(ProblemError, match=r"seconds: expected a multiple of the system's step of 0.02 s, got 0.21"):
        simulate(system, x0, U, 0.21)
    with pytest.raises(ProblemError, match=r"u: expected a function of time, got one of \(t, x\); .* system\.step\("):
        simulate(system, x0, lambda t, x: U[0], 0.2)


@pytest.mark.parametrize("kinds", [("spherical", "helical"), ("spherical", "revolute"), ("translation", "spherical")])
def test_where_a_search_ends_forces_balance(kinds):
    """Balls that turn freely about the vertical have steps without end, which say nothing of the steps behind them."""
    for seed in range(40, 60):
        robot = sprung(chain_of(*kinds, seed=seed), np.random.default_rng(seed))
        rest, still = statics(robot), np.zeros(robot.nv)
        assert rest.converged
        gravity = pin.rnea(robot.model, robot.model.createData(), rest.q, still, still)
        springs = passive(RobotDynamics(robot, 0.01), rest.q, still)
        np.testing.assert_allclose(gravity, springs, rtol=0, atol=1e-5)


def test_rest_is_printed_as_a_table_of_joints_and_whether_it_is_one():
    told = str(statics(dynamics.load("ur5"))).splitlines()
    assert told[0].startswith("at rest after ")
    assert told[0].endswith(" are left [N m, N]")
    assert [line.split()[0] for line in told[1:]] == dynamics.load("ur5").joint_names
    assert float(told[2].split()[1]) == pytest.approx(np.pi / 2.0, abs=1e-5)
    assert str(statics(dynamics.load("go2"))).startswith("not at rest after ")
    assert str(statics(dynamics.load("ur5"), np.zeros((3, 6)))).startswith("3 of 3 at rest, ")
