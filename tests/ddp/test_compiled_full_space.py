"""Full-space iterations in one compiled call: with parts that Python is asked for they do the same, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest
from same_bits import same

import ddp
import problems
from ddp.interior import linear
from ddp.interior.parts_in_python import PartsInPython
from tests.benchmarks.optimisers import limited


def solved(problem, guess=None, workers=1, **options):
    return ddp.solve(problem, ddp.DDP(max_iterations=60, **options), guess, throw=False, workers=workers)


def starts(problem, count, spread=1.0):
    rng = np.random.default_rng(3)
    return [None, *(spread * rng.normal(size=(problem.horizon, problem.dynamics.nu)) for _ in range(count))]


def free_rail():
    """`limited.rail` without limits of its controls."""
    return replace(limited.rail(), control_limits=(-np.inf, np.inf))


def impossible():
    """A cart that has to be at two places at once: rows become elastic."""
    plain = limited.rail()
    return replace(plain, constraints=[ddp.Inequality(lambda x, u: x[0], lower=0.7, upper=0.8)])


ROLLED = limited.bounded_loop, problems.find("mobile/reach")
"""Problems that rollouts solve by default."""

TRACED = *ROLLED[1:], *map(problems.find, ("acrobot/swing-up", "car/circles", "rocket/landing"))
"""Problems of traced functions, one of them on a manifold."""


@pytest.mark.parametrize(
    "build", [limited.rail, free_rail, limited.boxed_reach, limited.bounded_loop, impossible, *TRACED]
)
@pytest.mark.parametrize("step", ["auto", "linear"])
def test_compiled_parts_do_what_python_is_asked_for(build, step, monkeypatch):
    problem, asked, call = build(), [], PartsInPython._weigh
    monkeypatch.setattr(PartsInPython, "_weigh", lambda parts: asked.append(1) or call(parts))
    found = [solved(problem, guess, step=step) for guess in starts(problem, 2)]
    assert not asked
    for one, guess in zip(found, starts(problem, 2), strict=True):
        assert same(one, solved(problem, guess, "threads:2", step=step))  # which make derivatives for Python
    assert bool(asked) == (step == "linear" or build not in ROLLED)


@pytest.mark.parametrize("build", [limited.rail, limited.bounded_loop])
def test_multipliers_are_the_same_compiled_for_their_sizes_and_for_all(build, monkeypatch):
    found, asked = solved(build(), step="linear"), []
    monkeypatch.setattr(linear, "sizes_of", lambda *sizes: asked.append(sizes) or {})
    linear.compiled.cache_clear()
    assert same(found, solved(build(), step="linear"))
    linear.compiled.cache_clear()
    assert asked


@pytest.mark.parametrize("part", ["_differentiate", "_contract", "_stray", "_track", "_weigh"])
def test_what_a_part_in_python_raises_ends_the_solve(part, monkeypatch):
    problem, call, left = limited.rail(), getattr(PartsInPython, part), [0]

    def failing(outside):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt(part)
        call(outside)

    plain = solved(problem, workers="threads:2")
    monkeypatch.setattr(PartsInPython, part, failing)
    with pytest.raises(KeyboardInterrupt, match=part):
        solved(problem, workers="threads:2")
    monkeypatch.setattr(PartsInPython, part, call)
    assert same(plain, solved(problem, workers="threads:2"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("first", [1, 2, 17])
def test_an_interrupt_before_a_part_in_python_begins_ends_the_solve(first, monkeypatch):
    """ctypes drops what is raised at the entry of a function that C calls."""
    call, left = PartsInPython._call, [first]

    def failing(outside, part, *unused):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        call(outside, part)

    problem = limited.rail()
    monkeypatch.setattr(PartsInPython, "_call", failing)
    with pytest.raises(KeyboardInterrupt):
        solved(problem, workers="threads:2")
    assert left[0] <= 0
    assert same(solved(problem, workers="threads:2"), solved(limited.rail(), workers="threads:2"))


def test_a_solve_that_was_interrupted_leaves_no_traces():
    problem, seen = limited.rail(), []
    plain = solved(problem)

    def interrupt(record):
        seen.append(record)
        if len(seen) == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ddp.solve(problem, callback=interrupt)
    assert same(plain, solved(problem))


def test_a_solve_within_a_solve_has_memory_of_its_own():
    problem, inner = limited.rail(), []
    plain = solved(problem)

    def again(record):
        if len(inner) < 3:
            inner.append(solved(problem))

    assert same(plain, ddp.solve(problem, ddp.DDP(max_iterations=60), callback=again))
    assert all(same(plain, one) for one in inner)


def softened():
    """`limited.rail` on rails that may be left for a price."""
    plain = limited.rail()
    return replace(plain, constraints=[ddp.Soft(plain.constraints[0], 1e-3)])


@pytest.mark.parametrize("build", [limited.rail, impossible, softened])
def test_watchers_see_every_iterate_as_records_tell_it(build):
    class Watch:
        def __init__(self):
            self.costs, self.violations = [], []

        def watch(self, record, X, U):
            self.costs.append((problem.total(X, U), record.cost))
            self.violations.append((problem.violation(X, U), record.violation))

    problem, watcher = build(), Watch()
    solution = ddp.solve(problem, ddp.DDP(step="linear", max_iterations=60), callback=watcher, throw=False)
    np.testing.assert_allclose(*np.transpose(watcher.costs), rtol=1e-12)
    np.testing.assert_allclose(*np.transpose(watcher.violations), rtol=1e-12, atol=1e-12)
    if build is softened:
        assert max(abs(residual.violation).max() for residual in solution.residuals()) > 1e-3
