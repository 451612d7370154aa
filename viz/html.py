"""One HTML file with viewer, shapes and motion inside: it plays offline, anywhere."""

from __future__ import annotations

import base64
import html
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from numpy.typing import ArrayLike

from ddp.errors import ProblemError
from viz.bodies import Drawable
from viz.scene import Obstacle, Scene, build, pack
from viz.shapes import Color


class Drawn(NamedTuple):
    """Where something was drawn (a file or an address), and the names of the meshes that were missing."""

    where: str
    missing: tuple[str, ...]


def save_html(
    path: str | os.PathLike[str],
    robot: Drawable,
    X: ArrayLike,
    dt: float,
    frames: Sequence[str] = (),
    ghost: ArrayLike | None = None,
    title: str | None = None,
    obstacles: Sequence[Obstacle] = (),
) -> Drawn:
    """Write the motion X (N, nx), one state every dt [s], as a self-contained HTML animation.

    frames: names of frames whose path is drawn; ghost: a state (nx,) or several, drawn translucent and still;
    title: shown above; obstacles: spheres and capsules, such as those of ``problems.obstacles``. Meshes that are
    missing are named in the result, in the log and in the file; a skeleton stands in for them.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise ProblemError(f"path: expected a file in an existing folder, got {str(target)!r}")
    scene = build(robot, X, dt, frames, ghost, obstacles)
    target.write_text(page(scene, title or robot.name), encoding="utf-8")
    return Drawn(str(target), scene.missing)


def page(scene: Scene, title: str) -> str:
    """The HTML text of a scene."""
    viewer, licences = _viewer()
    about = [f'<i style="background: {_css(c)}"></i>{html.escape(label)}' for label, c in scene.legend]
    if scene.missing:
        about.append("missing meshes: " + html.escape(", ".join(scene.missing)))
    parts = [
        f'<script type="application/x-msgpack">{base64.b64encode(pack(message)).decode()}</script>'
        for message in scene.messages
    ]
    return Template(_beside("player.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        about="".join(f"<p>{line}</p>" for line in about),
        duration=f"{scene.duration:.6g}",
        licences=licences.replace("--", "- -"),
        viewer=viewer,
        scene="\n".join(parts),
    )


def _beside(name: str) -> Path:
    return Path(__file__).with_name(name)


def _viewer() -> tuple[str, str]:
    """Meshcat's viewer as JavaScript, and its licences; meshcat is not imported, which is slow."""
    found = importlib.util.find_spec("meshcat")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("meshcat, whose viewer plays the animations, is not installed")
    folder = Path(found.origin).parent / "viewer"
    script = (folder / "dist" / "main.min.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    licences = [folder / "LICENSE", folder / "dist" / "main.min.js.LICENSE.txt"]
    return script, "\n".join(file.read_text(encoding="utf-8") for file in licences if file.is_file())


def _css(color: Color) -> str:
    red, green, blue = (round(255 * c) for c in color[:3])
    return f"rgba({red}, {green}, {blue}, {max(color[3], 0.5):.2f})"
