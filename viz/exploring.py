"""Pages that ask the program which serves them: for another motion while sliders move, for iterations of a solve.

Neither makes that wait: what is drawn is drawn when a page asks, in a thread of its own.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ddp.errors import DDPError, ProblemError, flag, instance, line_of, said, suggesting, text
from viz.html import block, page
from viz.iterations import Iterations, Record, variant
from viz.messages import pack
from viz.motions import Solved
from viz.robots import Shapes
from viz.scene import build
from viz.server import show
from viz.shapes import Array
from viz.sliders import Slider, as_sliders, within

logger = logging.getLogger("mayne")

Found = tuple[Any, str]
"""Motion, in any form that `save_html` takes, and a line about it."""


@suggesting
def explore(
    sliders: Sequence[Slider],
    make: Callable[[Mapping[str, float]], Found],
    title: str = "mayne",
    open_browser: bool = False,
    *,
    frames: Sequence[str] | None = None,
    notes: str = "",
) -> str:
    """Serve a page whose sliders call ``make``, and return its address; it answers until this process ends.

    make: from the sliders' numbers by name to a motion, a Solution or several by name, and a line of text about it. It
    is called by one thread at a time; its errors are told in the page.
    frames: whose paths are drawn.   notes: text for the reader; lines "1. ..." are paragraphs, "Solution: ..."
    are shown on request.
    """
    given = as_sliders(sliders, some=True)
    if not callable(make):
        raise ProblemError(f"make: expected a function of the sliders' numbers, got {said(make)}")
    one_at_a_time, read = threading.Lock(), Shapes()

    def answer(request: bytes) -> str:
        try:
            asked = json.loads(request)
            numbers = within(given, asked)
            with one_at_a_time:
                motion, told = _made(make, numbers)
                scene = page_has.without(build(motion, frames=frames, read=read))
                return json.dumps({"told": told, "scene": block(scene)})
        except (DDPError, ValueError, TypeError, KeyError) as reason:
            return json.dumps({"told": str(reason), "scene": None})

    motion, told = _made(make, {slider.name: slider.value for slider in given})
    heading, written = text("title", title), text("notes", notes)
    first = build(motion, frames=frames, read=read)
    page_has = _Objects(first)
    address = show(page(first, heading, given, told, written), open_browser, answer)
    logger.info("%s is at %s", heading, address)
    return address


def _made(make: Callable[[Mapping[str, float]], Found], numbers: Mapping[str, float]) -> Found:
    """Call a user's function, and say what is wrong with it."""
    try:
        found = make(numbers)
    except DDPError:
        raise
    except Exception as reason:
        raise ProblemError(f"make: raised {type(reason).__name__}: {reason}{line_of(reason)}") from reason
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], str)):
        raise ProblemError(f"make: expected a motion and a line of text, got {said(found)}")
    return found


class _Objects:
    """Objects of a page's first scene, most of which later ones have too: these are not sent again."""

    def __init__(self, scene: Any) -> None:
        self._kept = scene  # so that no other array gets the identity of one of its own
        self._first = {message["path"]: _look(message) for message in scene.messages if message["type"] == "set_object"}

    def without(self, scene: Any) -> Any:
        """A scene without the objects that pages have shown from the first one on."""
        fresh = []
        for message in scene.messages:
            if message["type"] == "set_object":
                if (look := self._first.get(message["path"])) == _look(message):
                    continue
                if look is not None:
                    self._first[message["path"]] = None  # pages show something else from now on
            fresh.append(message)
        return scene._replace(messages=fresh)


def _look(message: Mapping[str, Any]) -> Any:
    """Look of an object, as far as two can be compared at once: their meshes by identity."""
    made = message["object"]
    meshes = [id(shape["data"]["attributes"]["position"]["array"]) for shape in made.get("geometries", [])]
    return meshes, made.get("materials")


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
