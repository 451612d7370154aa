"""Functions that are sent to other processes, which import their modules anew: none is solved for by other values."""

import dataclasses
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import many_systems
import numpy as np
import pytest
from many_systems import drift, straight

import ddp
from dynamics import augment
from problems.lifted import lifted


def test_values_set_in_a_module_are_no_others_in_stores_and_processes(tmp_path, monkeypatch):
    problem = ddp.Problem(
        dynamics=drift, running=[straight()], terminal=[many_systems.gained], x0=np.ones(2), horizon=5
    )  # fmt: skip
    over, path = {"x0": np.ones((3, 2))}, tmp_path / "a.zarr"
    before = ddp.solve_many(problem, over, executor=1, into=path).cost
    monkeypatch.setattr(many_systems, "GAIN", 3.0)
    after = ddp.solve_many(problem, over, executor=1).cost
    assert (after > 1.2 * before).all()
    with pytest.raises(ddp.ProblemError, match=r"what terminal\[0\] .* reads differs"):
        ddp.solve_many(problem, over, executor=1, into=path)
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(ddp.ProblemError, match=r"terminal\[0\].*: reads other values in another process than here"),
    ):
        ddp.solve_many(problem, over, executor=pool)


def test_values_that_are_not_traced_are_no_others_in_processes(monkeypatch):
    """Of what Python calls, and of terms and systems within compositions."""
    plain = ddp.Problem(dynamics=drift, running=[straight()], terminal=[], x0=np.ones(2), horizon=5)
    bound = ddp.Inequality(many_systems.gained, upper=99.0, derivatives="differences")
    called, traced = (dataclasses.replace(plain, terminal=[t]) for t in (many_systems.Gained(), many_systems.gained))
    moved = dataclasses.replace(plain, dynamics=many_systems.scaled)
    problems = [
        ("terminal[0] (Gained)", called),
        ("terminal[0] (Gained)", lifted(called, augment.rates(drift), np.zeros(1))),
        ("terminal[0] (gained)", lifted(traced, augment.rates(drift), np.zeros(1))),
        ("constraints[0] (Inequality of gained)", dataclasses.replace(plain, constraints=[bound])),
        ("dynamics", lifted(moved, augment.rates(many_systems.scaled), np.zeros(1))),
        ("dynamics", moved),
    ]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for _, problem in problems:
            assert ddp.solve_many(problem, {"x0": np.array([problem.x0] * 2)}, executor=pool).converged.all()
        monkeypatch.setattr(many_systems, "GAIN", 3.0)
        for name, problem in problems:
            with pytest.raises(ddp.ProblemError, match=f"^{re.escape(name)}: reads other values in another process"):
                ddp.solve_many(problem, {"x0": np.array([problem.x0] * 2)}, executor=pool)
    with pytest.raises(ddp.ProblemError, match=r"^dynamics: reads other values in another process"):
        ddp.solve(moved, workers="processes:2")


def test_values_that_differ_by_rounding_or_at_every_call_are_no_others():
    plain = ddp.Problem(dynamics=drift, running=[straight()], terminal=[], x0=np.ones(2), horizon=5)
    for term in (many_systems.Rounded(), many_systems.Random()):
        solution = ddp.solve(
            dataclasses.replace(plain, terminal=[term]), ddp.DDP(max_iterations=2), workers="processes:2", throw=False
        )
        assert solution.cost < 4.0
