"""A comparison of solvers as one page: motions, convergence, states, costs, constraints, and how to make it again."""

import html
import math
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

import viz
from ddp.errors import ProblemError
from ddp.files import write_atomically
from ddp.places import things_of
from ddp.problem import Problem
from ddp.solutions.solution import Solution
from dynamics.robots.libraries import pin
from problems.command.output import COLUMNS, row
from problems.command.playing import draw
from problems.registry import Entry

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #23313d; max-width: 60em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #dfe3e6; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 2px 1.2em 2px 0; font-weight: normal; }
th { color: #5a6773; } pre { white-space: pre-wrap; font-size: 13px; background: #f4f5f5; padding: .7em 1em; }
iframe { width: 100%; height: 34em; border: 1px solid #dfe3e6; } svg { width: 100%; height: auto; }
@page { size: A4; margin: 15mm; }
#still { display: none; }
@media print {
  iframe { display: none; } #still { display: block; width: 70%; margin: auto; } .unseen { display: none; }
  h2 { break-after: avoid; } svg, tr, #still { break-inside: avoid; } body { margin: 0; font-size: 13px; }
  pre { font-size: 11px; }
}
"""
STILL = """
(function () {  // paper shows the picture that the page last showed
  const frame = document.querySelector("iframe"), still = document.getElementById("still");
  function take() {
    const shown = frame.contentWindow && frame.contentWindow.mayne;
    if (!shown) return false;
    still.src = shown.viewer.capture_image();
    document.getElementById("motion").classList.remove("unseen");
    return true;
  }
  const trying = setInterval(() => { if (take()) clearInterval(trying); }, 500);
  window.addEventListener("beforeprint", take);
})();
"""
OWN = "robot", "dynamics", "system"
"""Fields of terms that say no more than the problem does."""


def write_report(
    entry: Entry, problem: Problem, solutions: Mapping[str, Solution], command: Sequence[str], path: Path
) -> None:
    """Write the report of one problem's solutions as one file that needs no network and prints on A4."""
    parts = [f"<h1>{html.escape(entry.description)}</h1>", f"<p><code>{html.escape(entry.name)}</code></p>"]
    rows = [[title, *row(solution), _order(solution)] for title, solution in solutions.items()]
    parts += ["<h2>Solvers</h2>", table(["solver", *COLUMNS, "order at the end"], rows)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            page = draw(entry, problem, dict(solutions), Path(folder) / "motion.html")
            text = html.escape(Path(page).read_text(encoding="utf-8"), quote=True)
            parts += ['<h2 id="motion" class="unseen">Motion</h2>', f'<iframe srcdoc="{text}" title="motion"></iframe>']
            parts += ['<img id="still" alt="">', f"<script>{STILL}</script>"]
        except ProblemError as reason:
            parts += ["<h2>Motion</h2>", f"<p>{html.escape(str(reason))}</p>"]
        convergence = viz.plot_convergence(solutions, Path(folder) / "convergence.svg")
        states = viz.plot_solution(solutions, Path(folder) / "states.svg")
        parts += ["<h2>Convergence</h2>", svg_of(convergence), "<h2>States and controls</h2>", svg_of(states)]
    for title, solution in solutions.items():
        parts += [f"<h2>{html.escape(title)}: costs, constraints, course</h2>", _pre(str(solution.explain()))]
    write_page(path, entry.name, [*parts, "<h2>Problem</h2>", _pre(_described(problem))], " ".join(command))


def write_page(path: Path, title: str, parts: Sequence[str], command: str) -> None:
    """Write parts of HTML as a page that ends with the command, versions and machine that made it."""
    versions = {name: version(name.replace("Pinocchio", "pin")) for name in ("mayne", "numpy", "numba", "Pinocchio")}
    about = versions | {"Python": platform.python_version(), "machine": machine()}
    made = "<h2>Made by</h2>" + _pre(command) + table(list(about), [list(about.values())])
    head = f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
    write_atomically(path, f"{head}<style>{STYLE}</style></head><body>{''.join(parts)}{made}</body></html>")


def _order(solution: Solution) -> str:
    """Order of convergence that the last expected decreases show: 1 is linear, 2 quadratic."""
    ends = [record.expected for record in solution.history if record.expected > 0.0][-3:]
    if len(ends) < 3 or not ends[0] > ends[1] > ends[2]:
        return "-"
    return f"{math.log(ends[1] / ends[2]) / math.log(ends[0] / ends[1]):.1f}"


def _described(problem: Problem) -> str:
    """Terms and constraints with their numbers, one a line."""
    terms = [f"{place} = {_term(place.thing(problem))}" for place in things_of(problem)]
    return "\n".join([repr(problem), f"x0 = {_value(problem.x0)}", *terms])


def _term(term: object) -> str:
    """A term by its name and its numbers."""
    if not is_dataclass(term):
        return repr(term)
    shown = [field.name for field in fields(term) if field.repr and field.init and field.name not in OWN]
    told = ", ".join(f"{name}={_value(getattr(term, name))}" for name in shown)
    return f"{type(term).__name__}({told})"


def _value(value: object) -> str:
    """A number, equal ones once, others as Python writes them."""
    if isinstance(value, pin.SE3):
        return f"pose at {_value(value.translation)}, rotation vector {_value(pin.log3(value.rotation))}"
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.size > 1 and (value == value[0]).all():
        return f"{value.size} times {value[0]:g}"
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", max_line_width=10**6, formatter={"float_kind": "{:g}".format})
    if isinstance(value, tuple) and value and all(is_dataclass(item) for item in value):
        return f"[{', '.join(_term(item) for item in value)}]"
    return repr(value)


def machine() -> str:
    """The processor's name, where the system tells it, and the operating system's."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {platform.system()}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts as HTML."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def svg_of(path: Path) -> str:
    """A picture as a part of a page."""
    text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :]


def _pre(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"
