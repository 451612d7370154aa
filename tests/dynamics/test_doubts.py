"""Doubts about problems are told once, name what is meant, and are silent about problems that are well made."""

import copy
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of, random_axis, random_tree

import dynamics
import problems
from ddp import kalman
from ddp.errors import SolveError
from ddp.options import DDP
from ddp.problem import Problem
from ddp.solver import solve
from dynamics.phases.phase import stretches
from dynamics.robots.equipment import Equipment
from dynamics.steps.doubts import excesses_of, reach_of
from problems import ALL, arm, constraints, costs, gaits, obstacles, pendulum
from problems.contact_costs import ForceLimits, friction_cone, friction_constraint
from problems.costs import FramePosition

KNOWN = {"arm/out-of-reach"}
"""Problems that are meant so."""


@pytest.fixture(scope="module")
def reach():
    return arm.reach(horizon=5)


def doubts(problem):
    return [*problem.dynamics.doubts(problem)]


def test_problems_ready_made_are_doubted_where_they_are_meant_to_be_impossible():
    made = {name: entry() for name, entry in ALL.items()}
    robots = {name: problem for name, problem in made.items() if hasattr(problem.dynamics, "doubts")}
    assert {name for name, problem in robots.items() if doubts(problem)} == KNOWN


def test_terms_of_another_robot_with_as_many_joints_are_told(reach):
    robots = map(dynamics.load, ("ur5", "ur5", "ur10"))
    own, again, other = (FramePosition(robot, "tool0", [0.4, 0.2, 0.5], 1.0) for robot in robots)
    assert not doubts(replace(reach, terminal=[own, again]))
    strange = replace(reach, terminal=[other], constraints=[constraints.VelocityLimits(other.robot)])
    told = "made for ur10, whose joints lie elsewhere than those of ur5"
    assert doubts(strange) == [f"FramePosition: {told}", f"VelocityLimits: {told}"]
    own, other = chain_of("continuous", *["revolute"] * 3), chain_of("continuous", "translation")  # as many numbers
    system, x0 = dynamics.RobotDynamics(own, 0.01), np.concatenate([own.q0, np.zeros(own.nv)])
    strange = Problem(system, [costs.CenterOfMass(other, np.zeros(3), 1.0)], [], x0, 3)
    (told,) = [one for one in doubts(strange) if "elsewhere" in one]
    assert told.startswith("CenterOfMass: made for continuous-translation")


def test_a_model_that_is_changed_after_it_was_compiled_is_told():
    problem = arm.reach(horizon=3)
    model = problem.dynamics.robot.model
    model.upperPositionLimit = np.full(6, 7.0)  # which is read anew
    model.addFrame(pin.Frame("grip", 3, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    assert not doubts(problem)
    model.gravity.linear = np.zeros(3)
    model.inertias[2] = pin.Inertia(2.0, np.zeros(3), np.eye(3))
    (told,) = doubts(problem)
    assert told.startswith("robot.model: gravity, inertias changed since it was compiled, ur5 moves as it did before")
    assert not doubts(replace(problem, dynamics=dynamics.RobotDynamics(dynamics.load(model), 0.01), terminal=[]))


def test_changed_models_are_told_of_copies_and_of_robots_of_other_masses():
    problem = arm.reach(horizon=3)
    lighter = problem.varying(masses=0.7 * problem.dynamics.robot.masses)
    assert not doubts(lighter)
    assert not doubts(pickle.loads(pickle.dumps(lighter)))
    problem.dynamics.robot.model.gravity.linear = np.zeros(3)
    copied, twin = copy.deepcopy(problem), problem.varying(masses=2.0 * problem.dynamics.robot.masses)
    twin.dynamics.robot.model.inertias[2] = pin.Inertia(2.0, np.zeros(3), np.eye(3))
    for changed, names in ((copied, "gravity"), (twin, "gravity, inertias")):
        assert any(f"robot.model: {names} changed since it was compiled" in told for told in doubts(changed))


def test_sensors_of_another_robot_with_as_many_joints_are_told(reach, caplog, monkeypatch):
    monkeypatch.setattr("ddp.doubts._told", set())
    own, other = (dynamics.FrameSensor(dynamics.load(name), "tool0") for name in ("ur5", "ur10"))
    joints, x = dynamics.JointSensor(reach.dynamics.robot), np.tile(reach.x0, (3, 1))
    u, covariances = np.zeros((2, 6)), (np.full(12, 1e-4), np.full(18, 1e-6), np.full(12, 1e-2))
    kalman(reach.dynamics, x, u, [joints, own], *covariances)
    assert not caplog.messages
    kalman(reach.dynamics, x, u, [joints, other], *covariances)
    assert caplog.messages == ["FrameSensor: made for ur10, whose joints lie elsewhere than those of ur5"]


def test_policies_of_another_robot_are_told_where_they_are_played(caplog, monkeypatch):
    monkeypatch.setattr("ddp.doubts._told", set())
    own, other = (solve(arm.reach(name, horizon=5)) for name in ("ur5", "ur10"))
    problems.simulate(own, policy=own.policy)
    assert not caplog.messages
    for policy in (other.policy, other.adaptive()):
        monkeypatch.setattr("ddp.doubts._told", set())
        problems.simulate(own, policy=policy)
    assert caplog.messages == 2 * ["RobotDynamics: made for ur10, whose joints lie elsewhere than those of ur5"]


def test_torques_and_forces_of_other_controls_are_told(reach):
    system = reach.dynamics
    geared = dynamics.RobotDynamics(system.robot, system.dt, 2.0 * system.actuation)
    made = [costs.GravityTorqueCost(geared, 1.0), costs.StateCost(geared, reach.x0, 1.0)]
    strange = replace(reach, running=made, constraints=[constraints.TorqueLimits(geared)])
    told = "made for a system whose controls act otherwise than those of the problem's"
    assert doubts(strange) == [f"GravityTorqueCost: {told}", f"TorqueLimits: {told}"]
    robot, feet = dynamics.load("hyq"), [dynamics.Contact("lf_foot")]
    phase, x0 = dynamics.Phase(feet, 3), np.concatenate([robot.q0, np.zeros(robot.nv)])
    plain, damped = (dynamics.PhasedDynamics(robot, 0.01, phase, damping=damping) for damping in (False, True))
    force = ForceLimits(damped, feet, np.eye(3), np.zeros(3), np.zeros(3), 1.0)
    (told,) = [one for one in doubts(Problem(plain, [force], [], x0, 3)) if "ForceLimits" in one]
    assert "damping or springs act otherwise" in told


@pytest.mark.parametrize("attributes", [{"driven": True}, {"contacts": [1], "system": "hopper"}])
def test_attributes_of_terms_of_ones_own_mean_nothing_to_doubts(attributes):
    term = type("Effort", (), {"value": lambda self, x, u: u @ u} | attributes)()
    assert doubts(replace(arm.reach("ur5", horizon=10), running=[term], terminal=[])) == []



def test_degrees_and_limits_are_told_apart(reach):
    degrees = reach.x0.copy()
    degrees[:3] = [0.0, -90.0, 80.0]
    (said,) = [one for one in doubts(reach.starting_at(degrees)) if "degrees" in one]
    assert "shoulder_lift_joint -90, elbow_joint 80 rad, up to 14.3 turns" in said
    beyond = reach.x0.copy()
    beyond[2] = 3.5
    (said,) = [one for one in doubts(reach.starting_at(beyond)) if "limits" in one]
    assert said == "x0: beyond limits of joints: elbow_joint at 3.5, its limit is 3.142 rad"


def test_targets_of_states_in_degrees_are_asked_about(reach):
    system, target = reach.dynamics, reach.x0.copy()
    target[:3] = [0.0, -90.0, 80.0]

    def doubted(target_x, weights):
        return doubts(replace(reach, terminal=[costs.StateCost(system, target_x, weights)]))

    (said,) = doubted(target, np.ones(system.n))
    assert said.startswith("StateCost: target_x: shoulder_lift_joint -90, elbow_joint 80 rad, up to 14.3 turns")
    assert doubted(target, np.eye(system.n)) == [said]
    assert not doubted(target, np.repeat([0.0, 1.0], system.n // 2))
    assert not doubted(np.radians(target), np.ones(system.n))
    for aim, asked in ((target, True), (reach.x0, False)):
        equality = constraints.StateEquality(system, aim)
        found = doubts(replace(reach, terminal_constraints=[equality]))
        assert found == [said.replace("StateCost", "StateEquality")] * asked


@pytest.mark.parametrize("integrator", ["semi-implicit-euler", "euler", "rk4"])
def test_damping_is_doubted_where_steps_make_speeds_grow(integrator):
    model = random_tree(4, lambda rng: pin.JointModelRY(), bodies=4).model
    model.damping, model.gravity = np.array([0.0, 0.3, 0.0, 2.0]), pin.Motion.Zero()
    robot = dynamics.load(model)
    M = pin.crba(robot.model, robot.model.createData(), robot.neutral())
    rates, motions = map(np.real, np.linalg.eig(np.linalg.solve(M, np.diag(model.damping))))
    x0 = np.concatenate([robot.neutral(), 1e-9 * motions[:, np.argmax(rates)]])
    stable = {"rk4": 2.7853}.get(integrator, 2.0) / rates.max()

    def doubted(dt, integrator=integrator, damping=True):
        system = dynamics.RobotDynamics(robot, dt, integrator=integrator, damping=damping)
        speeds = np.linalg.norm(system.rollout(x0, np.zeros((9, 4)))[:, 4:], axis=1)
        said = [one for one in doubts(Problem(system, [], [], x0, 3)) if "damping" in one]
        assert bool(said) == (speeds[-1] > speeds[0] * (1.0 + 1e-6))
        return said

    (said,) = doubted(1.01 * stable)
    assert f"longer than {stable:.2g} s" in said
    assert not doubted(0.99 * stable)
    assert not doubted(1.01 * stable, damping=False)
    assert not doubted(1.01 * stable, integrator="sdirk2")


def test_damping_is_doubted_whatever_the_order_of_joints():
    """Two legs, hips before shanks: Pinocchio's own mass matrix knows no such order, and steps six times as long."""
    model = pin.Model()
    for k, parent in enumerate((0, 0, 1, 2)):
        place = pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.5 * (parent > 0)]))
        index = model.addJoint(parent, pin.JointModelRY(), place, f"j{k}")
        model.appendBodyToJoint(index, pin.Inertia.FromSphere(1.0, 0.05), pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.5])))
    model.damping = np.ones(4)
    system = dynamics.RobotDynamics(dynamics.load(model), 0.2, damping=True)
    assert any("longer than 0.087 s" in one for one in doubts(Problem(system, [], [], np.zeros(8), 3)))


def test_damping_of_what_has_no_inertia_is_not_doubted():
    model = random_tree(4, lambda rng: pin.JointModelRY(), bodies=2).model
    model.inertias[2], model.damping = pin.Inertia.Zero(), np.ones(2)
    system = dynamics.RobotDynamics(dynamics.load(model, massless="ignore"), 1e-3, damping=True)
    assert not doubts(Problem(system, [], [], np.zeros(4), 3))


@pytest.mark.parametrize("made", [constraints.JointLimits, partial(costs.JointLimits, weight=1.0)])
def test_bounds_in_degrees_are_told(reach, made):
    robot = reach.dynamics.robot

    def said(robot=robot, **bounds):
        limits = made(robot, **bounds)
        lists = {"constraints": [limits]} if isinstance(limits, constraints.JointLimits) else {"running": [limits]}
        system = dynamics.RobotDynamics(robot, 0.01)
        x0 = np.concatenate([robot.neutral(), np.zeros(robot.nv)])
        problem = Problem(system, x0=x0, horizon=3, **{"running": [], "terminal": []} | lists)
        return [one for one in doubts(problem) if "degrees" in one]

    (found,) = said(lower=np.full(6, -170.0), upper=np.full(6, 170.0))
    assert found.startswith("JointLimits: shoulder_pan_joint is allowed 170 rad, 27.1 turns, its own limit is 6.283 ")
    for bound in (3.0, 2.0 * np.pi, 1e3, np.inf):
        assert not said(lower=np.full(6, -bound), upper=np.full(6, bound)) if bound < np.inf else not said()
    free = random_tree(2, lambda rng: (pin.JointModelRX(), pin.JointModelPZ())[int(rng.integers(2))])
    assert not said(free, lower=np.full(free.nq, -90.5), upper=np.full(free.nq, 90.5))  # which have none of their own
    turns = random_tree(2, lambda rng: pin.JointModelRX())
    (found,) = said(turns, lower=np.full(turns.nq, -90.0), upper=np.full(turns.nq, 90.0))  # a whole number
    assert found.endswith("is allowed 90 rad, 14.3 turns: are these degrees? np.radians converts them")


@pytest.mark.parametrize(("stiffness", "needed"), [(0.0, 28.0), (5.0, 33.0)])
def test_torques_that_hold_a_robot_beyond_its_files_limits_and_beyond_the_problems_are_told_apart(stiffness, needed):
    robot = dynamics.load(f"""<mujoco><option gravity="0 0 -10"/><worldbody><body>
        <joint name="a" axis="0 -1 0" stiffness="{stiffness}" springref="{np.rad2deg(-1.0)}" actuatorfrcrange="-30 20"/>
        <inertial pos="1 0 0" mass="2.8" diaginertia=".1 .1 .1"/></body></worldbody></mujoco>""")
    for limits, told in (
        (None, "its file allows 20, which control_limits=robot.control_limits.T imposes"),
        (robot.control_limits.T, "its limit is 20: the motion begins with a fall"),
        ([[-30.0], [25.0]], "its limit is 25: the motion begins with a fall"),
        ([[needed + 1.0], [needed + 2.0]], f"its limit is {needed + 1.0:g}: the motion begins with a fall"),
    ):
        problem = Problem(dynamics.RobotDynamics(robot, 0.01), [], [], np.zeros(2), 3, control_limits=limits)
        assert doubts(problem) == [f"x0: a needs {needed:g} N m to rest there, {told}"]


def test_what_holds_a_sliding_joint_is_a_force():
    robot = dynamics.load("""<mujoco><option gravity="0 0 -10"/><worldbody><body>
        <joint name="lift" type="slide" axis="0 0 1" actuatorfrcrange="-10 10"/>
        <inertial pos="0 0 0" mass="3" diaginertia=".1 .1 .1"/></body></worldbody></mujoco>""")
    (told,) = doubts(Problem(dynamics.RobotDynamics(robot, 0.01), [], [], np.zeros(2), 3))
    assert told.startswith("x0: lift needs 30 N to rest there, its file allows 10")


@pytest.mark.parametrize(("dt", "count"), [(20.0, 1), (0.02, 0)])
def test_steps_in_milliseconds_are_noticed(dt, count, reach):
    problem = replace(reach, dynamics=dynamics.RobotDynamics(reach.dynamics.robot, dt))
    assert len([one for one in doubts(problem) if one.startswith(f"dt: steps of {dt:g} s")]) == count


@pytest.mark.parametrize(("share", "count"), [(0.1, 1), (1.0, 0)])
def test_legs_that_are_too_weak_to_stand_are_named(share, count):
    robot = dynamics.load("go2")
    motors = Equipment(robot.actuation, share * robot.control_limits)
    problem = gaits.trot(dynamics.Robot(robot.model, robot.q0, robot.source, motors))
    found = [one for one in doubts(problem) if "to stand there" in one]
    assert len(found) == count
    assert all("hip_joint needs a control of" in one for one in found)


@pytest.mark.parametrize(("step", "count"), [(None, 1), (0.15, 0)])
def test_feet_that_do_not_reach_their_footholds_are_named(step, count):
    problem = gaits.trot("go2", speed=1.0, step_duration=step)
    found = [one for one in doubts(problem) if one.startswith("guess: ") and "_foot at knot" in one]
    assert len(found) == count


@pytest.mark.parametrize(("knee", "straight"), [(0.1, True), (1.6, False)])
def test_feet_out_of_reach_of_straight_legs_are_told_to_bend_them_first(knee, straight):
    robot = dynamics.load("solo12")
    q0 = np.concatenate([robot.q0[:7], np.tile([0.0, 0.5 * knee, -knee], 4)])
    problem = gaits.trot(robot, q0=q0, speed=1.5)
    (found,) = [one for one in doubts(problem) if one.startswith("guess: ") and "_FOOT at knot" in one]
    assert ("it is nearly straight at x0: begin with bent legs" in found) is straight
    with pytest.raises(SolveError) as told:
        solve(problem)
    assert found in str(told.value)


def test_a_quaternion_in_the_order_of_mujoco_is_noticed():
    model = pin.Model()
    model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    model.appendBodyToJoint(1, pin.Inertia.Random(), pin.SE3.Identity())
    system = dynamics.RobotDynamics(dynamics.load(model), 0.01)
    x0 = np.zeros(13)
    turned = [np.cos(0.7), 0.1, 0.0, np.sin(0.7)] / np.sqrt(1.01)
    for quaternion, count in (
        ([1.0, 0.0, 0.0, 0.0], 1), ([0.0, 0.0, 0.0, 1.0], 0), (turned, 1), (np.roll(turned, -1), 0),
        ([0.0, 0.0, 1.0, 0.0], 0),
    ):  # fmt: skip
        x0[3:7] = quaternion
        problem = Problem(system, [], [], x0, 5)
        found = [one for one in doubts(problem) if "quaternion" in one]
        assert len(found) == count


def test_no_configuration_reaches_further_than_the_bound(rng):
    finite = 0
    for seed in range(12):
        turning = lambda rng: pin.JointModelRevoluteUnaligned(random_axis(rng))  # noqa: E731
        robot = random_tree(seed, turning) if seed % 4 else random_tree(seed)
        model = robot.model
        model.addFrame(pin.Frame("end", model.njoints - 1, pin.SE3.Random(), pin.FrameType.OP_FRAME))
        data = model.createData()
        shoulder, bound = reach_of(robot, "end")
        finite += np.isfinite(bound)
        for _ in range(20):
            pin.framesForwardKinematics(model, data, robot.random_configuration(rng))
            at = data.oMf[model.getFrameId("end")].translation
            assert np.linalg.norm(at - shoulder) <= bound + 1e-9
    assert finite > 0


def test_targets_out_of_reach_are_told_in_millimetres(reach):
    robot = reach.dynamics.robot
    shoulder, bound = reach_of(robot, "tool0")
    far = shoulder + np.array([0.0, bound + 0.25, 0.0])
    near = shoulder + np.array([0.0, bound - 0.01, 0.0])
    for place, told in ((far, ["target of tool0: 250 mm further"]), (near, [])):
        found = doubts(replace(reach, terminal=[FramePosition(robot, "tool0", place, 1.0)]))
        assert [one[: len("target of tool0: 250 mm further")] for one in found] == told


def test_targets_inside_what_their_frame_must_stay_clear_of_are_told(reach):
    """At the end, where both are asked; not of another frame, nor of obstacles that end before the last knot."""
    robot, target = reach.dynamics.robot, reach.terminal[0].target.translation
    x, y, z = target
    rod = obstacles.Capsule([x - 0.3, y - 0.01, z], [x + 0.3, y - 0.01, z], 0.04)
    ball = obstacles.SphereClearance(robot, "tool0", 0.02, [rod], margin=0.01)
    bar = obstacles.CapsuleClearance(robot, ("forearm_link", "tool0"), 0.03, [rod])
    assert doubts(replace(reach, constraints=[ball, bar])) == [
        f"target of tool0: 60 mm nearer to an obstacle than {kind} allows"
        for kind in ("SphereClearance", "CapsuleClearance")
    ]
    others = [replace(ball, frame="forearm_link"), replace(bar, frames=("forearm_link", "wrist_1_link"))]
    clear = replace(ball, obstacles=[obstacles.Sphere([x, y, z + 0.1], 0.06)])
    assert not doubts(replace(reach, constraints=[*others, clear, replace(ball, at_end=False)]))


def test_forces_of_feet_that_do_not_stand_are_told():
    """In flight such a constraint is of forces that nothing feels; it ended without a word after 884 iterations."""
    problem = gaits.jump("solo12")
    system, (stands, flies, _) = problem.dynamics, stretches(problem.dynamics.phases)
    feet = system.phases[0].contacts
    cone, barrier = friction_constraint(system, feet, 0.7), friction_cone(system, feet, 0.7, 1.0)
    first, last = min(foot.frame for foot in feet), max(foot.frame for foot in feet)
    for given, name in (
        ({"constraints": [cone]}, "constraints[0] (ForceConstraint)"),
        ({"running": [barrier]}, "running[0] (ForceLimits)"),
        ({"constraints_at": {range(0, flies.start + 3): [cone]}}, "constraints_at[range(0, 24)][0] (ForceConstraint)"),
    ):
        (said,) = doubts(replace(problem, **given))
        assert said.startswith(f"{name}: forces as if {first}, ")
        assert f"{last} held the robot, but at knot {flies.start} nothing does: " in said
    two = friction_constraint(system, feet[:2], 0.7)
    (said,) = doubts(replace(problem, constraints_at={stands: [two]}))
    assert "but at knot 0 " in said
    assert not doubts(replace(problem, constraints_at={stands: [cone]}))


def test_torques_that_do_not_hold_the_start_are_told(reach):
    weak = replace(reach, control_limits=(-5.0, 5.0))
    (said,) = [one for one in doubts(weak) if "rest" in one]
    needed = pin.computeGeneralizedGravity(
        reach.dynamics.robot.model, reach.dynamics.robot.model.createData(), reach.x0[:6]
    )
    name = reach.dynamics.robot.model.names[1 + int(np.argmax(np.abs(needed)))]
    assert name in said
    assert "its limit is" in said
    assert doubts(pendulum.swing_up()) == []  # it hangs at rest


def test_a_doubt_is_told_once_and_copies_are_not_asked_again(monkeypatch, caplog):
    problem = pendulum.swing_up()
    asked = []
    doubt = lambda self, problem: asked.append(1) or ["a doubt of a test"]  # noqa: E731
    monkeypatch.setattr(type(problem.dynamics), "doubts", doubt)
    monkeypatch.setattr("ddp.doubts._told", set())
    for make in (lambda: problem, lambda: problem.starting_at([0.1, 0.0]), lambda: problem.varying(x0=[0.2, 0.0])):
        solve(make(), DDP(max_iterations=1), throw=False)
    assert len(asked) == 1
    solve(replace(problem, running=list(problem.running)), DDP(max_iterations=1), throw=False)
    assert [record.message for record in caplog.records].count("a doubt of a test") == 1


def test_joints_that_leave_their_limits_are_told():
    robot = dynamics.load("ur5")
    X = np.zeros((3, 12))
    assert excesses_of(robot, X) == []
    high, fastest = robot.model.upperPositionLimit[2], robot.model.upperVelocityLimit[4]
    X[1, 2], X[2, 10] = high + 0.25, -fastest - 0.5
    names = robot.joint_names
    assert excesses_of(robot, X) == [
        f"{names[2]} leaves its limits of position by 0.25 rad",
        f"{names[4]} leaves its limits of velocity by 0.5 rad/s",
    ]


def test_controls_that_leave_the_limits_of_their_file_are_told():
    robot = dynamics.load("ur5")
    system, X, U = dynamics.RobotDynamics(robot, 0.01), np.zeros((3, 12)), np.zeros((2, 6))
    U[1, 1], U[0, 3] = -robot.control_limits[1, 1] - 7.0, robot.control_limits[3, 1]
    problem = Problem(system, [], [], X[0], 2)
    assert system.excesses(problem, X, U) == ["shoulder_lift_joint leaves its limits of effort by 7 N m"]
    assert dynamics.RobotDynamics(robot, 0.01, actuation=2.0 * np.eye(6)).excesses(problem, X, U) == []
    mjcf = """<mujoco><worldbody><body><joint name="j"/><geom size="0.1"/></body></worldbody><actuator>
      <motor name="m" joint="j" gear="9" ctrlrange="-1 1"/></actuator></mujoco>"""
    system = dynamics.RobotDynamics(dynamics.load(mjcf), 0.01)
    assert system.excesses(problem, np.zeros((2, 2)), [[1.5]]) == ["j leaves its limits of control by 0.5"]


def test_joints_with_one_limit_that_leave_it_are_told():
    model = dynamics.load("ur5").model.copy()
    lower, upper = np.array(model.lowerPositionLimit), np.array(model.upperPositionLimit)
    upper[1], lower[2] = np.inf, -np.inf
    model.lowerPositionLimit, model.upperPositionLimit = lower, upper
    X = np.zeros((2, 12))
    X[1, 1], X[1, 2] = lower[1] - 0.25, upper[2] + 0.5
    names = dynamics.load("ur5").joint_names
    assert excesses_of(dynamics.load(model), X) == [
        f"{names[1]} leaves its limits of position by 0.25 rad",
        f"{names[2]} leaves its limits of position by 0.5 rad",
    ]


def test_a_printed_solution_names_the_first_joint_beyond_its_limits(reach):
    solution = solve(reach)
    first, *others = solution.explain().beyond or [""]
    assert str(solution).endswith(f"; {first}, {len(others)} more in explain()" if others else first)
    X = solution.X.copy()
    X[3, 0] = reach.dynamics.robot.model.upperPositionLimit[0] + 0.25
    beyond = replace(solution, X=X)
    assert "; shoulder_pan_joint leaves its limits of position by 0.25 rad" in str(beyond)
    assert "leaves its limits" not in str(replace(beyond, converged=False))
    assert "leaves its limits" not in str(replace(beyond, problem=None))
