"""Legged motion along strides: `problems.legged`."""

from problems.legged import *
