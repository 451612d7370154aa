"""Reaction of the ground along a motion: forces on the feet and intervals of contact, for drawings and reports."""

from __future__ import annotations

from ddp.problem import Problem
from dynamics.phases.reaction import checked as checked
from dynamics.phases.reaction import ground as ground
from dynamics.phases.reaction import ground_forces as ground_forces
from dynamics.phases.reaction import standing as standing
from problems.contact_costs import ForceConstraint, ForceLimits


def friction(problem: Problem) -> float | None:
    """The coefficient of friction of a problem's cones, if it has any."""
    listed = [one for given in (problem.during, problem.constraints_at) for terms in given.values() for one in terms]
    found = [one.friction for one in listed if isinstance(one, (ForceLimits, ForceConstraint))]
    return next((mu for mu in found if mu is not None), None)
