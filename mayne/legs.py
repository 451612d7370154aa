"""Stances: which frames are feet, and where they stand: `problems.legs`."""

from problems.legs import *
