"""Constraints on robots: `problems.constraints`."""

from problems.constraints import *
from problems.contact_costs import ForceConstraint as ForceConstraint
from problems.contact_costs import friction_constraint as friction_constraint
