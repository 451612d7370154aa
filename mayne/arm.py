"""Arms: reach, reach for what is out of reach, throw: `problems.arm`."""

from problems.arm import *
