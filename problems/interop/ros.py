"""Motions as ROS has them: ``trajectory_msgs/JointTrajectory``, as JSON or as a message."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ddp.errors import ProblemError, suggesting
from ddp.files import write_atomically
from ddp.solutions.solution import Solution
from problems.interop.motion import angle, joints_of, optional, robot_of, singles


@suggesting
def to_ros(solution: Solution) -> dict[str, Any]:
    """``trajectory_msgs/JointTrajectory`` as a dictionary, with the field names of the message.

    joint_names: joints with one degree of freedom; a free base is in no such message.   points: positions [rad, m],
    velocities, effort [N m, N] and time_from_start for each state; the last one has the effort of the last interval.
    Where time stands still, at an impact, the state after it counts.
    """
    robot = robot_of(solution)
    joints = list(singles(joints_of(robot)))
    if not joints:
        raise ProblemError(f"solution: expected a robot with hinges or sliders, {robot.name} has none")
    q, v = solution.X[:, : robot.nq], solution.X[:, robot.nq :]
    tau = np.asarray(solution.tau)
    efforts = np.concatenate([tau, tau[-1:]])
    places = np.stack([angle(q, v, np.asarray(solution.t), joint) for joint in joints], axis=1)
    columns = [joint.iv for joint in joints]
    after = np.append(np.diff(solution.t) > 0.0, True)
    points = []
    for k in np.flatnonzero(after).tolist():
        seconds, nanoseconds = divmod(round(1e9 * float(solution.t[k])), 10**9)
        points.append({
            "positions": places[k].tolist(), "velocities": v[k, columns].tolist(), "accelerations": [],
            "effort": efforts[k, columns].tolist(), "time_from_start": {"sec": seconds, "nanosec": nanoseconds},
        })  # fmt: skip
    header = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
    return {"header": header, "joint_names": [joint.name for joint in joints], "points": points}


@suggesting
def write_ros(solution: Solution, path: str | os.PathLike[str]) -> Path:
    """Write `to_ros` as JSON, whole or not at all; ``ros2 topic pub`` reads it, as all JSON is YAML."""
    return write_atomically(path, json.dumps(to_ros(solution), indent=1))


@suggesting
def ros_message(solution: Solution) -> Any:
    """``trajectory_msgs.msg.JointTrajectory`` of a motion; ProblemError where ROS is not installed."""
    messages = optional("trajectory_msgs.msg", "ros_message")
    told = to_ros(solution)
    message = messages.JointTrajectory()
    message.joint_names = told["joint_names"]
    for point in told["points"]:
        made = messages.JointTrajectoryPoint()
        made.positions, made.velocities, made.effort = point["positions"], point["velocities"], point["effort"]
        made.time_from_start.sec = point["time_from_start"]["sec"]
        made.time_from_start.nanosec = point["time_from_start"]["nanosec"]
        message.points.append(made)
    return message
