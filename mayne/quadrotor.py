"""Quadrotor: a loop: `problems.quadrotor`."""

from problems.quadrotor import *
