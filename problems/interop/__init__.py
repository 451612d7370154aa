"""Motions for other programs: MuJoCo's states, Drake's trajectories, ROS messages, data sets of episodes."""

from problems.interop.datasets import episodes, lerobot_table
from problems.interop.drake import drake_samples, to_drake
from problems.interop.follower import Follower
from problems.interop.mujoco import from_mujoco, to_mujoco
from problems.interop.ros import ros_message, to_ros, write_ros
from problems.interop.ros_node import run_node
from problems.interop.servos import mujoco_controls

__all__ = [
    "Follower", "drake_samples", "episodes", "from_mujoco", "lerobot_table", "mujoco_controls", "ros_message",
    "run_node", "to_drake", "to_mujoco", "to_ros", "write_ros",
]  # fmt: skip
