"""One HTML page with viewer, shapes and motion inside: as a file, served to this machine's browser, in notebooks."""

import html
import importlib.util
import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from ddp.errors import DDPError, suggesting, text
from ddp.files import as_target, write_atomically
from viz.bodies import Drawable, listed
from viz.details import Entry
from viz.iterations import Iterations, variants
from viz.messages import Message, pack
from viz.motions import Played, Simulated, Solved
from viz.scene import BESIDE, FIELD_OF_VIEW, ROOM, Scene, build
from viz.server import show
from viz.shapes import Obstacle, css
from viz.signals import Replanned, Signal, panels
from viz.sliders import Slider
from viz.solutions import plot_solution

logger = logging.getLogger("mayne")


class Drawn(NamedTuple):
    """File or address of what was drawn, and the names of the meshes that were missing."""

    where: str
    missing: tuple[str, ...]

    def _repr_html_(self) -> str | None:
        """Show in a notebook the page at an address; a file is named."""
        if not self.where.startswith("http:"):
            return None
        where = html.escape(self.where)
        frame = f'<iframe src="{where}" width="100%" height="480" style="border: 0"></iframe>'
        return f'{frame}<a href="{where}" target="_blank">{where}</a>'


@suggesting
def save_html(
    path: str | os.PathLike[str],
    robot: Drawable | Solved | Played | Replanned | Mapping[str, Solved | Simulated | ArrayLike],
    X: ArrayLike | Solved | None = None,
    dt: ArrayLike | None = None,
    frames: Sequence[str] | None = None,
    ghost: ArrayLike | None = None,
    title: str | None = None,
    *,
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
    iterations: Iterations | None = None,
) -> Drawn:
    """Write a motion, or several, as a self-contained HTML animation.

    robot: the robot that moves, or a Solution, which knows its robot, states and times, or several by name: then each
    has a colour, and a tick box in the legend. Beside Solutions, states of the first one's robot may have a name too,
    and what `simulate` and `simulate_receding` return; alone, that is drawn beside its plan.
    X: states (N+1, nx), or (N+1, nq) without velocities, or a Solution; of a robot only, which stands in its usual
    posture without any.
    dt: the time from one state to the next [s], one number or (N,), where zero is an impact; of several states only.
    frames: names of frames whose path is drawn; ghost: a state (nx,) or several, drawn translucent and still;
    title: shown above.
    A Solution brings what its problem knows: paths of frames with targets and of feet, its last state as a ghost (at
    first hidden where robots stand on feet), forces and cones of friction, the ground, its steps and slopes, targets,
    footholds, obstacles and bounds on places, red while they hold the motion, and rings around joints at a limit. What
    is given here stands instead; ``forces={}``, ``frames=[]`` leave them out. Of several motions, forces are not drawn.
    forces: the force on each named frame in world axes [N], drawn as an arrow from the frame's origin; (N, 3), one for
    each interval, or (N+1, 3), one for each state, shown until the next; NaN or zero where there is no contact.
    force_scale: length of an arrow [m/N]; by default the robot's weight is as long as its centre of mass is far from
    the mean of these frames in the first state, or shorter so that the longest is three times as long; the file says
    how much that is.
    cones: a coefficient of friction for every frame that has forces, or for some by name; a cone about the world's z
    opens at a frame while it is in contact.
    obstacles: ``Sphere`` and ``Capsule``; ground: the height of a plane in which the grid lies [m]; by default there
    is no plane, and the grid lies at zero or below all that is seen.
    beside: another motion of as many states, drawn translucent: the plan of a simulated motion, say.
    beside_title: what the legend calls it.
    camera: the point (3,) to look from and the one to look at, in world axes [m]; by default all that is seen fits.
    signals: numbers over time to plot beside the motion, by name; those of Solutions are there already.
    tensions (N, tendons) [N]: of a soft robot's tendons, which show them by their colours; a Solution has them.
    iterations: the callback of the solve, ``viz.Iterations``; a slider goes through the motions on the way.

    Meshes that are missing are named in the result, in the log and in the file; a skeleton stands in for them.
    Bad input raises ProblemError, an unknown frame ModelError; both name the argument.
    """
    target = as_target(path, (".html", ".htm"))
    heading = None if title is None else text("title", title)
    scene = build(
        robot, X, dt, frames, ghost,
        forces=forces, force_scale=force_scale, cones=cones, obstacles=obstacles, ground=ground,
        beside=beside, beside_title=beside_title, camera=camera, signals=signals, tensions=tensions,
    )  # fmt: skip
    system = robot.problem.dynamics if isinstance(robot, Solved) and robot.problem is not None else None
    on_the_way = variants(scene, system, iterations)
    write_atomically(target, page(scene, heading or scene.name, iterations=on_the_way))
    return Drawn(str(target), scene.missing)


@suggesting
def animate(
    robot: Drawable | Solved | Played | Replanned | Mapping[str, Solved | Simulated | ArrayLike],
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


def as_html(solution: Any) -> str:
    """HTML of a solution: its page in a frame, or a plot; nothing for one without its problem."""
    if solution.problem is None:
        return ""
    try:
        scene = build(solution)
    except DDPError:
        return _plotted(solution)
    written = html.escape(page(scene, scene.name), quote=True)
    return f'<iframe srcdoc="{written}" width="100%" height="520" style="border: 0"></iframe>'


def _plotted(solution: Any) -> str:
    """States and controls as a picture."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            drawn = plot_solution(solution, Path(folder) / "solution.svg").read_text(encoding="utf-8")
        except DDPError:
            return ""
    return drawn[drawn.index("<svg") :]


def page(
    scene: Scene, title: str, sliders: Sequence[Slider] = (), told: str = "", notes: str = "",
    iterations: Sequence[Message] = (), live: bool = False, stage: Message | None = None,
) -> str:  # fmt: skip
    """The HTML text of a scene.

    sliders: numbers for which the page asks the program that serves it for another scene.   told: a line about the
    scene.   notes: text for the reader: lines that begin with a number and a point are paragraphs, and those that begin
    with "Solution: " are shown on request.   iterations: variants of the scene.   live: the page asks for more of them.
    stage: the page asks where the robot is, and tells what its reader does; numbers that its script needs.
    """
    viewer, licences = _viewer()
    scripts = ["player.js"] if stage is None else ["player.js", "stage.js"]
    about = [_line(entry) for entry in scene.legend]
    if scene.missing:
        files = listed([PurePosixPath(name).name for name in scene.missing])
        about.append(f"a skeleton stands in for missing meshes: {html.escape(files)}")
    return Template(_beside("player.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        about="".join(f"<p>{line}</p>" for line in about),
        duration=f"{scene.duration:.6g}",
        licences=licences.replace("--", "- -"),
        style=_beside("player.css").read_text(encoding="utf-8"),
        viewer=viewer,
        scene=block(scene, sliders, iterations, live, stage),
        told=html.escape(told),
        sliders="Weights" if stage else "Sliders",
        notes="".join(_note(line) for line in re.split(r"\n(?=\d\.|Solution: )", notes) if line),
        connect="'self'" if sliders or live or stage else "'none'",
        player="\n".join(_beside(name).read_text(encoding="utf-8") for name in scripts),
    )


def block(
    scene: Scene, sliders: Sequence[Slider] = (), iterations: Sequence[Message] = (), live: bool = False,
    stage: Message | None = None,
) -> str:  # fmt: skip
    """A scene as its page unpacks it."""
    header = {
        "duration": scene.duration, "radius": scene.radius, "center": scene.center.tolist(),
        "field_of_view": FIELD_OF_VIEW, "room": ROOM,
        "times": scene.times.tolist(), "path": scene.path.tolist(), "plots": panels(scene.signals),
        "sliders": [asdict(slider) for slider in sliders], "iterations": list(iterations), "live": live, "stage": stage,
    }  # fmt: skip
    return pack(header, scene.messages)


def _note(text: str) -> str:
    """A paragraph for the reader; solutions of exercises are shown on request."""
    if text.startswith("Solution: "):
        return f"<details><summary>Solution</summary>{html.escape(text.removeprefix('Solution: '))}</details>"
    return f"<p>{html.escape(text)}</p>"


def _line(entry: Entry) -> str:
    """A line of the legend, with a box to tick if something can be hidden."""
    swatch = f'<i style="background: {css(entry.color)}"></i>{html.escape(entry.label)}'
    if not entry.paths:
        return swatch
    paths = html.escape(json.dumps(entry.paths), quote=True)
    box = f'<input type="checkbox"{" checked" if entry.shown else ""} data-paths="{paths}"'
    return f'<label>{box} data-switches="{entry.switches}">{swatch}</label>'


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
