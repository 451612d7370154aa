"""Full second-order differential dynamic programming: problems, solvers, solutions. Knows no robot."""

from ddp.check import DerivativeCheck, DerivativeReport, check_derivatives
from ddp.errors import DDPError, ModelError, ProblemError, SolveError
from ddp.problem import Problem
from ddp.protocols import BatchTerm, Contraction, Dynamics, Expansion, Term
from ddp.solution import Record, Solution
from ddp.solver import DDP, ILQR, Newton, solve

__all__ = [
    "DDP",
    "ILQR",
    "BatchTerm",
    "Contraction",
    "DDPError",
    "DerivativeCheck",
    "DerivativeReport",
    "Dynamics",
    "Expansion",
    "ModelError",
    "Newton",
    "Problem",
    "ProblemError",
    "Record",
    "Solution",
    "SolveError",
    "Term",
    "check_derivatives",
    "solve",
]
