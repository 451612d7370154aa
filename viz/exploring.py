"""A page with sliders, which asks the program that serves it for another motion while they move."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddp.errors import DDPError, ProblemError, line_of, said, suggesting, text
from viz.html import block, page
from viz.robots import Shapes
from viz.scene import build
from viz.server import show
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
