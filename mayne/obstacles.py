"""Obstacles, and clearances from them: `problems.obstacles`."""

from dynamics.geometry.solids import Capsule as Capsule
from dynamics.geometry.solids import Sphere as Sphere
from problems.obstacles import *
