"""Linearisation of a moving base against differences: `problems.linearization`."""

from problems.linearization import *
