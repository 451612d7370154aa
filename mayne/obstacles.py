"""Obstacles, and clearances from them: `problems.obstacles`."""

from problems.obstacles import *
