"""Quadruped in the air: reorientation: `problems.quadruped`."""

from problems.quadruped import *
