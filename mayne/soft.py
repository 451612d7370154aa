"""Soft and hybrid robots, ready to simulate and to optimise: `problems.soft`."""

from problems.soft import *
