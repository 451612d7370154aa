"""Policies play in MuJoCo's contacts: they stay on their paths, better than a joint PD, and tell when they fall."""

from dataclasses import replace

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from thorough import cases

import ddp
import problems
from dynamics import Contact, Phase, PhasedDynamics, Robot, RobotDynamics, load
from problems import arm, gaits, legged, legs, quadrotor
from problems.costs import ControlCost, StateCost
from problems.legs import base_pose, with_base
from problems.play.simulation import feet_of, world_of
from problems.play.terrain import uneven_ground


@pytest.fixture(scope="module")
def trot():
    return ddp.solve(gaits.trot("solo12"))


def test_a_trot_stays_on_its_path_and_pays_pushes_back(trot):
    calm, pushed = problems.simulate(trot), problems.simulate(trot, push=0.3)
    assert calm.rms < 0.0012
    assert not calm.fell
    assert pushed.rms < 0.005 < problems.simulate(trot, push=0.3, policy="pd").rms
    assert pushed.error[: len(pushed.t) // 2 - 1] == pytest.approx(calm.error[: len(pushed.t) // 2 - 1])


@pytest.mark.parametrize("condition", [{"mass": 1.1}, {"friction": 0.5}, {"delay": 0.002}, {"noise": 1.0}])
def test_what_the_plan_does_not_know_costs_millimetres(trot, condition):
    assert problems.simulate(trot, **condition).rms < 0.005


@pytest.mark.parametrize("turn", cases([(0.0, 0.0, 0.5), (0.3, 0.0, 0.0)], [(0.3, 0.0, 0.0)]))
def test_a_gait_is_the_same_wherever_its_robot_counts_its_base_from(trot, turn):
    model = trot.problem.dynamics.robot.model.copy()
    model.jointPlacements[1] = pin.SE3(pin.exp3(np.array(turn)), np.array([0.1, 0.0, 0.4]))
    usual = base_pose(trot.problem.dynamics.robot, trot.problem.x0)
    robot = Robot(model, with_base(Robot(model), load("solo12").q0, usual))
    data = model.createData()
    pin.forwardKinematics(model, data, robot.q0)
    assert data.oMi[1].isApprox(usual, 1e-12)
    assert base_pose(robot, robot.q0).isApprox(usual, 1e-12)
    moved = ddp.solve(gaits.trot(robot))
    assert moved.cost == pytest.approx(trot.cost, rel=1e-9)
    for a, b in zip(moved.X, trot.X, strict=True):
        assert base_pose(robot, a).isApprox(base_pose(trot.problem.dynamics.robot, b), 1e-6)
    run = problems.simulate(moved)
    assert not run.fell
    assert run.rms < 0.0012
    with pytest.raises(ddp.ProblemError, match="robot: expected a base that counts from the world's origin, that of"):
        problems.Walking(robot)


def test_torques_alone_fall_or_lose_their_way(trot):
    run = problems.simulate(trot, policy="open")
    assert run.fell or run.rms > 0.03


def test_a_base_on_its_back_has_fallen_however_high_it_lies(trot):
    run = problems.simulate(trot, policy="open", push=(0.0, 1.0, 2.0))
    assert run.X[:, 2].min() > 0.4 * trot.X[0, 2]
    assert run.attitude.max() > 90.0
    assert run.fell
    assert str(run) == f"fell after {run.t[-1]:.2f} s"


def test_level_ground_below_feet_that_stand_on_steps_is_told(caplog):
    robot = load("solo12")
    q = robot.q0.copy()
    q[3:7] = pin.Quaternion(pin.exp3(np.array([0.0, 0.1, 0.0]))).coeffs()
    problem = gaits.trot(robot, q0=q)
    problems.simulate(ddp.solve(problem, throw=False))
    assert "solo12: MuJoCo's ground is level, feet are planned to stand up to 0.039 m higher" in caplog.text


def test_soles_that_stand_tilted_are_told(caplog):
    """An iCub's usual posture has them at 3.6 degrees: on level ground it falls over their edges."""
    for robot, told in (("icub_reduced", 1), ("talos", 0)):
        problem = gaits.stand(robot)
        world_of(problem.dynamics, problem.x0, 0.7, 0.02, 1e-3)
        said = [one.message for one in caplog.records if "level" in one.message]
        assert said == ["icub_reduced: MuJoCo's ground is level, soles are planned to stand tilted by 3.6 deg"] * told
        caplog.clear()


def test_usual_postures_with_legs_at_their_limits_are_told(caplog):
    """A file of Laikago has none: its knees are as straight as they go, and a jump from there falls."""
    bent = np.concatenate([load("laikago").q0[:7], np.tile([0.0, 0.67, -1.25], 4)])
    for robot, given, told in (("b1_z1", None, 0), ("laikago", bent, 0), ("laikago", None, 1)):
        caplog.clear()
        legs.stance(load(robot), q0=given)
        assert caplog.text.count("FL_calf_joint, FR_calf_joint and 2 more at limits of position") == told
        assert caplog.text.count("give one to stand in, q0=..., or a keyframe called home of MJCF") == told
    assert not problems.simulate(ddp.solve(gaits.jump("laikago", q0=bent))).fell


@pytest.mark.parametrize("gravity", ["0 0 9.8", "9.8 0 0", "0 0 0"])
def test_robots_stand_under_gravity_that_points_down_alone(gravity):
    robot = load(f"""<mujoco><option gravity="{gravity}"/><worldbody><body><freejoint/><geom size=".1"/>
        <site name="foot"/><site name="foot2" pos="1 0 0"/></body></worldbody></mujoco>""")
    with pytest.raises(ddp.ProblemError, match="robot: expected gravity that points down, along -z, got"):
        gaits.stand(robot)


def test_a_motion_has_its_times_states_and_controls(trot):
    run = problems.simulate(trot, rate=500.0)
    S = len(run.U)
    assert run.X.shape == run.plan.shape == (S + 1, 37)
    assert np.allclose(np.diff(run.t), 0.002)
    assert run.t[-1] == pytest.approx(trot.policy.duration, abs=0.002)
    assert "rms" in str(run)
    assert "deg" in str(run)


def test_errors_of_attitude_are_angles_between_rotations(trot):
    run = problems.simulate(trot, push=0.3)
    pairs = zip(run.X, run.plan, strict=True)
    turns = [pin.Quaternion(x[3:7]).angularDistance(pin.Quaternion(planned[3:7])) for x, planned in pairs]
    np.testing.assert_allclose(run.attitude, np.rad2deg(turns), atol=1e-5)  # acos of nearly one
    assert 0.1 < run.attitude.max() < 5.0


def test_a_bound_keeps_its_feet_on_slippery_ground_and_pushes_freely_where_none_has_slid():
    bound = ddp.solve(gaits.bound("hyq"))
    loose = bound.problem.dynamics.tracked.weights(bound.X, bound.U)._replace(friction=np.inf)
    learning, freely = bound.adaptive(), bound.feedback(weights=loose)
    run = problems.simulate(bound, friction=0.5, policy=learning)
    assert learning.slid
    assert run.rms < 0.015 < problems.simulate(bound, friction=0.5, policy="pd").rms
    slipped = problems.simulate(bound, friction=0.5, policy=freely)
    assert slipped.fell or slipped.rms > 0.03
    firm = problems.simulate(bound, softness=0.006, policy=learning)
    assert not learning.slid
    assert np.array_equal(firm.X, problems.simulate(bound, softness=0.006, policy=freely).X)
    assert firm.rms < 0.6 * problems.simulate(bound, softness=0.006, policy="tracking").rms


def test_weights_of_feedback_are_those_of_plans_in_their_units(trot):
    """The default in these units, and other than it with others."""
    weights = {"position": 300.0, "rotation": 100.0, "posture": 3.0, "velocity": 10.0, "turning": 1.0, "speed": 0.1}
    same = legged.tracking(trot, legged.Weights(torque=2.5, final=10.0, **weights))
    for own, given in zip(trot.problem.dynamics.tracked.weights(trot.X, trot.U), same, strict=True):
        assert np.array_equal(own, given)
    soft = legged.tracking(trot, legged.Weights(position=30.0))
    np.testing.assert_allclose(soft.state[:3], 0.1 * same.state[:3])
    with pytest.raises(ddp.ProblemError, match=r"expected gaits.Weights\(...\) with fields torque, .*, got 3.0"):
        legged.tracking(trot, 3.0)


def test_delay_that_is_known_is_made_up_for():
    jump = ddp.solve(gaits.jump("solo12"))
    late = problems.simulate(jump, delay=0.005, policy="tracking")
    known = problems.simulate(jump, delay=0.005, policy=jump.feedback(delay=0.005))
    assert known.rms < 0.5 * late.rms


def test_delay_that_nobody_knows_is_learned():
    bound = ddp.solve(gaits.bound("solo12"))
    loose = bound.problem.dynamics.tracked.weights(bound.X, bound.U)._replace(friction=np.inf)
    learning, deaf, late = bound.adaptive(loose), bound.feedback(weights=loose), {"delay": 0.005}
    run = problems.simulate(bound, policy=learning, **late)
    assert learning.delay == pytest.approx(0.005, abs=0.001)
    assert run.rms < 0.5 * problems.simulate(bound, policy=deaf, **late).rms
    for other in cases([{}, {"mass": 1.1}, {"noise": 1.0}], [{"noise": 1.0}]):
        same = problems.simulate(bound, policy=learning, **other)
        assert learning.delay == 0.0
        assert np.array_equal(same.X, problems.simulate(bound, policy=deaf, **other).X)


def test_feet_that_are_felt_to_land_carry_over_uneven_ground():
    walk = ddp.solve(gaits.walk("solo12"))
    height = walk.problem.dynamics.tracked.units(walk.X).height
    for ground in cases([(-0.08 * height, -0.08 * height), 0.08 * height], [0.08 * height]):
        felt = problems.simulate(walk, policy="contact", uneven=ground)
        by_time = problems.simulate(walk, uneven=ground)
        assert felt.rms < 0.6 * by_time.rms
        assert felt.rms < 0.2 * problems.simulate(walk, policy="pd", uneven=ground).rms


def test_the_policy_by_contact_is_known_by_its_name_and_ground_by_its_seed(trot):
    ground = 0.08 * trot.problem.dynamics.tracked.units(trot.X).height
    felt = problems.simulate(trot, policy="contact", uneven=ground)
    assert np.array_equal(felt.X, problems.simulate(trot, policy=trot.by_contact(), uneven=ground).X)
    assert not np.array_equal(felt.X, problems.simulate(trot, policy="contact", uneven=ground, seed=1).X)


def test_uneven_ground_is_level_under_feet_and_within_its_limits_elsewhere():
    """Heights that MuJoCo's rays find."""
    system, X = gaits.walk("solo12").dynamics, gaits.walk("solo12").guess[0]
    frames = [foot.frame for foot in feet_of(system)]
    relief = uneven_ground(system, X, frames, (-0.03, 0.01), 3)
    world = world_of(system, X[0], 0.7, 0.02, 0.001, relief)
    data = world.data(*np.split(X[0], [system.robot.nq]))
    floor = world.floor - 0.02  # feet are spheres of 2 cm

    def height(x, y):
        start, down = np.array([x, y, floor + 1.0]), np.array([0.0, 0.0, -1.0])
        return 1.0 - mujoco.mj_rayHfield(world.model, data, world.model.geom("ground").id, start, down)

    for frame in frames:
        x, y = data.geom(frame).xpos[:2]
        assert abs(height(x + 0.01, y - 0.01)) < 1e-6
    rng, seen = np.random.default_rng(0), []
    for x, y in relief.center + rng.uniform(-0.95, 0.95, size=(200, 2)) * relief.half:
        column, row = (np.array([x, y]) - relief.center + relief.half) / (2.0 * relief.half) * (
            np.array(relief.heights.shape[::-1]) - 1
        )
        i, j = int(row), int(column)
        around = relief.heights[i : i + 2, j : j + 2]
        seen.append(height(x, y))
        assert around.min() - 1e-6 <= seen[-1] <= around.max() + 1e-6
    assert -0.03 <= min(seen) < -0.02
    assert 0.002 < max(seen) <= 0.01


def test_an_arm_follows_its_reach():
    reach = ddp.solve(arm.reach("ur5"))
    calm = problems.simulate(reach)
    assert calm.rms < 0.006
    assert str(calm).startswith("rms of joints 0.00")
    assert "[rad, m]" in str(calm)
    assert "overflowed" in str(problems.simulate(reach, rate=2.0))
    heavy = {"mass": 1.1, "delay": 0.005, "noise": 1.0}
    assert problems.simulate(reach, **heavy).rms < 0.01 < problems.simulate(reach, policy="solver", **heavy).rms
    assert problems.simulate(reach, policy="solver").rms > calm.rms


def test_controllers_may_write_on_states_and_return_the_same_array_at_every_call():
    reach = ddp.solve(arm.reach("ur5"))
    kept = np.zeros(6)

    def reused(t, x):
        kept[:] = reach.policy(t, x)
        x[:] = np.nan
        return kept

    expected, found = (problems.simulate(reach, policy=policy, delay=0.002) for policy in (reach.policy, reused))
    assert np.array_equal(found.X, expected.X)


def test_a_policy_that_clips_names_the_control_at_its_limit():
    """An arm lifts itself with hardly more torque than its weight asks for, and is heavier than planned."""
    robot = load("ur5")
    x0 = np.concatenate([robot.q0, np.zeros(6)])
    hold = RobotDynamics(robot, 0.02).nominal_control(x0)
    limits = np.where(np.arange(6) == 1, 1.05 * np.abs(hold[1]), 1e3)
    system = RobotDynamics(robot, 0.02, control_limits=np.stack([-limits, limits], axis=1))
    plan = ddp.solve(ddp.Problem(system, [ControlCost(hold, 1.0)], [], x0, 25), guess=np.tile(hold, (25, 1)))
    calm, heavy = problems.simulate(plan), problems.simulate(plan, mass=1.3)
    assert "limit" not in str(calm)
    share = (np.abs(heavy.U[:, 1]) >= limits[1]).mean()
    assert heavy.limited == pytest.approx(dict.fromkeys(robot.model.names[1:], 0.0) | {robot.model.names[2]: share})
    assert str(heavy).endswith(f"; shoulder_lift_joint at its limit for {100.0 * share:.0f} % of the time")
    wide = plan.feedback(weights=system.tracked.weights(plan.X, plan.U)._replace(limits=(-2.0 * limits, 2.0 * limits)))
    freed = problems.simulate(plan, policy=wide, mass=1.3)
    assert (heavy.rms, freed.rms) == pytest.approx((0.25, 0.0125), rel=0.02)  # as docs/feedback.md says
    assert not problems.simulate(plan, policy=lambda t, x: hold).limited
    stay = StateCost(system, x0, np.repeat([1e4, 1e2], 6))
    with ddp.RecedingHorizon(replace(plan.problem, running=[ControlCost(hold, 1e-3), stay]), guess=plan) as planner:
        run = problems.simulate_receding(planner, 0.3, mass=1.3)
    share = (np.abs(run.play.U[:, 1]) >= limits[1]).mean()
    assert run.play.limited[robot.model.names[2]] == pytest.approx(share)
    assert f"; shoulder_lift_joint at its limit for {100.0 * share:.0f} % of the time" in str(run)


def test_a_quadrotor_flies_its_loop_under_thrust_along_its_own_axes():
    loop = ddp.solve(quadrotor.loop())
    assert problems.simulate(loop, mass=1.1, delay=0.005, noise=1.0).rms < 0.1
    assert problems.simulate(loop, policy="open").rms > 0.5


@pytest.mark.parametrize(("given", "words"), [
    ({"inside": "bullet"}, "inside: unknown 'bullet'"),
    ({"push": [1.0]}, "push: expected one number, or two or three, got 1"),
    ({"mass": 0.0}, "mass: expected a positive number"),
    ({"delay": -0.1}, "delay: expected at least 0"),
    ({"policy": "best"}, "policy: unknown 'best'"),
    ({"policy": 3}, "policy: expected one of"),
    ({"uneven": -0.01}, "uneven: expected at least 0, or the lowest and the highest"),
    ({"uneven": (0.01, 0.0)}, "uneven: expected the lowest before the highest"),
    ({"uneven": (0.0, 0.1, 0.2)}, "uneven: expected one number, or the lowest and the highest ground .m., got 3"),
    ({"uneven": 1.0}, "uneven: expected less than 0.193"),
    ({"rate": 1e-9}, "rate: expected at least .* Hz, a control in .* s, got 1e-09"),
])  # fmt: skip
def test_bad_conditions_are_refused(trot, given, words):
    with pytest.raises(ddp.ProblemError, match=words):
        problems.simulate(trot, **given)


@pytest.mark.parametrize("given", [{"uneven": 0.01}, {"friction": 0.5}])
def test_only_robots_on_feet_have_ground(given):
    with pytest.raises(ddp.ProblemError, match=r"\w+: expected (0|none), ur5 does not stand on feet"):
        problems.simulate(ddp.solve(arm.reach("ur5")), **given)


def test_only_solutions_of_robots_are_played():
    with pytest.raises(ddp.ProblemError, match="solution: expected a Solution"):
        problems.simulate(3)
    robot = load("ur5")
    prescribed = RobotDynamics(robot, 0.01, integrator="implicit-euler", prescribed=["elbow_joint"])
    with pytest.raises(ddp.ProblemError, match="expected torques of all joints, that of 'elbow_joint' is prescribed"):
        problems.simulate(resting(prescribed, robot.q0))


def test_phases_of_flight_alone_are_played_without_ground():
    robot = load("iris")
    flight = PhasedDynamics(robot, 0.01, Phase((), 10))
    free = RobotDynamics(robot, 0.01)
    runs = [problems.simulate(resting(system, robot.q0), policy="open") for system in (flight, free)]
    np.testing.assert_array_equal(runs[0].X, runs[1].X)


def resting(system, q):
    """A motion without a purpose."""
    x0 = np.concatenate([q, np.zeros(system.robot.nv)])
    return ddp.solve(ddp.Problem(system, [ControlCost(np.zeros(system.nu), 1.0)], [], x0, 10))


def ball(place, kind, **rolling):
    """A ball of 10 cm that turns about its second axis, and touches the ground, or hangs, at a place on it."""
    model = pin.Model()
    model.appendBodyToJoint(model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "ball"),
                            pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())  # fmt: skip
    model.addFrame(pin.Frame("point", 1, 0, pin.SE3(np.eye(3), np.array([0.0, 0.0, place])), pin.OP_FRAME))
    phase = Phase(Contact("point", kind, **rolling), 10)
    return PhasedDynamics(Robot(model), 0.01, phase, actuation=np.eye(6)[:, [4]])


def test_what_rolls_or_hangs_has_a_policy_and_no_feet():
    systems = ball(0.0, "rolling", radius=0.1, normal=(0.0, 0.0, 1.0)), ball(0.1, "point")
    rolling, hanging = (resting(system, system.robot.neutral()) for system in systems)
    for solution in (rolling, hanging):
        assert np.isfinite(solution.policy.G).all()
    with pytest.raises(ddp.ProblemError, match="solution: expected feet, points or soles, 'point' rolls"):
        problems.simulate(rolling)


def test_a_biped_that_leans_at_the_end_of_its_motion_falls():
    """A robot that leans too far to stand is still above the ground when the plan ends."""
    plan = ddp.solve(problems.find("biped/step")(), throw=False)
    for policy, push, falls in (("adaptive", None, False), ("pd", 0.3, True)):
        run = problems.simulate(plan, policy=policy, push=push)
        assert run.fell == falls
        assert run.t[-1] == pytest.approx(plan.policy.duration)
        assert len(run.X) == len(run.t) == len(run.U) + 1
        assert run.X[-1, 2] > 0.9
        assert (run.later > 0.0) == falls == ("its end being held from" in str(run))


def test_a_humanoid_on_straight_legs_stands():
    """Of an iCub, hips turn by 20 rad for a metre of its base's height: stiffness for so much would throw it over."""
    robot = load("icub_reduced")
    q = robot.q0.copy()
    for joint in ("l_ankle_pitch", "r_ankle_pitch"):  # its soles level
        q[robot.model.joints[robot.model.getJointId(joint)].idx_q] += 0.0635
    stand = ddp.solve(gaits.stand(robot, q0=q))
    for condition in cases([{}, {"push": 0.2}, {"delay": 0.005}], [{"push": 0.2}]):
        run = problems.simulate(stand, **condition)
        assert not run.fell
        assert run.rms < 0.003


def test_a_step_on_legs_that_are_nearly_straight_pays_a_push_back():
    run = problems.simulate(ddp.solve(gaits.step("talos")), push=(0.3, 0.0))
    assert not run.fell
    assert run.rms < 0.006


@pytest.fixture(scope="module")
def humanoid():
    """Motion of a G1 that stands."""
    robot, feet = load("g1"), ("left_ankle_roll_link", "right_ankle_roll_link")
    q = robot.q0.copy()
    for joint, angle in (("hip_pitch", -0.3), ("knee", 0.6), ("ankle_pitch", -0.3)):
        for side in ("left", "right"):
            q[robot.model.joints[robot.model.getJointId(f"{side}_{joint}_joint")].idx_q] = angle
    system = PhasedDynamics(robot, 0.02, Phase([Contact(foot, "surface") for foot in feet], 25))
    x0 = np.concatenate([q, np.zeros(robot.nv)])
    u0 = system.nominal_control(x0)
    return ddp.solve(ddp.Problem(system, [ControlCost(u0, 1.0)], [], x0, 25), guess=np.tile(u0, (25, 1)))


CONDITIONS = [({}, 0.003), ({"noise": 1.0}, 0.003), ({"push": (0.1, 0.0)}, 0.02), ({"policy": "pd"}, 0.02)]


@pytest.mark.parametrize(("condition", "most"), cases(CONDITIONS, CONDITIONS[1:3]))
def test_a_humanoid_with_light_ankles_stands(humanoid, condition, most):
    """Its ankles have 0.3 g m² and no rotor, its hands little more, and its feet 5 cm to tip over.

    Damping in units of the robot, held for 1 ms, would shake the ankles; gains that only bring a motion to its end, its
    end; and wrists would be turned by the stiffness of legs.
    """
    run = problems.simulate(humanoid, **condition)
    assert not run.fell
    assert run.rms < most
