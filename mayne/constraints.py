"""Constraints on robots: `problems.constraints`."""

from problems.constraints import *
