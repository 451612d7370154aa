"""A motion in a viewer on this machine, open for as long as the program runs."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from numpy.typing import ArrayLike

from viz.bodies import Drawable
from viz.html import Drawn
from viz.messages import Message
from viz.obstacles import Obstacle
from viz.scene import build

logger = logging.getLogger("mayne")


class _Command(NamedTuple):
    """A message in the form that meshcat's window sends."""

    message: Message

    def lower(self) -> Message:
        return self.message


def animate(
    robot: Drawable,
    X: ArrayLike,
    dt: ArrayLike,
    frames: Sequence[str] = (),
    ghost: ArrayLike | None = None,
    open_browser: bool = False,
    *,
    forces: Mapping[str, ArrayLike] | None = None,
    force_scale: float | None = None,
    cones: float | Mapping[str, float] | None = None,
    obstacles: Sequence[Obstacle] = (),
    ground: float | None = None,
) -> Drawn:
    """Play the motion X (N+1, nx), one state every dt [s], in a meshcat viewer on localhost.

    The viewer's address is in the result and in the log; it lives until the program ends. Arguments as in
    ``save_html``.
    """
    scene = build(
        robot, X, dt, frames, ghost,
        forces=forces, force_scale=force_scale, cones=cones, obstacles=obstacles, ground=ground,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # meshcat imports what pyzmq has deprecated
        import meshcat  # slow to import, and only needed here
    with contextlib.redirect_stdout(io.StringIO()):  # meshcat prints the address: a library does not
        window = meshcat.Visualizer().window
    for message in scene.messages:
        window.send(_Command(message))
    logger.info("%s moves at %s", robot.name, window.web_url)
    if open_browser:
        window.open()
    window.zmq_socket.close()  # all is said; the server goes on until the program ends
    return Drawn(str(window.web_url), scene.missing)
