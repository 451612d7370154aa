"""A motion in the browser of this machine, for as long as the program runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from ddp.errors import text
from viz.bodies import Drawable
from viz.html import Drawn, page
from viz.motions import Solved
from viz.scene import BESIDE, build
from viz.server import show
from viz.shapes import Obstacle
from viz.signals import Signal

logger = logging.getLogger("mayne")


def animate(
    robot: Drawable | Solved | Mapping[str, Solved | ArrayLike],
    X: ArrayLike | Solved | None = None,
    dt: ArrayLike | None = None,
    frames: Sequence[str] | None = None,
    ghost: ArrayLike | None = None,
    open_browser: bool = False,
    *,
    title: str | None = None,
    forces: Mapping[str, ArrayLike] | None = None,
    force_scale: float | None = None,
    cones: float | Mapping[str, float] | None = None,
    obstacles: Sequence[Obstacle] | Obstacle | None = None,
    ground: float | None = None,
    beside: ArrayLike | None = None,
    beside_title: str = BESIDE,
    camera: tuple[ArrayLike, ArrayLike] | None = None,
    signals: Mapping[str, Signal] | None = None,
    tensions: ArrayLike | None = None,
) -> Drawn:
    """Show a motion, or several, as the page that ``save_html`` writes; other arguments too.

    This process serves the page on 127.0.0.1 until it ends, at the address in the result and in the log. Every call
    makes a page of its own; a page that a browser has read plays on without the program.
    open_browser: whether to open it in the browser, if this machine has one with windows. In a notebook, the result
    shows the page where the notebook's kernel runs on the reader's machine.
    """
    heading = None if title is None else text("title", title)
    scene = build(
        robot, X, dt, frames, ghost,
        forces=forces, force_scale=force_scale, cones=cones, obstacles=obstacles, ground=ground,
        beside=beside, beside_title=beside_title, camera=camera, signals=signals, tensions=tensions,
    )  # fmt: skip
    address = show(page(scene, heading or scene.name), open_browser)
    logger.info("%s moves at %s", scene.name, address)
    return Drawn(address, scene.missing)
