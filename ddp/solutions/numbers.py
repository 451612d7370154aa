"""Numbers of a problem that vary, as places of a manifold: entries that are added, poses and states that are moved."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddp.errors import DDPError, ProblemError
from ddp.places import Place
from ddp.problem import Problem
from ddp.protocols import Array

PLAIN, STATE, POSE = "plain", "state", "pose"


class Number(NamedTuple):
    """A place of `Problem.varying` with the numbers that are there.

    kind: "pose", moved by twists [linear m; angular rad] in its own axes; "state", by tangents at it; or "plain".
    """

    name: str
    kind: str
    value: Array
    problem: Problem

    @staticmethod
    def of(problem: Problem, name: str) -> Number:
        """The numbers of a place; ProblemError if there is no such place."""
        try:
            found, d = problem.resolved(name), problem.dynamics
        except ProblemError as reason:
            raise ProblemError(f"sensitivity: {str(reason).removeprefix('varying: ')}") from None
        value, kind = problem.number(name), PLAIN
        if name == "control_limits":
            value = value[:, 0] if (value == value[:, :1]).all() else value
        elif name == "x0":
            kind = STATE
        elif isinstance(found[0], Place):
            if hasattr(getattr(found[0].thing(problem), found[0].field), "homogeneous"):
                kind = POSE
            elif value.ndim and value.shape[-1] == d.nx != d.n:
                kind = STATE
        return Number(name, kind, value, problem)

    @property
    def size(self) -> int:
        """How many tangents there are."""
        if self.kind == POSE:
            return 6
        d = self.problem.dynamics
        return self.value.size if self.kind == PLAIN else self.value.size // d.nx * d.n

    def moved(self, tangent: Array) -> Array:
        """The numbers, moved along a tangent (size,)."""
        if self.kind == POSE:
            from scipy.linalg import expm  # most programs need neither

            v, w = tangent[:3], tangent[3:]
            twist = np.zeros((4, 4))
            twist[:3, :3], twist[:3, 3] = [[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]], v
            return np.asarray(self.value @ expm(twist))
        if self.kind == STATE:
            d = self.problem.dynamics
            return np.asarray(d.integrate(self.value, tangent.reshape(*self.value.shape[:-1], d.n)))
        return np.asarray(self.value + tangent.reshape(self.value.shape))

    def towards(self, twin: Problem) -> Array:
        """Tangent (size,) that leads to the numbers of a twin; zero where both are infinite."""
        new = Number.of(twin, self.name).value
        if new.shape != self.value.shape:
            raise ProblemError(f"{self.name}: expected shape {self.value.shape}, got {new.shape}")
        if self.kind == POSE:
            from scipy.linalg import logm

            log = np.real(logm(np.linalg.solve(self.value, new)))
            return np.array([*log[:3, 3], log[2, 1], log[0, 2], log[1, 0]])
        if self.kind == STATE:
            return np.ravel(self.problem.dynamics.difference(self.value, new))
        with np.errstate(invalid="ignore"):
            return np.ravel(np.where(new == self.value, 0.0, new - self.value))

    def twin(self, tangent: Array) -> Problem:
        """The problem with the numbers moved along a tangent."""
        try:
            return self.problem.varying({self.name: self.moved(tangent)})
        except DDPError as reason:
            raise ProblemError(f"{self.name}: it has no derivative there: {reason}") from reason
