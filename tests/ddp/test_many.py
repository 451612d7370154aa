"""Many problems: the same bits whoever solves them, failures as rows, optima of neighbours, what is refused."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from many_systems import DEADLY, Deadly, Odd, Picky, Wells, drift, of, straight
from thorough import cases

import ddp
from ddp.many import driver, executors
from ddp.many.executors import Threads
from ddp.many.rows import LONGEST, said_in

HERE = Path(__file__).parent


class Shuffled:
    """An executor that does what it is given in another order, and tells of it later."""

    def __init__(self, seed):
        self.rng, self.waiting = np.random.default_rng(seed), []
        self.pool = ThreadPoolExecutor(1)

    def submit(self, function, *arguments):
        future = Future()
        self.waiting.append((future, function, arguments))
        self.pool.submit(self.one)
        return future

    def one(self):
        time.sleep(0.002)
        future, function, arguments = self.waiting.pop(self.rng.integers(len(self.waiting)))
        try:
            future.set_result(function(*arguments))
        except Exception as reason:
            future.set_exception(reason)


def test_many_solves_are_those_of_a_loop(problem, over):
    many = ddp.solve_many(problem, over, executor=1)
    for i, (x, m) in enumerate(zip(over["x0"][:20], over["masses"], strict=False)):
        alone = ddp.solve(problem.varying(x0=x, masses=m), throw=False)
        for name in ("X", "U", "K", "cost", "iterations", "converged"):
            assert np.array_equal(getattr(many, name)[i], getattr(alone, name)), (i, name)
    assert [one.cost for one in many] == many.cost.tolist()
    assert np.array_equal(many[-1].X, many.X[-1])
    with pytest.raises(ddp.ProblemError, match="i: expected a whole number"):
        many[:2]


def test_neighbours_save_iterations_and_lose_no_optimum(problem, over, serial):
    cold = ddp.solve_many(problem, over, executor=1)
    assert serial.iterations.mean() < 0.6 * cold.iterations.mean()
    assert (serial.cost <= cold.cost * (1.0 + 1e-9)).all()
    assert serial.converged.all()


@pytest.mark.parametrize("executor", ["threads", "shuffled", "another order", "processes"])
def test_stores_are_the_same_to_the_last_bit_whoever_solves(executor, problem, over, serial, tmp_path):
    made = {
        "threads": lambda: ThreadPoolExecutor(3), "shuffled": lambda: Shuffled(1), "another order": lambda: Shuffled(2),
        "processes": lambda: 2,
    }[executor]()  # fmt: skip
    again = ddp.solve_many(problem, over, executor=made, start="neighbours", into=tmp_path / "a.zarr")
    assert of(again) == of(serial)
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("start", cases([None, "neighbours"], [None]))
def test_compiled_loops_leave_the_same_bits_whoever_shares_the_samples(start, problem, over):
    states = {"x0": over["x0"]}
    serial = ddp.solve_many(problem, states, executor=1, start=start)
    for executor in (2, ThreadPoolExecutor(3), Shuffled(3)):
        again = ddp.solve_many(problem, states, executor=executor, start=start)
        for name in ("X", "U", "K", "cost", "gradient", "iterations", "parent", "start", "moved", "sentence"):
            assert np.array_equal(getattr(again, name), getattr(serial, name), equal_nan=name == "moved"), name


def test_threads_share_compiled_loops_where_processes_do_not_pay(problem, over, monkeypatch):
    begun = []
    for module in (driver, executors):
        monkeypatch.setattr(module, "cores", lambda: 3)
    monkeypatch.setattr(driver, "THREADED", 0.0)
    monkeypatch.setattr(driver, "Threads", lambda: begun.append(Threads()) or begun[-1])
    states = {"x0": over["x0"]}
    for start in (None, "neighbours"):
        many = ddp.solve_many(problem, states, start=start)
        serial = ddp.solve_many(problem, states, executor=1, start=start)
        assert np.array_equal(many.X, serial.X)
        assert np.array_equal(many.start, serial.start)
    assert [crew.at_once for crew in begun] == [6, 6]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mayne_")]


def test_a_sample_that_raises_is_a_row_with_its_sentence():
    problem = ddp.Problem(drift, [straight()], [Picky()], np.zeros(2), 5)
    X0 = np.array([[0.0, 0.0], [2.0, 0.0], [0.1, 0.0]])
    many = ddp.solve_many(problem, {"x0": X0}, executor=1)
    assert many.converged.tolist() == [True, False, True]
    assert [(one.sample, one.trajectory) for one in many.failures()] == [(1, False)]
    assert "too far at knot 5 (line" in many.failures()[0].status
    assert np.isnan(many.X[1]).all()
    with pytest.raises(ddp.ProblemError, match="i: sample 1 has no solution: "):
        many.solution(1)


def test_long_sentences_are_cut_after_a_word():
    sentence = "none of 13 others that were tried takes it away " * 10
    kept = said_in(sentence).decode()
    assert kept.endswith("...")
    assert len(kept) <= LONGEST
    assert sentence.startswith(f"{kept.removesuffix('...')} ")
    assert said_in("x" * 500) == b"x" * (LONGEST - 3) + b"..."
    assert said_in("short") == b"short"


def test_what_does_not_converge_is_a_row_with_its_status(problem, over):
    many = ddp.solve_many(problem, over, ddp.DDP(max_iterations=2), executor=1)
    first = many.failures()[0]
    alone = ddp.solve(problem.varying(x0=over["x0"][first.sample], masses=over["masses"][first.sample]),
                      ddp.DDP(max_iterations=2), throw=False)  # fmt: skip
    assert first.status == str(alone.status)
    assert first.trajectory
    assert many.solution(first.sample).status.ending is alone.status.ending


@pytest.mark.usefixtures("forked")
def test_samples_that_kill_their_worker_are_marked_and_nothing_else_is_lost():
    problem = ddp.Problem(drift, [straight()], [Deadly()], np.zeros(2), 5)
    X0 = 0.1 * np.random.default_rng(0).normal(size=(100, 2))
    X0[70] = DEADLY
    many = ddp.solve_many(problem, {"x0": X0}, executor=2, retries=1)
    marked = [one.sample for one in many.failures()]
    assert 70 in marked
    assert set(marked) <= set(range(64, 96))  # its block
    assert many.failures()[0].status == "its worker died, 2 times"
    assert many.converged.sum() == 100 - len(marked)
    assert np.array_equal(many.X[:64], ddp.solve_many(problem, {"x0": X0[:64]}, executor=1).X)
    first = ddp.solve_many(problem, {"x0": X0[64:96]}, executor=2, retries=0)
    assert len(first.failures()) == 32  # although no task had ended before


@pytest.mark.parametrize("bad", [0, 2])
def test_samples_that_make_no_problem_are_rows_wherever_they_are(bad, problem, over):
    masses = over["masses"][:3].copy()
    masses[bad] = -1.0
    many = ddp.solve_many(problem, {"masses": masses}, executor=1)
    (failed,) = many.failures()
    assert (failed.sample, "expected a positive number" in failed.status) == (bad, True)
    with pytest.raises(ddp.ModelError, match="over, sample 0 of 2: masses"):
        ddp.solve_many(problem, {"masses": masses[[bad, bad]]})


def test_jumps_between_neighbours_are_the_borders_of_local_minima():
    problem = ddp.Problem(drift, [straight()], [Wells()], np.array([0.6, 0.0]), 20)
    X0 = np.stack([np.linspace(-1.0, 1.0, 101), np.zeros(101)], axis=1)
    many = ddp.solve_many(problem, {"x0": X0}, executor=1, start="neighbours")
    side = np.sign(many.X[:, -1, 0])
    jumps = {(edge.parent, edge.child) for edge in many.consistency()}
    edges = {(int(p), i) for i, p in enumerate(many.parent) if p >= 0 and side[p] != side[i]}
    assert edges
    assert {edge for edge in jumps if edge[0] >= 0} == edges


@pytest.fixture(scope="module")
def wells():
    """States from which neighbours lead to the farther one of two wells, without a sign of it."""
    problem = ddp.Problem(drift, [straight()], [Wells()], np.array([0.3, 0.0]), 20)
    return problem, {"x0": np.stack([np.linspace(-0.3, 1.0, 101), np.zeros(101)], axis=1)}


def test_scouts_find_that_neighbours_miss_optima_and_have_all_verified(wells, caplog):
    cold = ddp.solve_many(*wells, executor=1)
    unverified = ddp.solve_many(*wells, executor=1, start="neighbours", verify=False)
    assert (unverified.cost > cold.cost * (1.0 + 1e-6)).any()
    many = ddp.solve_many(*wells, executor=1, start="neighbours")
    assert (many.cost <= cold.cost * (1.0 + 1e-6) + 1e-12).all()
    assert set(many.start.tolist()).isdisjoint(map(many.starts.index, ("own guess", "neighbour")))  # both were tried
    (line,) = caplog.messages
    assert "better optima from the problem's own guess than from their neighbours" in line
    every = ddp.solve_many(*wells, executor=1, start="neighbours", verify=True)
    assert np.array_equal(every.X, many.X)


@pytest.mark.parametrize("way", ["threads", "shards", "interrupted"])
def test_what_scouts_decide_is_the_same_whoever_solves(way, wells, tmp_path, monkeypatch):
    given = {"start": "neighbours", "into": tmp_path / "a.zarr"}
    if way == "threads":
        many = ddp.solve_many(*wells, executor=ThreadPoolExecutor(3), **given)
    elif way == "shards":
        for number in (2, 1):
            many = ddp.solve_many(*wells, executor=1, shard=(number, 2), **given)
    else:
        monkeypatch.setattr(driver, "LASTING", 1e-9)
        for last in range(0, 101, 20):

            def interrupt(progress, last=last):
                if last <= progress.done < progress.total:
                    raise KeyboardInterrupt

            with contextlib.suppress(KeyboardInterrupt):
                many = ddp.solve_many(*wells, executor=1, progress=interrupt, **given)
        many = ddp.solve_many(*wells, executor=1, **given)
    assert of(many) == of(ddp.solve_many(*wells, executor=1, start="neighbours", into=tmp_path / "b.zarr"))


def test_the_best_of_many_starts_is_found_with_how_often_each_was(tmp_path):
    problem = ddp.Problem(drift, [straight()], [Wells()], np.array([0.05, 0.0]), 20)
    found = ddp.solve_best(problem, [np.full((20, 1), u) for u in (-0.6, -0.5, 0.4, 0.5, 0.6)], executor=1)
    sides = {guess: np.sign(one.solution.X[-1, 0]) for one in found.optima for guess in one.guesses}
    assert sides == {0: -1.0, 1: -1.0, 2: 1.0, 3: 1.0, 4: 1.0}
    assert [one.guesses for one in found.optima] == [(2, 3, 4), (0, 1)]  # 0.05 is nearer to 1
    assert found.best.stationarity() < 1e-8
    assert found.failures == ()
    assert np.isnan(found.best.seconds)
    assert len(found.best.history) == 0 < found.best.iterations
    found.best.save(tmp_path / "best.npz")
    again = ddp.Solution.load(tmp_path / "best.npz", problem)
    assert repr(again) == repr(found.best)
    with pytest.raises(ddp.ProblemError, match=r"guesses\[1\]: guess: expected shape \(20, 1\)"):
        ddp.solve_best(problem, [None, np.zeros(3)])
    with pytest.raises(ddp.ProblemError, match=r"guesses: expected a list of guesses, or how many, got 2\.5"):
        ddp.solve_best(problem, 2.5)


def test_guesses_that_lead_to_no_optimum_are_told_with_a_reason():
    problem = ddp.Problem(drift, [straight()], [Wells()], np.array([0.05, 0.0]), 20)
    found = str(ddp.solve_best(problem, [None, np.ones((20, 1))], ddp.DDP(max_iterations=1), executor=1))
    assert found.startswith("no optima; 2 guesses led to none; of guess 0: not converged after 1 iterations")


def shut(pool):
    pool.shutdown()
    return pool


@pytest.mark.parametrize(("change", "words"), [
    ({"executor": Odd(7, False)}, "executor: expected submit to return a `concurrent.futures.Future`, got 7"),
    ({"executor": Odd(7)}, "executor: expected futures of what functions return, got one of 7"),
    ({"executor": Odd(None)}, "executor: it has cancelled a task; what is in a store is kept"),
    ({"executor": Odd(ValueError("full"))}, "executor: ValueError: full"),
    ({"executor": shut(ThreadPoolExecutor(1))}, "executor: cannot schedule new futures after shutdown"),
    ({"over": {}}, "over: expected a mapping of places to arrays"),
    ({"over": {"x0": np.zeros((3, 2)), "masses": np.ones((2, 1))}}, "expected as many samples of each, got 3 of x0"),
    ({"over": {"x0": np.full((3, 2), np.nan)}}, r"over\['x0'\]: expected numbers, got nan in sample 0"),
    ({"over": {"nothing": np.zeros(3)}}, "the problem has no number 'nothing'"),
    ({"over": {"x0": 1.0}}, "expected an array with one row a sample"),
    ({"start": "nearby"}, "start: expected None, a Solution or 'neighbours'"),
    ({"executor": 0}, "executor: expected a whole number of at least 1"),
    ({"executor": True}, "executor: expected a number of processes, or an object with submit"),
    ({"into": "reach.json"}, "into: expected a name that ends with .zarr, got reach.json"),
    ({"executor": "dask"}, "executor: expected a number of processes, or an object with submit"),
    ({"keep": ("X", "V")}, "keep: expected some of X, U, k, K"),
    ({"dtype": "int8"}, "dtype: expected 'float32' or 'float64'"),
    ({"retries": -1}, "retries: expected a whole number of at least 0"),
    ({"verify": 1}, "verify: expected None, True or False, got 1"),
    ({"verify": True}, "verify: expected together with start='neighbours'"),
    ({"progress": 3}, "progress: expected True, False or a function"),
    ({"shard": (1, 2)}, "shard: expected together with into"),
    ({"shard": [1, 2]}, "shard: expected together with into"),
    ({"shard": [1, 2, 3]}, r"shard: expected a pair \(number, count\), got \[1, 2, 3\]"),
    ({"shard": (3, 2), "into": "a.zarr"}, "shard: expected a number of 1 to 2"),
    ({"shard": (0, 2), "into": "a.zarr"}, "shard: expected a number of 1 to 2"),
])  # fmt: skip
def test_bad_batches_are_refused_before_any_work(change, words, problem, over):
    with pytest.raises(ddp.ProblemError, match=words):
        ddp.solve_many(**{"problem": problem, "over": over, "executor": 1} | change)


def test_functions_that_cannot_be_sent_are_named_before_there_is_a_store(problem, over, tmp_path):
    bounded = dataclasses.replace(problem, constraints=[ddp.Inequality(lambda x, u: x[:1] - 10.0)])
    over = {"x0": over["x0"][:2]}
    with pytest.raises(ddp.ProblemError, match=r"constraints\[0\] \(Inequality\): cannot be sent .* executor=1"):
        ddp.solve_many(bounded, over, executor=2, into=tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ddp.ProblemError, match=r"constraints\[0\]"):
        ddp.solve_best(bounded, [None], executor=2)
    assert ddp.solve_many(bounded, over, executor=1, into=tmp_path / "a.zarr").converged.all()
    with ThreadPoolExecutor(1) as threads:
        assert ddp.solve_many(bounded, over, executor=threads).converged.all()


def test_functions_that_cannot_be_sent_are_solved_by_this_process(problem, over, monkeypatch, caplog):
    monkeypatch.setattr(driver, "WORTHWHILE", 0.0)
    monkeypatch.setattr(driver, "cores", lambda: 2)
    bounded = dataclasses.replace(problem, constraints=[ddp.Inequality(lambda x, u: x[:1] - 10.0)])
    many = ddp.solve_many(bounded, {"x0": over["x0"][:40]})
    assert many.converged.all()
    (line,) = caplog.messages
    assert line.startswith("solving in this process alone: constraints[0] (Inequality): cannot be sent")


def test_processes_that_cannot_be_started_are_told_or_done_without(problem, over, tmp_path, monkeypatch, caplog):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()  # processes begin in the folder of this one
    with pytest.raises(ddp.ProblemError, match=r"^executor: cannot start 2 processes: No such file or directory"):
        ddp.solve_many(problem, over, executor=2)
    with pytest.raises(ddp.ProblemError, match=r"^workers: cannot start 2 processes: No such file or directory"):
        ddp.solve(problem, workers="processes:2")
    with pytest.raises(ddp.ProblemError, match=r"^into: cannot write store: No such file or directory"):
        ddp.solve_many(problem, over, into="store")
    monkeypatch.setattr(driver, "WORTHWHILE", 1e-6)
    monkeypatch.setattr(driver, "cores", lambda: 2)
    many = ddp.solve_many(problem, over, start="neighbours", verify=False)
    assert many.done.all()
    assert "solving in this process alone: executor: cannot start 2 processes" in caplog.text


def test_samples_that_are_equal_are_no_jumps(problem):
    many = ddp.solve_many(problem, {"x0": np.tile([0.1, 0.2], (40, 1))}, executor=1, start="neighbours")
    assert many.consistency() == []


def test_pools_of_ones_own_leave_the_same_bits_with_and_without_shared_memory(problem, over, monkeypatch):
    given = {name: values[:70] for name, values in over.items()}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        shared = ddp.solve_many(problem, given, executor=pool, start="neighbours")
        monkeypatch.delattr(os, "memfd_create")
        sent = ddp.solve_many(problem, given, executor=pool, start="neighbours")
    alone = ddp.solve_many(problem, given, executor=1, start="neighbours")
    for many in (shared, sent):
        for name in ("X", "U", "K", "cost", "parent", "start", "work"):
            assert np.array_equal(getattr(many, name), getattr(alone, name)), name


def test_progress_is_lines_of_json_where_nobody_watches(problem, over, capfd):
    ddp.solve_many(problem, {"x0": over["x0"][:3]}, executor=1, progress=True)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert lines[0]["begins"].startswith("3 solves of")
    assert lines[-1] | {"rate": 0.0} == {
        "done": 3, "total": 3, "converged": 3, "failed": 0, "rate": 0.0, "remaining": 0.0,
    }  # fmt: skip


def test_every_sample_has_a_parent_before_it():
    from ddp.many.plan import neighbours

    for count in (1, 2, 31, 33, 1000):
        points = np.random.default_rng(count).normal(size=(count, 3))
        done, depth = {-1: 0}, {-1: 0}
        for block in neighbours(points, np.zeros(3)):
            for row, parent in zip(block.rows.tolist(), block.parents.tolist(), strict=True):
                depth[row] = depth[parent] + 1
                done[row] = parent
        assert sorted(done) == list(range(-1, count))
        assert max(depth.values()) <= 2 + 2 * np.log2(count + 1)


def test_a_tree_of_neighbours_has_short_edges():
    from ddp.many.plan import neighbours

    points = np.random.default_rng(0).uniform(size=(2000, 2))
    blocks = neighbours(points, points[0])
    rows, parents = (np.concatenate(part) for part in zip(*((b.rows, b.parents) for b in blocks), strict=True))
    edges = np.linalg.norm(points[rows] - points[np.maximum(parents, 0)], axis=1)
    assert np.median(edges[parents >= 0]) < 2.0 / np.sqrt(2000)  # twice the spacing of a grid of as many


UNGUARDED = """
import numpy as np, ddp, ddp.many.driver as driver
from problems import pendulum
driver.WORTHWHILE = 0.0
print(ddp.solve_many(pendulum.swing_up(horizon=60), {"x0": 0.1 * np.random.default_rng(0).normal(size=(70, 2))}))
"""


def test_a_script_without_a_guard_is_told_so_and_solved_by_one_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("70 solutions: 70 converged")
    if len(os.sched_getaffinity(0)) > 1:
        assert "solving in this process alone" in ended.stderr
