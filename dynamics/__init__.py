"""Rigid-body dynamics with first and second derivatives, and discrete-time systems made of them."""

from dynamics.function_dynamics import FunctionDynamics
from dynamics.model import Robot, load
from dynamics.results import (
    ForwardDerivatives,
    ForwardHessian,
    ForwardTensors,
    InverseDerivatives,
    InverseHessian,
    InverseTensors,
)
from dynamics.rigid_body import (
    forward_dynamics,
    forward_dynamics_derivatives,
    forward_dynamics_hessian,
    forward_dynamics_second_derivatives,
    inverse_dynamics,
    inverse_dynamics_derivatives,
    inverse_dynamics_hessian,
    inverse_dynamics_second_derivatives,
    inverse_mass_matrix,
    mass_matrix,
)
from dynamics.robot_dynamics import RobotDynamics

__all__ = [
    "ForwardDerivatives",
    "ForwardHessian",
    "ForwardTensors",
    "FunctionDynamics",
    "InverseDerivatives",
    "InverseHessian",
    "InverseTensors",
    "Robot",
    "RobotDynamics",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_dynamics_hessian",
    "forward_dynamics_second_derivatives",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_hessian",
    "inverse_dynamics_second_derivatives",
    "inverse_mass_matrix",
    "load",
    "mass_matrix",
]
