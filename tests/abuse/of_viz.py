"""Functions of `viz` that are abused."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import viz
from abuse.subjects import Subject
from ddp import solve
from problems import pendulum

BROWSER = """#!{python}
import json, sys, urllib.request
origin = "/".join(sys.argv[-1].split("/")[:3])
for told in ({{"frame": 0, "picture": "data:image/png;base64,{pixel}"}}, {{"ended": True}}):
    request = urllib.request.Request(sys.argv[-1], json.dumps(told).encode(), {{"Origin": origin}})
    urllib.request.urlopen(request).read()
sys.stdin.read()
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def _film(folder):
    """A film by a browser that draws one picture and ends."""
    browser = folder / "browser"
    browser.write_text(BROWSER.format(python=sys.executable, pixel=PIXEL))
    browser.chmod(0o700)
    os.environ["CHROME_PATH"] = str(browser)
    return viz.save_video


def subjects():
    problem = pendulum.swing_up(horizon=10)
    solution = solve(problem, throw=False)
    robot, dt = problem.dynamics.robot, problem.dynamics.dt
    folder = Path(tempfile.mkdtemp(prefix="mayne-abuse-"))
    forces = {"tip": np.ones((10, 3))}
    drawn = {
        "path": folder / "motion.html", "robot": robot, "X": solution.X, "dt": dt, "frames": ["tip"], "forces": forces,
        "cones": 0.7, "obstacles": [viz.Sphere([0.0, 0.0, 1.0], 0.1)], "ghost": solution.X[-1],
        "beside": solution.X,
    }  # fmt: skip
    flat = np.ones(3)
    flags = {"left": np.array([True, False, True]), "right": np.array([True, True, False])}
    return [
        Subject("save_html", viz.save_html, drawn, others={"dt": ("dt",)}),
        Subject("plot_convergence", viz.plot_convergence, {"solutions": {"DDP": solution}, "path": folder / "c.png"}),
        Subject(
            "plot_differences", viz.plot_differences,
            {"deltas": np.array([0.1, 0.01]), "errors": {"central": np.ones((2, 2))}, "path": folder / "d.png"},
        ),
        Subject("plot_errors", viz.plot_errors, {"errors": {"pd": (flat, flat)}, "path": folder / "e.png"}),
        Subject("plot_schedule", viz.plot_schedule, {"schedule": flags, "dt": 0.1, "path": folder / "s.png"}),
        Subject("plot_forces", viz.plot_forces, {"forces": forces, "dt": 0.1, "path": folder / "f.png", "mu": 0.5}),
        Subject("plot_growth", viz.plot_growth, {"counts": flat, "times": {"a": flat}, "path": folder / "g.png"}),
        Subject("plot_solution", viz.plot_solution, {"solutions": solution, "path": folder / "p.png"}),
        Subject("signals_of", viz.signals_of, {"solution": solution}),
        Subject(
            "viz.Signal", viz.Signal, {"t": flat, "values": flat, "names": ("a",), "lower": -1.0, "upper": 1.0},
            others={"names": ("values",)},
        ),
        Subject(
            "viz.Slider", viz.Slider, {"name": "a", "value": 0.5, "low": 0.0, "high": 1.0},
            others={name: ("a", "low") for name in ("value", "low", "high", "logarithmic")},
        ),
        Subject(
            "explore", viz.explore, {"sliders": [viz.Slider("a", 0.5, 0.0, 1.0)], "make": lambda _: (solution, "")},
            ("open_browser",),
        ),
        Subject(
            "save_video", _film(folder),
            {"path": folder / "film.gif", "robot": robot, "X": solution.X, "dt": dt, "width": 16, "height": 16},
            others={"dt": ("dt",), "fps": ("fps", "speed"), "X": ("X", "robot"), "robot": ("robot", "X")},
        ),
        Subject(
            "viz.Stage", viz.Stage,
            {"robot": robot, "q": solution.X[0, :1], "target": np.ones(3), "commands": ("a", "b", "c")},
            ("open_browser",),
        ),
        Subject(
            "Stage.show", viz.Stage(robot, solution.X[0, :1]).show,
            {"q": solution.X[0, :1], "told": "a", "arrow": (flat, flat), "target": flat},
        ),
        Subject("viz.Live", viz.Live, {"problem": problem, "title": "a"}),
        Subject("viz.Sphere", viz.Sphere, {"center": np.ones(3), "radius": 0.1}),
        Subject("viz.Capsule", viz.Capsule, {"start": np.ones(3), "end": np.zeros(3), "radius": 0.1}),
    ]
