"""Drawing: trajectories in the browser, convergence on paper."""

from viz.html import Drawn, save_html
from viz.live import animate
from viz.plots import plot_convergence

__all__ = ["Drawn", "animate", "plot_convergence", "save_html"]
