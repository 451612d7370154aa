"""Full-space iterations in one compiled call do what the same functions do in Python, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest

import ddp
from ddp.interior import alone, method
from tests.benchmarks.optimisers import limited


def solved(problem, guess=None, **options):
    return ddp.solve(problem, ddp.DDP(max_iterations=60, **options), guess, throw=False)


def same(one, other):
    """Whether two solutions are equal to the last bit, but for seconds."""
    assert str(one.status) == str(other.status)
    for name in ("X", "U", "k", "K", "cost", "gradient", "multipliers"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    records = [[tuple(record._replace(seconds=0.0)) for record in found.history] for found in (one, other)]
    assert records[0] == records[1]
    return True


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


@pytest.mark.parametrize("build", [limited.rail, free_rail, limited.boxed_reach, limited.bounded_loop, impossible])
@pytest.mark.parametrize("step", ["auto", "linear"])
def test_compiled_iterations_are_those_of_python(build, step, monkeypatch):
    problem, made, iterate = build(), [], alone.Alone.iterate
    monkeypatch.setattr(alone.Alone, "iterate", lambda *args: made.append(1) or iterate(*args))
    found = [solved(problem, guess, step=step) for guess in starts(problem, 2)]
    assert bool(made) == (step == "linear" or build is not limited.bounded_loop)  # which rollouts solve
    made.clear()
    monkeypatch.setattr(method, "alone_of", lambda point: None)
    for one, guess in zip(found, starts(problem, 2), strict=True):
        assert same(one, solved(problem, guess, step=step))
    assert not made


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


def test_watchers_see_every_iterate():
    class Watch:
        def __init__(self):
            self.costs = []

        def watch(self, record, X, U):
            self.costs.append((problem.total(X, U), record.cost))

    problem, watcher = limited.rail(), Watch()
    ddp.solve(problem, callback=watcher)
    np.testing.assert_allclose(*np.transpose(watcher.costs), rtol=1e-12)
