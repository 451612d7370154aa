"""Schedules: which feet stand when: `problems.schedule`."""

from problems.schedule import *
