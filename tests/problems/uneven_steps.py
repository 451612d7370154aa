"""Shared by tests of durations: a gait of uneven steps, and differences."""

from __future__ import annotations

from problems import gaits
from problems.sensitivity import with_durations


def fourth(f, step):
    """f'(0) by central differences of order four."""
    return (8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step)


def uneven(**options):
    """A trot of solo12 in coarse steps, whose phases last longer or shorter than they did."""
    problem = gaits.trot("solo12", dt=0.02, **options)
    return with_durations(problem, problem.dynamics.phase_durations * [0.9, 1.1, 1.2, 1.0, 0.95])
