"""A node of ROS 2 that applies a policy, or plans again, at a rate: all it decides is in `follower`."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ddp.errors import DDPError, instance, positive
from problems.interop.follower import Follower
from problems.interop.motion import optional


def run_node(
    follower: Follower, rate: float = 500.0, every: float = 0.02, name: str = "mayne", states: str = "joint_states",
    odometry: str = "odom", commands: str = "effort_controller/commands", velocity: str = "cmd_vel",
    plan: str = "plan", arguments: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Run a node of ROS 2 until Ctrl-C or the end of ROS.

    | topic | message | |
    |---|---|---|
    | states | sensor_msgs/JointState | read: positions and velocities of the joints, by name |
    | odometry | nav_msgs/Odometry | read where the base is free: pose, and velocities in the base's axes |
    | velocity | geometry_msgs/Twist | read by gaits: linear x and y, angular z |
    | commands | std_msgs/Float64MultiArray | written at ``rate`` [Hz]: efforts of ``follower.joints``, in their order |
    | plan | trajectory_msgs/JointTrajectory | written ``every`` so many seconds: the motion ahead |

    Nothing is written before all is measured, and zeros once measurements stop, or the node ends: a controller of
    ros2_control would hold the last efforts. Receding horizons plan ``every`` so many seconds, in a thread beside the
    controls'. Where ROS time is set back, as by a simulator that starts again, the follower is restarted.
    arguments: for ROS, as "--ros-args ...".   Raises ProblemError where ROS 2 is not installed, and for bad input.
    """
    instance("follower", follower, Follower)
    period, pause = 1.0 / positive("rate", rate), positive("every", every)
    rclpy = optional("rclpy", "run_node")
    executors = optional("rclpy.executors", "run_node")
    signals = optional("rclpy.signals", "run_node")
    given = None if arguments is None else [*arguments]
    rclpy.init(args=given, signal_handler_options=signals.SignalHandlerOptions.NO)  # ROS's end before zeros are written
    try:
        node = rclpy.create_node(name)
        planning = ThreadPoolExecutor(1, "mayne_planning")
        let_go = _connect(node, follower, planning, period, pause, (states, odometry, commands, velocity, plan))
        executor = executors.SingleThreadedExecutor()
        executor.add_node(node)
        try:
            with _told_to_end() as ended:
                while rclpy.ok() and not ended.is_set():
                    executor.spin_once(timeout_sec=0.1)
        finally:
            executor.shutdown(timeout_sec=1.0)
            planning.shutdown(cancel_futures=True)
            if rclpy.ok():
                let_go()
            node.destroy_node()
    except (KeyboardInterrupt, executors.ExternalShutdownException):
        pass
    finally:
        if rclpy.ok():
            rclpy.shutdown()


@contextlib.contextmanager
def _told_to_end() -> Iterator[threading.Event]:
    """Event that Ctrl-C and SIGTERM set: in the main thread, which alone hears of signals."""
    ended = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    kinds = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(kind, lambda *about: ended.set()) for kind in kinds]
    try:
        yield ended
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


def _connect(
    node: Any, follower: Follower, planning: ThreadPoolExecutor, period: float, pause: float, topics: tuple[str, ...]
) -> Callable[[], None]:  # fmt: skip
    """Give a node its subscriptions, publishers and timers; returns what writes zeros if efforts were written."""
    states, odometry, commands, velocity, plan = topics
    sensed, numbers = optional("sensor_msgs.msg", "run_node"), optional("std_msgs.msg", "run_node")
    trajectories = optional("trajectory_msgs.msg", "run_node")
    qos = optional("rclpy.qos", "run_node")
    log, unknown, last = node.get_logger(), set[str](), -np.inf

    def now() -> float:
        nonlocal last
        time, before = 1e-9 * float(node.get_clock().now().nanoseconds), last
        last = time
        if time < before - follower.patience:
            follower.restart()
            log.warning(f"time was set back from {before:.2f} s to {time:.2f} s: begins again")
        return time

    def measured(message: Any) -> None:
        try:
            odd = {*follower.measure(now(), message.name, message.position, message.velocity)} - unknown
        except DDPError as reason:
            log.error(f"{states}: {reason}", throttle_duration_sec=1.0)
            return
        unknown.update(odd)
        if odd:
            log.info(f"{states}: the robot has no joint {', '.join(sorted(odd))}")

    def base_measured(message: Any) -> None:
        place, turn = message.pose.pose.position, message.pose.pose.orientation
        moving = message.twist.twist
        try:
            follower.measure_base(
                now(), _three(place), [turn.x, turn.y, turn.z, turn.w], _three(moving.linear), _three(moving.angular)
            )
        except DDPError as reason:
            log.error(f"{odometry}: {reason}", throttle_duration_sec=1.0)

    def commanded(message: Any) -> None:
        try:
            follower.command(message.linear.x, message.linear.y, message.angular.z)
        except DDPError as reason:
            log.error(f"{velocity}: {reason}", throttle_duration_sec=1.0)

    efforts = node.create_publisher(numbers.Float64MultiArray, commands, 1)
    motion = node.create_publisher(trajectories.JointTrajectory, plan, 1)
    acting = False

    def control() -> None:
        nonlocal acting
        found = follower.control(now())
        if found is not None and follower.cut:
            wanted = ", ".join(f"{name} {effort:.3g}" for name, effort in follower.cut.items())
            log.warning(f"efforts are cut to the robot's limits: {wanted} N m or N", throttle_duration_sec=1.0)
        if found is None:
            log.warning(f"no efforts: {follower.waiting}", throttle_duration_sec=1.0)
        if found is not None or acting:
            write([0.0] * len(follower.joints) if found is None else found.tolist())
        acting = found is not None

    def write(values: list[float]) -> None:
        message = numbers.Float64MultiArray()
        message.data = values
        efforts.publish(message)

    def let_go() -> None:
        if acting:
            write([0.0] * len(follower.joints))

    plan_of: Future[None] | None = None

    def planned() -> None:
        nonlocal plan_of
        time, stamp = now(), node.get_clock().now().to_msg()
        if not follower.plans:
            show(time, stamp)
        elif plan_of is None or plan_of.done():
            if plan_of is not None:
                plan_of.result()  # an error that is not the follower's ends the node
            plan_of = planning.submit(plan_again, time, stamp)

    def plan_again(time: float, stamp: Any) -> None:
        try:
            follower.plan(time)
        except DDPError as reason:
            log.error(f"no plan: {reason}", throttle_duration_sec=1.0)
        show(time, stamp)

    def show(time: float, stamp: Any) -> None:
        points = follower.ahead(time)
        if points is None:
            return
        message = trajectories.JointTrajectory()
        message.header.stamp = stamp
        message.joint_names = follower.joints
        for t, place, rate in zip(points.times.tolist(), points.positions, points.velocities, strict=True):
            point = trajectories.JointTrajectoryPoint()
            point.positions, point.velocities = place.tolist(), rate.tolist()
            point.time_from_start.sec, point.time_from_start.nanosec = divmod(round(1e9 * t), 10**9)
            message.points.append(point)
        motion.publish(message)

    newest = qos.QoSProfile(depth=1, reliability=qos.ReliabilityPolicy.BEST_EFFORT)  # hears reliable writers as well
    node.create_subscription(sensed.JointState, states, measured, newest)
    if follower.floats:
        odometries = optional("nav_msgs.msg", "run_node")
        node.create_subscription(odometries.Odometry, odometry, base_measured, newest)
    if follower.walks:
        twists = optional("geometry_msgs.msg", "run_node")
        node.create_subscription(twists.Twist, velocity, commanded, newest)
    node.create_timer(period, control)
    node.create_timer(pause, planned)
    return let_go


def _three(vector: Any) -> list[float]:
    return [vector.x, vector.y, vector.z]
