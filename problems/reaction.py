"""Reaction of the ground along a motion: forces on the feet and intervals of contact, for drawings and reports."""

from dynamics.phases.reaction import friction as friction
from dynamics.phases.reaction import ground as ground
from dynamics.phases.reaction import ground_forces as ground_forces
from dynamics.phases.reaction import standing as standing
