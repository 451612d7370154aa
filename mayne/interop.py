"""Motions for other programs: `problems.interop`."""

from problems.interop import *
