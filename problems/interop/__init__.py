"""Motions for other programs: MuJoCo's states, Drake's trajectories, ROS messages, data sets of episodes."""

from problems.interop.datasets import episodes as episodes
from problems.interop.datasets import lerobot_table as lerobot_table
from problems.interop.drake import drake_samples as drake_samples
from problems.interop.drake import to_drake as to_drake
from problems.interop.following import Follower as Follower
from problems.interop.mujoco import from_mujoco as from_mujoco
from problems.interop.mujoco import to_mujoco as to_mujoco
from problems.interop.ros import ros_message as ros_message
from problems.interop.ros import to_ros as to_ros
from problems.interop.ros import write_ros as write_ros
from problems.interop.ros_node import run_node as run_node

__all__ = [
    "Follower", "drake_samples", "episodes", "from_mujoco", "lerobot_table", "ros_message", "run_node", "to_drake",
    "to_mujoco", "to_ros", "write_ros",
]  # fmt: skip
