"""Durations of phases, found with the motion: `problems.durations`."""

from problems.durations import *
