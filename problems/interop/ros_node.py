"""A node of ROS 2 that applies a policy, or plans again, at a rate: all it decides is in `following`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddp.errors import DDPError, instance, positive
from problems.interop.following import Follower
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

    Nothing is written before all is measured, and zeros once measurements stop: a controller of ros2_control would hold
    the last efforts. Receding horizons plan ``every`` so many seconds, in a thread beside the controls'.
    arguments: for ROS, as "--ros-args ...".   Raises ProblemError where ROS 2 is not installed, and for bad input.
    """
    instance("follower", follower, Follower)
    period, pause = 1.0 / positive("rate", rate), positive("every", every)
    rclpy = optional("rclpy", "run_node")
    executors = optional("rclpy.executors", "run_node")
    rclpy.init(args=None if arguments is None else [*arguments])
    try:
        node = rclpy.create_node(name)
        _connect(node, follower, period, pause, (states, odometry, commands, velocity, plan))
        executor = executors.MultiThreadedExecutor(num_threads=3)
        executor.add_node(node)
        try:
            executor.spin()
        finally:
            executor.shutdown()
            node.destroy_node()
    except (KeyboardInterrupt, executors.ExternalShutdownException):
        pass
    finally:
        if rclpy.ok():
            rclpy.shutdown()


def _connect(node: Any, follower: Follower, period: float, pause: float, topics: tuple[str, ...]) -> None:
    """Give a node its subscriptions, publishers and timers."""
    states, odometry, commands, velocity, plan = topics
    groups = optional("rclpy.callback_groups", "run_node")
    sensed, numbers = optional("sensor_msgs.msg", "run_node"), optional("std_msgs.msg", "run_node")
    trajectories = optional("trajectory_msgs.msg", "run_node")
    log, unknown = node.get_logger(), set[str]()

    def now() -> float:
        return 1e-9 * float(node.get_clock().now().nanoseconds)

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
        if found is None:
            log.warning(f"no efforts: {follower.waiting}", throttle_duration_sec=1.0)
        if found is not None or acting:
            message = numbers.Float64MultiArray()
            message.data = [0.0] * len(follower.joints) if found is None else found.tolist()
            efforts.publish(message)
        acting = found is not None

    def planned() -> None:
        if follower.plans:
            try:
                follower.plan(now())
            except DDPError as reason:
                log.error(f"no plan: {reason}", throttle_duration_sec=1.0)
        points = follower.ahead(now())
        if points is None:
            return
        message = trajectories.JointTrajectory()
        message.header.stamp = node.get_clock().now().to_msg()
        message.joint_names = follower.joints
        for t, place, rate in zip(points.times.tolist(), points.positions, points.velocities, strict=True):
            point = trajectories.JointTrajectoryPoint()
            point.positions, point.velocities = place.tolist(), rate.tolist()
            point.time_from_start.sec, point.time_from_start.nanosec = divmod(round(1e9 * t), 10**9)
            message.points.append(point)
        motion.publish(message)

    apart = [groups.MutuallyExclusiveCallbackGroup() for _ in range(3)]
    node.create_subscription(sensed.JointState, states, measured, 1, callback_group=apart[0])
    if follower.floats:
        odometries = optional("nav_msgs.msg", "run_node")
        node.create_subscription(odometries.Odometry, odometry, base_measured, 1, callback_group=apart[0])
    if follower.walks:
        twists = optional("geometry_msgs.msg", "run_node")
        node.create_subscription(twists.Twist, velocity, commanded, 1, callback_group=apart[0])
    node.create_timer(period, control, callback_group=apart[1])
    node.create_timer(pause, planned, callback_group=apart[2])


def _three(vector: Any) -> list[float]:
    return [vector.x, vector.y, vector.z]
