"""Trajectory optimisation problems, ready made, and their cost terms. Importing it loads no robot."""

from problems import arm, cartpole, costs, gaits, pendulum, quadrotor, quadruped
from problems.play.simulation import simulate
from problems.registry import ALL, Entry, find

__all__ = [
    "ALL", "Entry", "arm", "cartpole", "costs", "find", "gaits", "pendulum", "quadrotor", "quadruped", "simulate",
]  # fmt: skip
