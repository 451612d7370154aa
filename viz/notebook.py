"""Solutions in notebooks: their page, in a frame; of systems that are no robots, their states and controls."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path
from typing import Any

from ddp.errors import DDPError
from viz.html import page
from viz.scene import build
from viz.solutions import plot_solution


def as_html(solution: Any) -> str:
    """HTML of a solution: its page in a frame, or a plot; nothing for one without its problem."""
    if solution.problem is None:
        return ""
    try:
        scene = build(solution)
    except DDPError:
        return _plot(solution)
    written = html.escape(page(scene, scene.name), quote=True)
    return f'<iframe srcdoc="{written}" width="100%" height="520" style="border: 0"></iframe>'


def _plot(solution: Any) -> str:
    """States and controls as a picture."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            drawn = plot_solution(solution, Path(folder) / "solution.svg").read_text(encoding="utf-8")
        except DDPError:
            return ""
    return drawn[drawn.index("<svg") :]
