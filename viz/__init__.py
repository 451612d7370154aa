"""Drawing: trajectories, contacts and obstacles in the browser, convergence and gaits on paper."""

from viz.exploring import Live, explore
from viz.films import save_video
from viz.gaits import plot_forces, plot_schedule
from viz.html import Drawn, animate, save_html
from viz.iterations import Iterations
from viz.plots import plot_convergence, plot_differences, plot_errors, plot_growth
from viz.shapes import Capsule, Sphere
from viz.signals import Signal, signals_of
from viz.sliders import Slider
from viz.solutions import plot_solution
from viz.stage import Stage

__all__ = [
    "Capsule", "Drawn", "Iterations", "Live", "Signal", "Slider", "Sphere", "Stage", "animate", "explore",
    "plot_convergence", "plot_differences", "plot_errors", "plot_forces", "plot_growth", "plot_schedule",
    "plot_solution",
    "save_html", "save_video", "signals_of",
]  # fmt: skip
