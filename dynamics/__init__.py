"""Rigid-body dynamics with first and second derivatives, and discrete-time systems made of them."""

from dynamics.contacts.contact import Contact
from dynamics.contacts.dynamics import (
    contact_dynamics,
    contact_dynamics_derivatives,
    contact_dynamics_hessian,
    contact_dynamics_second_derivatives,
    impact_dynamics,
    impact_dynamics_derivatives,
    impact_dynamics_hessian,
    impact_dynamics_second_derivatives,
)
from dynamics.continuous.linearize import held_directions, linearize
from dynamics.phases.forces import ContactForces
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.phases.reaction import ground_forces
from dynamics.quantities.internal_forces import (
    InternalDerivatives,
    TendonDerivatives,
    TendonHessian,
    internal_forces,
    internal_forces_derivatives,
    tendon_forces,
    tendon_forces_derivatives,
    tendon_forces_hessian,
)
from dynamics.quantities.quantities import (
    center_of_mass,
    center_of_mass_derivatives,
    center_of_mass_hessian,
    energy,
    energy_derivatives,
    energy_hessian,
    frame_placement,
    frame_placement_derivatives,
    frame_placement_hessian,
    frame_position,
    frame_velocity,
    frame_velocity_derivatives,
    frame_velocity_hessian,
    momentum,
    momentum_derivatives,
    momentum_hessian,
)
from dynamics.quantities.sensors import FrameSensor, JointSensor
from dynamics.rigid_bodies.one_sample import OneSample
from dynamics.rigid_bodies.rigid_body import (
    ForwardDerivatives,
    ForwardHessian,
    ForwardTensors,
    InverseDerivatives,
    InverseHessian,
    InverseTensors,
    forward_dynamics,
    forward_dynamics_both_derivatives,
    forward_dynamics_derivatives,
    forward_dynamics_hessian,
    forward_dynamics_second_derivatives,
    inverse_dynamics,
    inverse_dynamics_derivatives,
    inverse_dynamics_hessian,
    inverse_dynamics_second_derivatives,
    inverse_mass_matrix,
    inverse_mass_matrix_derivatives,
    mass_matrix,
)
from dynamics.robots.loop import Loop
from dynamics.robots.model import Robot, load
from dynamics.robots.rods import Circle, Material, Rectangle, Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Cylinder, Plane, Water
from dynamics.rods.assembly import Assembly
from dynamics.steps import augment
from dynamics.steps.augmented import Augmented
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from dynamics.steps.free_start import FreeStart
from dynamics.steps.function_dynamics import FunctionDynamics
from dynamics.steps.kinematic import KinematicDynamics
from dynamics.steps.mimic import MimicDynamics
from dynamics.steps.robot_dynamics import RobotDynamics
from dynamics.steps.simulation import Motion  # mayne.simulate plays solutions
from dynamics.steps.simulation import simulate as simulate
from dynamics.steps.statics import Rest, statics

__all__ = [
    "Assembly", "Augmented", "Circle", "Contact", "ContactForces", "ContactSprings", "ContinuousDynamics", "Cylinder",
    "ForwardDerivatives", "ForwardHessian", "ForwardTensors", "FrameSensor", "FreeStart", "FunctionDynamics",
    "InternalDerivatives", "InverseDerivatives", "InverseHessian", "InverseTensors", "JointSensor", "KinematicDynamics",
    "Loop", "Material", "MimicDynamics", "Motion", "OneSample", "Phase", "PhasedDynamics", "Plane", "Rectangle", "Rest",
    "Robot", "RobotDynamics", "Rod", "Tendon", "TendonDerivatives", "TendonHessian", "Water", "augment",
    "center_of_mass", "center_of_mass_derivatives", "center_of_mass_hessian", "contact_dynamics",
    "contact_dynamics_derivatives",
    "contact_dynamics_hessian", "contact_dynamics_second_derivatives", "energy", "energy_derivatives", "energy_hessian",
    "forward_dynamics", "forward_dynamics_both_derivatives", "forward_dynamics_derivatives", "forward_dynamics_hessian",
    "forward_dynamics_second_derivatives", "frame_placement", "frame_placement_derivatives", "frame_placement_hessian",
    "frame_position", "frame_velocity", "frame_velocity_derivatives", "frame_velocity_hessian", "ground_forces",
    "held_directions", "impact_dynamics", "impact_dynamics_derivatives", "impact_dynamics_hessian",
    "impact_dynamics_second_derivatives", "internal_forces", "internal_forces_derivatives", "inverse_dynamics",
    "inverse_dynamics_derivatives", "inverse_dynamics_hessian", "inverse_dynamics_second_derivatives",
    "inverse_mass_matrix", "inverse_mass_matrix_derivatives", "linearize", "load", "mass_matrix", "momentum",
    "momentum_derivatives", "momentum_hessian", "statics", "tendon_forces", "tendon_forces_derivatives",
    "tendon_forces_hessian",
]  # fmt: skip
