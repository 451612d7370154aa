"""Numbers of a problem that vary, as places of a manifold: entries that are added, poses and states that are moved."""

from typing import NamedTuple

import numpy as np

from ddp.errors import DDPError, ProblemError
from ddp.places import Place
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.system import System

PLAIN, STATE, POSE = "plain", "state", "pose"

STATES_FIELD = "target_x"
"""The field of terms and constraints that holds states, as of `problems.costs.StateCost`."""


class Number(NamedTuple):
    """A place of `Problem.varying` with the numbers that are there.

    kind: "pose", moved by [translation m; rotation vector rad] in its own axes; "state", by tangents at it; or "plain".
    system: that whose states they are, where they are.
    """

    name: str
    kind: str
    value: Array
    problem: Problem
    system: System

    @staticmethod
    def of(problem: Problem, name: str) -> "Number":
        """The numbers of a place; ProblemError if there is no such place."""
        try:
            found, d = problem.resolved(name), problem.dynamics
        except ProblemError as reason:
            raise ProblemError(f"names: {str(reason).removeprefix('varying: ')}") from None
        value, kind = problem.number(name), PLAIN
        if name == "control_limits":
            value = value[:, 0] if (value == value[:, :1]).all() else value
        elif name == "x0":
            kind = STATE
        elif isinstance(found[0], Place):
            owner = found[0].owner(problem)
            if hasattr(getattr(owner, found[0].field), "homogeneous"):
                kind = POSE
            elif found[0].field == STATES_FIELD:  # by name: points and twists may have nx numbers, too
                d = getattr(owner, "dynamics", d)  # of what is lifted, another than the problem's
                kind = STATE if d.nx != d.n and value.shape[-1:] == (d.nx,) else PLAIN
        return Number(name, kind, value, problem, d)

    @property
    def size(self) -> int:
        """Number of tangents."""
        if self.kind == POSE:
            return 6
        return self.value.size if self.kind == PLAIN else self.value.size // self.system.nx * self.system.n

    def moved(self, tangent: Array) -> Array:
        """The numbers, moved along a tangent (size,)."""
        if self.kind == POSE:
            from scipy.spatial.transform import Rotation  # which most programs need not import

            moved = self.value.copy()
            moved[:3, 3] += self.value[:3, :3] @ tangent[:3]
            moved[:3, :3] @= Rotation.from_rotvec(tangent[3:]).as_matrix()
            return moved
        if self.kind == STATE:
            tangents = tangent.reshape(*self.value.shape[:-1], self.system.n)
            return np.asarray(self.system.integrate(self.value, tangents))
        return np.asarray(self.value + tangent.reshape(self.value.shape))

    def towards(self, twin: Problem) -> Array:
        """Tangent (size,) that leads to the numbers of a twin; zero where both are infinite."""
        return self.tangents(Number.of(twin, self.name).value[None])[0]

    def tangents(self, others: Array) -> Array:
        """Tangents (M, size) that lead to other numbers (M, ...) of the same shape; zero where both are infinite."""
        if others.shape[1:] != self.value.shape:
            raise ProblemError(f"{self.name}: expected shape {self.value.shape}, got {others.shape[1:]}")
        count = len(others)
        if self.kind == POSE:
            from scipy.spatial.transform import Rotation

            ahead = self.value[:3, :3]
            turns = Rotation.from_matrix(ahead.T @ others[:, :3, :3]).as_rotvec()
            return np.hstack([(others[:, :3, 3] - self.value[:3, 3]) @ ahead, turns])
        if self.kind == STATE:
            here, there = (x.reshape(-1, self.system.nx) for x in (np.array([self.value] * count), others))
            return self.system.difference(here, there).reshape(count, -1)
        with np.errstate(invalid="ignore"):
            return np.where(others == self.value, 0.0, others - self.value).reshape(count, -1)

    def twin(self, tangent: Array) -> Problem:
        """The problem with the numbers moved along a tangent."""
        try:
            return self.problem.varying({self.name: self.moved(tangent)})
        except DDPError as reason:
            raise ProblemError(f"{self.name}: it has no derivative there: {reason}") from reason
