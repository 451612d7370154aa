"""Iterations of a solve as a second axis of time: motions on the way to a solution, each with its own animation."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from ddp.errors import instance
from dynamics.steps.free_start import inside
from viz.messages import Message, clip, set_animation, set_object, set_property, track
from viz.motions import configurations
from viz.robots import ROBOT, kinematics, move, path_of, trace_of
from viz.scene import PAUSE, Scene
from viz.shapes import COLORS, OBSTACLE, Array, tube

SHOWN = 24
"""Iterations of a page, at most."""
KEPT = 400
"""Iterations that are kept, at most: every second one of the earlier half goes where there are more."""
LAST_ONLY = ("/mayne/contacts", "/mayne/center of mass")
"""Parts that are drawn of the solution alone."""


class Record(Protocol):
    """Iteration of a solve, as far as it is told."""

    @property
    def cost(self) -> float: ...
    @property
    def gradient(self) -> float: ...


class Iterate(NamedTuple):
    """Iteration by its number, from 1, with states X (N+1, nx) after it."""

    number: int
    record: Record
    X: Array

    @property
    def told(self) -> str:
        """Number, cost and gradient in a line."""
        return f"iteration {self.number}: cost {self.record.cost:.6g}, gradient {self.record.gradient:.1e}"


class Iterations:
    """Iterations of a solve, to be drawn: ``solve(problem, callback=iterations)``, ``save_html(..., iterations=...)``.

    found: those that are kept, in order.
    """

    def __init__(self) -> None:
        self.found: list[Iterate] = []
        self._count = 0

    def watch(self, record: Record, X: Array, U: Array) -> None:
        """Keep an iteration's states; the solver calls this."""
        self._count += 1
        self.found.append(Iterate(self._count, record, X))
        if len(self.found) > KEPT:
            half = KEPT // 2
            self.found = [*self.found[:half:2], *self.found[half:]]

    def __len__(self) -> int:
        return len(self.found)

    def some(self) -> list[Iterate]:
        """Choose at most SHOWN of them, the first and the last among them, the closer the earlier they are."""
        found = list(self.found)
        if len(found) <= SHOWN:
            return found
        first = len(found) ** (np.arange(SHOWN) / (SHOWN - 1))  # geometric, but no two the same
        picked = np.maximum(first.round().astype(int) - 1, np.arange(SHOWN))
        return [found[k] for k in picked]


def variant(scene: Scene, system: Any, iterate: Iterate) -> Message:
    """Messages that show an iteration in place of a scene's first motion, and a line about it.

    system: whose states they are.   reach [m]: of a ball about the scene's origin that the motion fits into.
    """
    d = scene.drawing
    _, X, _ = inside(system, iterate.X)
    finite = np.isfinite(X).all(axis=1)
    X = X[: len(X) if finite.all() else max(int(np.argmin(finite)), 1)]
    times = d.motion.times[: len(X)]
    messages = [set_property(path, "visible", False) for path in LAST_ONLY]
    if not np.isfinite(X).all():
        return {"told": f"{iterate.told}; its states are not finite", "reach": 0.0, "messages": messages}
    model = d.motion.robot.model
    indices = [int(model.getFrameId(name)) for name in scene.traced]
    places, positions = kinematics(model, configurations("X", X, d.motion.robot), indices)
    colors = dict(zip(scene.traced, (COLORS[k % len(COLORS)] for k in range(len(scene.traced))), strict=True))
    for name, path in zip(scene.traced, positions, strict=True):
        messages.append(set_object(trace_of(d, name), tube(path, 0.004 * scene.size, colors[name])))
    ends = [*times.tolist(), scene.duration + PAUSE]
    clips = [move(path_of(d, ROBOT, joint), places[:, joint], ends) for joint in d.shapes if joint > 0]
    clips += _plain(scene, ends[-1])
    seen = np.concatenate([places[:, 1:, :3].reshape(-1, 3), positions.reshape(-1, 3)])
    reach = float(np.linalg.norm(seen - scene.center, axis=1).max())
    return {"told": iterate.told, "reach": reach, "messages": [*messages, set_animation(clips)]}


def _plain(scene: Scene, end: float) -> list[Message]:
    """Clips until ``end`` [s] of what only the solution's multipliers turn red, and of rings that only it shows."""
    found = []
    (animation,) = [message for message in scene.messages if message["type"] == "set_animation"]
    moved = [(one, each["name"]) for one in animation["animations"] for each in one["clip"]["tracks"]]
    for one, name in moved:
        path = one["path"]
        if name == ".material.color" and not path.startswith(ROBOT):
            found.append(clip(path, [track(name, "color", [0.0, end], np.tile(OBSTACLE[:3], (2, 1)), held=True)]))
        elif name == ".visible" and path.endswith("/limit"):
            found.append(clip(path, [track(name, "bool", [0.0, end], np.zeros(2, dtype=bool), held=True)]))
        elif name == ".visible" and path.startswith("/mayne/obstacles/"):
            found.append(one)
    return found


def variants(scene: Scene, system: Any, iterations: Iterations | None) -> list[Message]:
    """Variants of a scene, one for each iteration of a page."""
    if iterations is None:
        return []
    instance("iterations", iterations, Iterations, "viz.Iterations, the callback of a solve")
    return [variant(scene, system, iterate) for iterate in iterations.some()]
