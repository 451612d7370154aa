"""Trajectory optimisation problems, ready made, and their cost terms. Importing it loads no robot."""

from problems import arm, cartpole, costs, gaits, pendulum, quadrotor, quadruped, soft
from problems.lifted import LiftedConstraint, LiftedTerm, free_start, lifted, unlifted
from problems.play.driven import Driven
from problems.play.receding import simulate_receding
from problems.play.simulation import simulate
from problems.registry import ALL, Entry, find
from problems.walking.controller import Walking

__all__ = [
    "ALL", "Driven", "Entry", "LiftedConstraint", "LiftedTerm", "Walking", "arm", "cartpole", "costs", "find",
    "free_start", "gaits", "lifted", "pendulum", "quadrotor", "quadruped", "simulate", "simulate_receding", "soft",
    "unlifted",
]  # fmt: skip
