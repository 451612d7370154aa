"""A page that follows a solve while it runs, without making it wait."""

from __future__ import annotations

import json
import logging
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from ddp.errors import ProblemError, flag, instance, said, text
from viz.html import block, page
from viz.iterations import Iterations, Record, variant
from viz.messages import pack
from viz.motions import Solved
from viz.scene import build
from viz.server import show
from viz.shapes import Array

logger = logging.getLogger("mayne")

PAUSE = 0.3
"""Least time between two questions of a page [s]."""
SHARE = 40.0
"""A page asks again after this many times of what its answer took: drawing takes at most a fortieth of the solver's."""


class Live:
    """Page of this machine that shows the iterations of a solve: ``solve(problem, callback=viz.Live(problem))``.

    problem: what is solved, of a robot.   title: shown above.   open_browser: whether to open it.
    where: its address; it answers until this process ends.   iterations: those so far.
    The solver copies its states, and goes on; all else happens when the page asks, in another thread. A slider goes
    through the iterations; `finish` adds what is known of the solution alone.
    Raises ProblemError for a problem of no robot.
    """

    def __init__(self, problem: Any, title: str | None = None, open_browser: bool = False) -> None:
        if any(getattr(problem, name, None) is None for name in ("x0", "horizon", "dynamics")):
            raise ProblemError(f"problem: expected a Problem, got {said(problem)}")
        heading = None if title is None else text("title", title)
        X = np.tile(problem.x0, (problem.horizon + 1, 1))
        U = np.zeros((problem.horizon, problem.dynamics.nu))
        self.iterations = Iterations()
        self._system = problem.dynamics
        self._scene = build(SimpleNamespace(X=X, U=U, problem=problem), forces={}, ghost=X[0])
        self._ended: Any = None
        written = page(self._scene, heading or self._scene.name, told="waiting for the solver", live=True)
        self.where = show(written, flag("open_browser", open_browser), self._answer)
        logger.info("the iterations of %s are at %s", self._scene.name, self.where)

    def watch(self, record: Record, X: Array, U: Array) -> None:
        """Keep an iteration's states; the solver calls this."""
        self.iterations.watch(record, X, U)

    def finish(self, solution: Solved) -> None:
        """Show all that a solution's problem knows of it, behind the iterations."""
        instance("solution", solution, Solved, "a Solution")
        self._ended = solution

    def _answer(self, request: bytes) -> str:
        """Answer of a page that asks for iterations after number ``since``: the newest one, and when to ask again."""
        begun = time.thread_time()
        try:
            since = int(json.loads(request)["since"])
        except (ValueError, TypeError, KeyError):
            return json.dumps({"told": "not understood"})
        answer: dict[str, Any] = {}
        found = self.iterations.found
        newest = found[-1] if found else None
        if newest is not None and newest.number > since:
            shown = variant(self._scene, self._system, newest)
            answer = {"since": newest.number, "variant": pack({"iterations": [shown]}, [])}
        elif self._ended is not None:
            answer = {"told": str(self._ended), "scene": block(build(self._ended)), "ended": True}
        return json.dumps(answer | {"wait": max(PAUSE, SHARE * (time.thread_time() - begun))})
