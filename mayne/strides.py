"""Strides: footholds and swings from a schedule: `problems.strides`."""

from problems.strides import *
