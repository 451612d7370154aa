"""Gaits ready made: `problems.gaits`."""

from problems.gaits import *
