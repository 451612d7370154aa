"""Pendulum: swing up: `problems.pendulum`."""

from problems.pendulum import *
