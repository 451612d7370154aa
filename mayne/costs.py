"""Cost terms for robots: `problems.costs`."""

from problems.costs import *
