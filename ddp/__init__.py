"""Full second-order differential dynamic programming: problems, solvers, solutions. Knows no robot."""

from ddp.packages import check_packages as check_packages  # isort: skip  # first: what hides others is told at once

from ddp.augmented import AugmentedLagrangian
from ddp.batch.batch import Batch
from ddp.check import DerivativeReport, check_derivatives
from ddp.checkpoint import Checkpoint
from ddp.comparison import DerivativeCheck
from ddp.compiling.kernel import inline, kernel
from ddp.constraints.constraint import Equality, Inequality, Soft
from ddp.constraints.jitted import JittedConstraint
from ddp.constraints.lagrangian import Residual
from ddp.costs.batch import BatchTerm
from ddp.costs.jitted import JittedTerm
from ddp.costs.terms import Cost
from ddp.errors import DDPError, ModelError, ProblemError, SolveError
from ddp.feedback.adaptive import AdaptivePolicy, ContactPolicy
from ddp.feedback.observers import LinearSensor, Observer, Sensor, kalman
from ddp.feedback.policy import Policy
from ddp.feedback.predictive import PredictivePolicy
from ddp.feedback.regulators import Regulator, discretize, lqr, tvlqr
from ddp.many.executors import RayExecutor
from ddp.many.progress import Progress
from ddp.many.solutions import Edge, Failure, Solutions
from ddp.many.solve_many import Optima, Optimum, solve_best, solve_many
from ddp.options import DDP, ILQR, Newton
from ddp.parallel.workers import Workers
from ddp.problem import Problem
from ddp.protocols import Constraint, Dynamics, Term
from ddp.receding import RecedingHorizon
from ddp.search import Backtracking
from ddp.solutions.sensitivity import Sensitivity
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending, Record, Status, Watcher
from ddp.solver import solve
from ddp.systems.system import LinearSystem, Tracking
from ddp.tracing.groups import S1, SE2, SE3, SO3, Euclidean
from ddp.tracing.spaces import Space

__all__ = [
    "DDP", "ILQR", "S1", "SE2", "SE3", "SO3", "AdaptivePolicy", "AugmentedLagrangian", "Backtracking", "Batch",
    "BatchTerm", "Checkpoint", "Constraint", "ContactPolicy", "Cost", "DDPError", "DerivativeCheck", "DerivativeReport",
    "Dynamics", "Edge", "Ending", "Equality", "Euclidean", "Failure", "Inequality", "JittedConstraint", "JittedTerm",
    "LinearSensor", "LinearSystem", "ModelError", "Newton", "Observer", "Optima", "Optimum", "Policy",
    "PredictivePolicy", "Problem", "ProblemError", "Progress", "RayExecutor", "RecedingHorizon", "Record", "Regulator",
    "Residual", "Sensitivity", "Sensor", "Soft", "Solution", "Solutions", "SolveError", "Space", "Status", "Term",
    "Tracking", "Watcher", "Workers", "check_derivatives", "discretize", "inline", "kalman", "kernel", "lqr", "solve",
    "solve_best", "solve_many", "tvlqr",
]  # fmt: skip
