"""A page on which a robot moves as a program says, and whose reader pushes it, steers it and moves its target."""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, flag, integer, items, said, text
from dynamics.robots.libraries import pin
from viz.bodies import Drawable
from viz.chains import drawn
from viz.details import TARGET, triad
from viz.html import page
from viz.messages import set_object, set_transform
from viz.motions import configurations
from viz.robots import kinematics
from viz.scene import build
from viz.server import show
from viz.shapes import Array, Obstacle, capsule
from viz.sliders import Slider, as_sliders, within

logger = logging.getLogger("mayne")

MASS = "/mayne/center of mass"
GONE = 1.0
"""A page that has not asked for so long is closed: what it pulled is let go [s]."""


@dataclass(frozen=True, eq=False)
class Hand:
    """A point (3,) of the body that joint 1, 2, ... moves, in its axes [m], that is drawn toward a place (3,) [m]."""

    joint: int
    point: Array
    toward: Array


class Shown(NamedTuple):
    """Configuration (nq,), a line, an arrow's two ends (3,) and the target (3,) [m]."""

    q: Array
    told: str
    arrow: tuple[Array, Array] | None
    target: Array | None


class Stage:
    """Page of this machine that shows a robot where a program says that it is, and tells what its reader does.

        stage = viz.Stage(robot, robot.q0)
        while True:
            if stage.hand is not None: ...                # that is what is pulled
            stage.show(q, "a line")

    robot; q (nq,): where it begins.   ground: the height of a plane [m].   commands: what the reader may command, three
    names, drawn as pads and keys.   target (3,): of a ball that can be dragged [m].   sliders: in a panel that unfolds.
    obstacles: spheres and capsules that stand there.
    The newest page acts, others look on; all is let go when it closes.
    where: its address, readable until this process ends.   watching: whether a page is open.
    hand: what is pulled, or None.   command (3,): between -1 and 1.   target (3,): where the ball was dragged, or None.
    numbers: of the sliders, by name; these and the target stay when the page closes.
    Raises ProblemError for bad input.
    """

    def __init__(
        self, robot: Drawable, q: ArrayLike, title: str | None = None, open_browser: bool = False,
        *, ground: float | None = None, commands: Sequence[str] = (), target: ArrayLike | None = None,
        sliders: Sequence[Slider] = (), obstacles: Sequence[Obstacle] | Obstacle = (),
    ) -> None:  # fmt: skip
        heading = None if title is None else text("title", title)
        names = [text(f"commands[{k}]", name) for k, name in enumerate(items("commands", commands, "three names"))]
        if len(names) not in (0, 3):
            raise ProblemError(f"commands: expected three names, or none, got {len(names)}")
        drawn_robot = drawn(robot)
        if not isinstance(getattr(drawn_robot, "model", None), pin.Model):
            raise ProblemError(f"robot: expected a Robot from mayne.load, got {said(robot)}")
        robot = cast(Drawable, drawn_robot)
        if len(first := configurations("q", q, robot)) > 1:
            raise ProblemError(f"q: expected one configuration, got {len(first)}")
        Q = np.repeat(first, 2, axis=0)
        place = None if target is None else as_array("target", target, (3,)).copy()
        self._robot, self._shown = robot, Shown(Q[0], "", None, place)
        scene = build(robot, Q, 1.0, [], ground=ground, obstacles=obstacles)
        messages = scene.messages
        if place is not None:
            size = 0.12 * scene.size
            for k, mesh in enumerate([capsule(0.35 * size, 0.0, TARGET), *triad(size)]):
                messages.append(set_object(f"/mayne/target/{k}", mesh))
            messages.append(set_transform("/mayne/target", place))
        about = {
            "commands": names, "size": scene.size, "cell": scene.cell, "target": target is not None,
            "follows": robot.model.njoints > 1 and robot.model.joints[1].nq == 7,
        }  # fmt: skip
        self._newest, self._asked_at = "", -np.inf
        self.hand: Hand | None = None
        self.command, self.target = np.zeros(3), cast("Array | None", None)
        self._kicks: list[Array] = []
        self._again = False
        self._sliders = as_sliders(sliders)
        self.numbers = {slider.name: slider.value for slider in self._sliders}
        scene = scene._replace(  # of one moment: it would stay behind
            legend=[entry for entry in scene.legend if MASS not in entry.paths],
            messages=[message for message in messages if not message.get("path", "").startswith(MASS)],
        )
        notes = _hints(names, target is not None)
        written = page(scene, heading or scene.name, self._sliders, notes=notes, stage=about)
        self.where = show(written, flag("open_browser", open_browser), self._answer)
        logger.info("%s moves at %s", scene.name, self.where)

    @property
    def watching(self) -> bool:
        """Whether a page is open; if none is, what the last one did is over."""
        open_now = time.monotonic() - self._asked_at < GONE
        if not open_now:
            self.hand, self.command = None, np.zeros(3)
        return open_now

    def asked(self) -> tuple[list[Array], bool]:
        """Directions (3,) of kicks, and whether to start again, since the last call."""
        kicks, again = self._kicks, self._again
        self._kicks, self._again = [], False
        return kicks, again

    def show(
        self, q: ArrayLike, told: str = "", arrow: tuple[ArrayLike, ArrayLike] | None = None,
        target: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        """Show a configuration q (nq,), a line, an arrow from one point (3,) to another, and the target (3,) [m].

        What is not finite is not shown. Takes microseconds: pages ask, and are answered in another thread.
        """
        given = as_array("q", q, (self._robot.model.nq,), finite=False)
        line, place = text("told", told), self._shown.target if target is None else as_array("target", target, (3,))
        ends = None
        if arrow is not None:
            points = items("arrow", arrow, "two points")
            if len(points) != 2:
                raise ProblemError(f"arrow: expected two points, got {len(points)}")
            ends = as_array("arrow", points[0], (3,)), as_array("arrow", points[1], (3,))
        if np.isfinite(given).all():
            self._shown = Shown(given.copy(), line, ends, place)

    def _answer(self, request: bytes) -> str:
        """Take what the reader does, and answer with what there is to see."""
        try:
            self._take(json.loads(request))
        except (ValueError, TypeError, KeyError, RecursionError, ProblemError):
            return json.dumps({"told": "not understood"})
        q, told, arrow, target = self._shown
        places = kinematics(self._robot.model, q[None], [])[0][0]
        return json.dumps(
            {
                "places": places[1:].round(6).tolist(), "told": told,
                "arrow": None if arrow is None else [end.round(6).tolist() for end in arrow],
                "target": None if target is None else target.round(6).tolist(), "numbers": self.numbers,
            }
        )  # fmt: skip

    def _take(self, asked: Any) -> None:
        who = str(asked["who"])
        if asked.get("first"):
            self._newest = who
        if who != self._newest:
            return
        hand, target = asked["hand"], asked["target"]
        if hand is not None:
            joint = integer("joint", hand["joint"], 1)
            if joint >= self._robot.model.njoints:
                raise ProblemError("joint")
            hand = Hand(joint, as_array("point", hand["point"], (3,)), as_array("toward", hand["toward"], (3,)))
        command = np.clip(as_array("command", asked["command"], (3,)), -1.0, 1.0)
        target = None if target is None else as_array("target", target, (3,))
        kicks = [as_array("kick", way, (3,)) for way in asked["kicks"]]
        numbers = self.numbers if asked.get("numbers") is None else within(self._sliders, asked["numbers"])
        self.hand, self.command, self._asked_at = hand, command, time.monotonic()
        self.target, self.numbers = self.target if target is None else target, numbers
        self._kicks = [*self._kicks, *(way for way in kicks if way.any())][-8:]
        self._again = self._again or bool(asked["again"])


def _hints(commands: Sequence[str], target: bool) -> str:
    hints = ["Drag the robot to pull it; the space bar pushes it into the picture."]
    if target:
        hints.append("Drag the ball to move the target.")
    if commands:
        hints.append("Arrow keys, or W A S D Q E, the round pads and gamepads walk.")
    return " ".join([*hints, "R starts again. Drag beside the robot to turn the picture."])
