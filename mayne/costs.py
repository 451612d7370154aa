"""Cost terms for robots, of states, controls, quantities and contact forces: `problems.costs` and others."""

from problems.contact_costs import ForceLimits as ForceLimits
from problems.contact_costs import StateLimits as StateLimits
from problems.contact_costs import contact_force as contact_force
from problems.contact_costs import friction_cone as friction_cone
from problems.costs import *
from problems.quadratic_costs import GravityTorqueCost as GravityTorqueCost
from problems.quadratic_costs import Quadratic as Quadratic
