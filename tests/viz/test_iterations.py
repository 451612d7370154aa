"""Iterations of a solve are kept as they were, and drawn in place of the solution; a live page shows the newest one."""

import base64
import gzip
import json
import urllib.request
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from listeners import refused
from pages import Page, moves, unpack

import viz
from ddp.errors import ProblemError
from ddp.options import DDP
from ddp.solver import solve
from problems import pendulum
from viz.iterations import KEPT, SHOWN
from viz.messages import pack


@pytest.fixture(scope="module")
def solved():
    iterations = viz.Iterations()
    seen = []
    watcher = SimpleNamespace(watch=lambda record, X, U: (seen.append(X.copy()), iterations.watch(record, X, U)))
    return solve(pendulum.swing_up(), DDP(step="rollout"), callback=watcher), iterations, seen


def test_every_iteration_is_kept_with_its_states_and_its_record(solved):
    solution, iterations, seen = solved
    assert len(iterations) == solution.iterations == len(seen)
    assert [one.record for one in iterations.found] == list(solution.history)
    assert all(np.array_equal(one.X, X) for one, X in zip(iterations.found, seen, strict=True))
    assert np.array_equal(iterations.found[-1].X, solution.X)
    assert not np.array_equal(iterations.found[0].X, solution.X)


def test_full_space_steps_and_rounds_of_multipliers_are_watched_too():
    for step in ("linear", "rollout"):
        iterations = viz.Iterations()
        problem = replace(pendulum.swing_up(), control_limits=(-5.0, 5.0))
        solution = solve(problem, DDP(step=step), callback=iterations, throw=False)
        assert len(iterations) == solution.iterations
        assert np.allclose(iterations.found[-1].X, solution.X, atol=1e-4)


def test_a_page_has_each_iteration_as_it_moved(tmp_path, solved):
    solution, iterations, _ = solved
    viz.save_html(tmp_path / "p.html", solution, iterations=iterations)
    variants = Page((tmp_path / "p.html").read_text(encoding="utf-8")).scene["iterations"]
    assert [one["told"].split(":")[0] for one in variants] == [f"iteration {k + 1}" for k in range(len(iterations))]
    for one, iterate in zip(variants, iterations.found, strict=True):
        ((_, turns),) = [track for (path, name), track in moves(one["messages"]).items() if name == "quaternion"]
        half = 0.5 * iterate.X[:, 0]
        turned = np.abs(np.array(turns)[:-1])
        assert np.allclose(np.sort(turned, axis=1)[:, -2:], np.sort(np.abs([np.sin(half), np.cos(half)]).T), atol=2e-6)


def test_long_solves_are_thinned_and_keep_first_and_last():
    iterations = viz.Iterations()
    record = SimpleNamespace(cost=1.0, gradient=0.0)
    for k in range(3 * KEPT):
        iterations.watch(record, np.full((2, 1), float(k)), np.zeros((1, 1)))
    assert len(iterations) <= KEPT
    some = iterations.some()
    numbers = [one.number for one in some]
    assert len(some) == SHOWN
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (1, 3 * KEPT)
    assert all(one.X[0, 0] == one.number - 1 for one in some)


def asked(address, about, origin=None):
    own = "/".join(address.split("/")[:3])
    request = urllib.request.Request(address, json.dumps(about).encode(), {"Origin": origin or own})
    return json.loads(urllib.request.urlopen(request, timeout=60).read())


def test_a_live_page_shows_the_newest_iteration_and_then_the_solution(solved):
    solution, _, _ = solved
    live = viz.Live(solution.problem)
    assert live.where.startswith("http://127.0.0.1:")
    answer = asked(live.where, {"since": 0})
    assert "variant" not in answer
    assert answer["wait"] >= 0.3
    solve(solution.problem, DDP(step="rollout"), callback=live)
    answer = asked(live.where, {"since": 3})
    assert answer["since"] == solution.iterations
    scene = unpack(gzip.decompress(base64.b64decode(answer["variant"])))
    assert scene["iterations"][0]["told"].startswith(f"iteration {solution.iterations}: cost 2.9")
    assert "scene" not in asked(live.where, {"since": solution.iterations})
    live.finish(solution)
    ended = asked(live.where, {"since": solution.iterations})
    assert ended["told"] == str(solution)
    assert unpack(gzip.decompress(base64.b64decode(ended["scene"])))["duration"] == pytest.approx(solution.t[-1])


def test_a_live_page_answers_its_own_page_alone(solved):
    live = viz.Live(solved[0].problem)
    with refused("405"):
        asked(live.where, {"since": 0}, origin="http://evil.example")
    with refused("404"):
        asked(live.where[:-4] + "xxx/", {"since": 0})
    assert asked(live.where, [1, 2]) == {"told": "not understood"}


def test_what_is_no_problem_or_no_iterations_is_named(tmp_path, solved):
    with pytest.raises(ProblemError, match="problem: expected a Problem, got 3"):
        viz.Live(3)
    with pytest.raises(ProblemError, match="iterations: expected viz\\.Iterations"):
        viz.save_html(tmp_path / "p.html", solved[0], iterations=[1])
    with pytest.raises(ProblemError, match="solution: expected a Solution"):
        viz.Live(solved[0].problem).finish(3)


def test_packing_keeps_variants(rng):
    packed = pack({"iterations": [{"told": "one", "messages": []}]}, [])
    assert unpack(gzip.decompress(base64.b64decode(packed)))["iterations"] == [{"told": "one", "messages": []}]
