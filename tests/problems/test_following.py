"""A node of ROS drives robots by names of joints as their policies do, and lets go when measurements stop."""

import pickle
import sys
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import ddp
import problems
from ddp.errors import ProblemError
from problems import arm, gaits, interop, quadrotor
from problems.play.driven import Driven


@pytest.fixture(scope="module")
def solution():
    return ddp.solve(arm.reach("ur5", horizon=20), throw=False)


def tell(follower, now, x):
    """Measure a state by names in another order than the robot's, in two messages."""
    robot = follower.robot
    names = sorted(follower._singles)
    q = [np.arctan2(x[j.iq + 1], x[j.iq]) if j.kind == "circle" else x[j.iq] for j in map(follower._singles.get, names)]
    v = [x[robot.nq + follower._singles[name].iv] for name in names]
    half = len(names) // 2
    follower.measure(now, names[:half], q[:half], v[:half])
    unknown = follower.measure(now, [*names[half:], "gripper"], [*q[half:], 0.5], [*v[half:], 0.0])
    assert unknown == ["gripper"]
    if follower.floats:
        follower.measure_base(now, x[:3], -1.01 * x[3:7], x[robot.nq : robot.nq + 3], x[robot.nq + 3 : robot.nq + 6])


def within_limits(robot, efforts):
    return np.clip(efforts, -robot.model.effortLimit, robot.model.effortLimit)


def test_efforts_are_the_policy_s_in_the_order_of_the_joints(solution):
    joints = ["wrist_3_joint", "elbow_joint", "shoulder_pan_joint", "wrist_1_joint", "shoulder_lift_joint"]
    joints.append("wrist_2_joint")
    follower = interop.Follower(solution, joints)
    rng, policy, system = np.random.default_rng(0), solution.policy, solution.problem.dynamics
    most = 0
    for t in (0.0, 0.004, 0.033, 0.1, 0.1999, 0.5):
        x = policy.reference(t) + 0.01 * rng.normal(size=12)
        tell(follower, 100.0 + t, x)
        expected = system.actuation @ policy(min(t, policy.inside(1.0)), x)  # its end is held
        found = follower.control(100.0 + t)
        order = [system.robot.model.joints[system.robot.model.getJointId(name)].idx_v for name in joints]
        np.testing.assert_allclose(found, within_limits(system.robot, expected)[order], atol=1e-9)
        asked = zip(joints, expected[order], found, strict=True)
        over = {name: effort for name, effort, given in asked if not np.isclose(effort, given)}
        assert follower.cut == pytest.approx(over)
        most += len(over)
        assert follower.started == 100.0
        assert follower.waiting == ""
    assert most > 3  # policies without limits ask for more than motors have
    ahead = follower.ahead(100.1)
    np.testing.assert_allclose(ahead.times, policy.starts[policy.starts > 0.1] - 0.1, atol=1e-9)
    np.testing.assert_array_equal(ahead.positions[:, 2], policy.X[policy.starts > 0.1, 0])


def test_nothing_acts_before_all_is_measured_near_the_start_and_fresh(solution):
    follower = interop.Follower(solution, patience=0.02)
    x0 = solution.X[0]
    assert follower.control(0.0) is None
    assert follower.waiting.startswith("waits for shoulder_pan_joint")
    tell(follower, 0.0, np.where(np.arange(12) == 2, x0 + 0.5, x0))
    assert follower.control(0.0) is None
    assert follower.waiting == "elbow_joint is 0.5 rad or m from the start"
    tell(follower, 0.01, x0)
    assert follower.control(0.01) is not None
    assert follower.control(0.029) is not None
    assert follower.control(0.05) is None
    assert "was measured 0.04 s ago" in follower.waiting
    tell(follower, 0.06, solution.policy.reference(0.05))
    assert follower.control(0.06) is not None


def test_a_motion_goes_on_after_a_stop_only_where_it_is_by_then(solution):
    follower, reference = interop.Follower(solution), solution.policy.reference
    tell(follower, 5.0, solution.X[0])
    assert follower.control(5.0) is not None
    assert follower.control(5.1) is None
    sagged = reference(0.12) + 0.3 * (np.arange(12) == 1)
    tell(follower, 5.12, sagged)
    assert follower.control(5.12) is None
    assert follower.waiting == (
        "shoulder_lift_joint is 0.3 rad or m from where the motion is after 0.1 s; it stopped on the way"
    )
    tell(follower, 5.13, reference(0.13))
    assert follower.control(5.13) is not None
    tell(follower, 5.14, sagged)
    assert follower.control(5.14) is not None  # pushed, not stopped: the policy is for that
    follower.restart()
    assert follower.control(5.14) is None
    tell(follower, 1.0, solution.X[0])  # a clock that was set back
    expected = within_limits(follower.robot, solution.policy(0.0, solution.X[0]))
    np.testing.assert_allclose(follower.control(1.0), expected)
    assert follower.started == 1.0


def test_a_receding_horizon_plans_afresh_after_a_stop_elsewhere_or_a_restart():
    with ddp.RecedingHorizon(arm.reach("ur5", horizon=20)) as receding:
        follower, x0 = interop.Follower(receding), receding.x0
        for t, x, again in ((3.0, x0, False), (3.02, x0, False), (3.2, x0 + 0.5 * (np.arange(12) == 2), True)):
            tell(follower, t, x)
            assert (follower.control(t) is None) == again or t == 3.0
            if again:
                assert follower.waiting == "waits for a plan from where it is after the stop"
            assert follower.plan(t)
            if again:
                np.testing.assert_allclose(receding.solution.X[0], x)  # not predicted by the motion before
            assert follower.control(t) is not None
            assert follower.control(t + 0.06) is None  # too old
        follower.restart()
        tell(follower, 0.5, x0)
        assert follower.control(0.5) is None
        assert follower.plan(0.5)
        np.testing.assert_allclose(follower.control(0.5), within_limits(follower.robot, receding.policy(0.5, x0)))


def test_a_follower_in_a_pickle_acts_and_plans_on():
    with ddp.RecedingHorizon(arm.reach("ur5", horizon=20)) as receding:
        follower, x0 = interop.Follower(receding), receding.x0
        tell(follower, 3.0, x0)
        assert follower.plan(3.0)
        sent = pickle.loads(pickle.dumps(follower))
        for one in (follower, sent):
            tell(one, 3.02, x0)
            assert one.plan(3.02)
        np.testing.assert_array_equal(sent.control(3.03), follower.control(3.03))


def test_a_plan_that_a_restart_interrupts_is_not_followed(monkeypatch):
    with ddp.RecedingHorizon(arm.reach("ur5", horizon=20)) as receding:
        follower, plan = interop.Follower(receding), receding.plan
        tell(follower, 3.0, receding.x0)

        def interrupted(*arguments):
            follower.restart()
            return plan(*arguments)

        monkeypatch.setattr(receding, "plan", interrupted)
        assert not follower.plan(3.0)
        tell(follower, 1.0, receding.x0)
        assert follower.control(1.0) is None
        monkeypatch.setattr(receding, "plan", plan)
        assert follower.plan(1.0)
        assert follower.control(1.0) is not None


def test_messages_that_are_late_or_of_a_time_to_come_move_nothing(solution):
    follower = interop.Follower(solution)
    tell(follower, 1.0, solution.X[0])
    before = follower.control(1.0)
    with pytest.raises(ProblemError, match="now: expected 1 s or later, when elbow_joint was"):
        follower.measure(0.99, ["wrist_1_joint", "elbow_joint"][::-1], [0.5, 0.5], [0.0, 0.0])
    np.testing.assert_array_equal(follower.control(1.0), before)
    assert follower.control(0.5) is None  # the clock went back
    assert "measured 0.50 s after now" in follower.waiting


def test_a_base_far_from_where_a_solution_begins_waits():
    solution = ddp.solve(gaits.trot("solo12"), throw=False)
    follower, x = interop.Follower(solution), solution.X[0].copy()
    x[0] += 0.5
    tell(follower, 0.0, x)
    assert follower.control(0.0) is None
    assert follower.waiting.endswith("is 0.5 rad or m from the start")
    tell(follower, 0.01, solution.X[0])
    assert follower.control(0.01) is not None


def test_what_is_measured_wrongly_is_refused_whole(solution):
    follower = interop.Follower(solution)
    tell(follower, 0.0, solution.X[0])
    before = follower.control(0.0)
    for names, q, v, word in (
        (["elbow_joint"], [np.nan], [0.0], "positions"), (["elbow_joint"], [1.0], [], "velocities"),
        (["elbow_joint", "wrist_1_joint"], [1.0], [1.0], "positions"),
        (["elbow_joint", "elbow_joint"], [1.0, 2.0], [0.0, 0.0], "names: expected each once"),
    ):  # fmt: skip
        with pytest.raises(ProblemError, match=word):
            follower.measure(0.0, names, q, v)
    np.testing.assert_array_equal(follower.control(0.0), before)
    for act, word in (
        (lambda: follower.measure_base(0.0, *np.ones((4, 3))), "position"), (lambda: follower.plan(0.0), "plan"),
        (lambda: follower.command(1.0, 0.0, 0.0), "command"), (lambda: interop.Follower(3), "source"),
        (lambda: interop.Follower(solution, ["elbow"]), "joints"),
        (lambda: interop.Follower(solution, ["elbow_joint"]), "is missing"),
        (lambda: interop.Follower(ddp.solve(quadrotor.loop(), throw=False)), "source: expected motors at hinges"),
    ):  # fmt: skip
        with pytest.raises(ProblemError, match=word):
            act()


def test_a_walking_robot_in_mujoco_stays_up_by_what_a_node_is_told():
    with problems.Walking("solo12", latency=0.02) as walking:
        world, follower = Driven(walking), interop.Follower(walking)
        follower.warm()
        system, t = walking.system, 0.0
        columns = np.flatnonzero(system.actuation.any(axis=1))
        follower.command(0.2, 0.0, 0.0)
        for k in range(300):
            t = 5.0 + 0.002 * k
            tell(follower, t, world.x)
            if k % 20 == 0:
                assert follower.plan(t)
            efforts = dict(zip(follower.joints, follower.control(t), strict=True))
            tau = np.zeros(system.robot.nv)
            for name, effort in efforts.items():
                tau[follower._singles[name].iv] = effort
            assert set(np.flatnonzero(tau)) <= set(columns)
            world._control = lambda t, x, feet, u=system.actuation.T @ tau: u  # motors turn one joint each
            world.advance(0.002)
            world._control = None
        assert not world.fell
        assert world.x[0] > 0.04


class Messages(ModuleType):
    """Messages of a package: whatever is asked for, with fields that are made when they are set."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return {"JointTrajectory": lambda: SimpleNamespace(header=SimpleNamespace(), points=[])}.get(
            name, lambda: SimpleNamespace(time_from_start=SimpleNamespace())
        )


class Node:
    """Double of rclpy's node: what it was asked to make, and a clock that the test moves."""

    def __init__(self, name):
        self.name, self.now, self.subscriptions, self.published, self.timers, self.logged = name, 0.0, {}, {}, {}, []

    def get_logger(self):
        def log(text, throttle_duration_sec=None):
            self.logged.append(text)

        return SimpleNamespace(info=log, warning=log, error=log)

    def get_clock(self):
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=round(1e9 * self.now), to_msg=lambda: self.now))

    def create_publisher(self, kind, topic, depth):
        self.published[topic] = []
        return SimpleNamespace(publish=self.published[topic].append)

    def create_subscription(self, kind, topic, callback, depth):
        self.subscriptions[topic] = callback

    def create_timer(self, period, callback):
        self.timers[period] = callback

    def destroy_node(self):
        self.destroyed = True


@pytest.fixture
def ros(monkeypatch):
    """ROS 2 as far as the node uses it; ``ros.script(node)`` runs in place of spinning."""
    told = SimpleNamespace(script=None, node=None, arguments=None, shut=0)

    def create_node(name):
        told.node = Node(name)
        return told.node

    class Executor:
        def add_node(self, node):
            assert node is told.node

        def spin_once(self, timeout_sec):
            told.script(told.node)
            raise KeyboardInterrupt

        def shutdown(self, timeout_sec):
            told.shut += 1

    rclpy, executors = ModuleType("rclpy"), ModuleType("rclpy.executors")
    rclpy.init = lambda args=None, signal_handler_options=None: setattr(told, "arguments", args)
    rclpy.create_node, rclpy.ok = create_node, lambda: told.shut < 2
    rclpy.shutdown = lambda: setattr(told, "shut", told.shut + 1)
    executors.SingleThreadedExecutor = Executor
    executors.ExternalShutdownException = type("ExternalShutdownException", (Exception,), {})
    qos, signals = ModuleType("rclpy.qos"), ModuleType("rclpy.signals")
    qos.QoSProfile, qos.ReliabilityPolicy = SimpleNamespace, SimpleNamespace(BEST_EFFORT="best effort")
    signals.SignalHandlerOptions = SimpleNamespace(NO="none")
    modules = {"rclpy": rclpy, "rclpy.executors": executors}
    modules |= {"rclpy.qos": qos, "rclpy.signals": signals}
    for package in ("sensor_msgs", "std_msgs", "trajectory_msgs", "nav_msgs", "geometry_msgs"):
        modules |= {package: ModuleType(package), f"{package}.msg": Messages(f"{package}.msg")}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return told


def states(follower, x):
    return SimpleNamespace(name=[*follower._singles], position=x[:6].tolist(), velocity=x[6:].tolist())


def test_the_node_reads_and_writes_its_topics(ros, solution):
    follower = interop.Follower(solution)

    def script(node):
        control, plan = node.timers[0.002], node.timers[0.02]
        control()
        assert node.published["effort_controller/commands"] == []
        assert node.logged[-1].startswith("no efforts: waits for")
        node.now = 7.0
        node.subscriptions["joint_states"](states(follower, solution.X[0]))
        control()
        plan()
        node.subscriptions["joint_states"](SimpleNamespace(name=["elbow_joint"], position=[np.nan], velocity=[0.0]))
        assert "positions" in node.logged[-1]
        node.now = 8.0
        control()
        control()
        node.now = 0.5
        control()
        assert node.logged[-2] == "time was set back from 8.00 s to 0.50 s: begins again"
        node.subscriptions["joint_states"](states(follower, solution.X[0]))
        control()

    ros.script = script
    interop.run_node(follower, arguments=["--ros-args", "-r", "a:=b"])
    first, stop, again, end = [message.data for message in ros.node.published["effort_controller/commands"]]
    np.testing.assert_allclose(first, within_limits(follower.robot, solution.policy(0.0, solution.X[0])))
    assert stop == end == [0.0] * 6  # once, and silence then
    assert again == first
    (motion,) = ros.node.published["plan"]
    assert motion.joint_names == follower.joints
    assert motion.header.stamp == 7.0
    assert len(motion.points) == 19
    np.testing.assert_allclose(motion.points[0].positions, solution.X[1, :6])
    assert motion.points[0].time_from_start == SimpleNamespace(sec=0, nanosec=10_000_000)
    assert ros.arguments == ["--ros-args", "-r", "a:=b"]
    assert ros.node.destroyed
    assert ros.shut == 2


def test_a_node_of_a_gait_reads_velocities_and_the_base(ros):
    with problems.Walking("solo12", latency=0.02) as walking:
        follower = interop.Follower(walking)
        x, nq = walking.x0, walking.system.robot.nq

        def script(node):
            xyz = lambda values: SimpleNamespace(**dict(zip("xyz", map(float, values), strict=True)))  # noqa: E731
            turn = SimpleNamespace(**dict(zip("xyzw", x[3:7].tolist(), strict=True)))
            place = SimpleNamespace(position=xyz(x[:3]), orientation=turn)
            still = SimpleNamespace(linear=xyz(np.zeros(3)), angular=xyz(np.zeros(3)))
            base = SimpleNamespace(pose=SimpleNamespace(pose=place), twist=SimpleNamespace(twist=still))
            node.subscriptions["odom"](base)
            joints = [x[joint.iq] for joint in follower._singles.values()]
            told = SimpleNamespace(name=[*follower._singles], position=joints, velocity=[0.0] * len(joints))
            node.subscriptions["joint_states"](told)
            node.subscriptions["cmd_vel"](SimpleNamespace(linear=xyz([0.1, 0.0, 0.0]), angular=xyz([0.0, 0.0, 0.2])))
            node.timers[0.02]()
            while follower.ahead(0.0) is None:
                time.sleep(0.001)
            node.timers[0.002]()

        ros.script = script
        interop.run_node(follower)
        assert walking.last.solution.converged or walking.last.solution.iterations > 0
        assert tuple(follower._command) == (0.1, 0.0, 0.2)
        efforts, end = ros.node.published["effort_controller/commands"]
        assert not any(end.data)
        np.testing.assert_allclose(np.linalg.norm(efforts.data), np.linalg.norm(walking.last.policy(0.0, x)), rtol=1e-9)
        assert nq == 19
        with pytest.raises(ProblemError, match="quaternion: expected one of length 1"):
            follower.measure_base(0.0, np.zeros(3), np.zeros(4), np.zeros(3), np.zeros(3))


def test_without_ros_the_node_says_what_is_missing(solution, monkeypatch):
    monkeypatch.setitem(sys.modules, "rclpy", None)  # it may be installed here
    with pytest.raises(ProblemError, match="run_node: needs rclpy, which is not installed"):
        interop.run_node(interop.Follower(solution))
