"""Cart-pole: swing up: `problems.cartpole`."""

from problems.cartpole import *
