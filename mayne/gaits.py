"""Gaits ready made: `problems.gaits`."""

from problems.gait_terms import Weights as Weights
from problems.gaits import *
from problems.schedule import Schedule as Schedule
