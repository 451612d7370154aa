"""What is abused of `viz`."""

import tempfile
from pathlib import Path

import numpy as np

import viz
from abuse.subjects import Subject
from ddp import solve
from problems import pendulum


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
        Subject("viz.Live", viz.Live, {"problem": problem, "title": "a"}),
        Subject("viz.Sphere", viz.Sphere, {"center": np.ones(3), "radius": 0.1}),
        Subject("viz.Capsule", viz.Capsule, {"start": np.ones(3), "end": np.zeros(3), "radius": 0.1}),
    ]
