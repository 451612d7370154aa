"""Tasks of many solves: how large they are by measured work, by memory, and by what is ready."""

import pickle
import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
from many_systems import deaf

import ddp
from ddp.machine.number import WIDTH
from ddp.many import driver, executors
from ddp.many.plan import Block
from ddp.many.rows import NONE, policy_type, row_type
from ddp.many.work import Task, Work, solved
from problems import pendulum


class Recorded:
    """An executor that solves at once, scouts slowly, and keeps how many samples each task had, and of which batch."""

    def __init__(self):
        self.sizes, self.digests = [], set()

    def submit(self, function, digest, pickled, task, outlet=None):
        self.sizes.append(sum(len(block.rows) for block in task.blocks))
        self.digests.add(digest)
        future = Future()
        done = function(digest, pickled, task, outlet)
        future.set_result(done._replace(seconds=100.0) if task.verified else done)
        return future


class Waits:
    """A term that waits for others more than it works."""

    derivatives = "differences"

    def value(self, x, u):
        time.sleep(5e-4)
        return x @ x + u @ u


def measured():
    """Return seconds of a task as it tells them, and as they were."""
    like = pendulum.swing_up(horizon=2)
    problem = ddp.Problem(like.dynamics, [Waits()], [Waits()], like.x0, 2)
    work = Work(problem, ddp.DDP(), row_type(problem, ("U",), "float64"), policy_type(problem, 0))
    task = Task([Block(np.arange(2), np.full(2, NONE))], {"x0": np.array([[0.1, 0.0], [0.2, 0.0]])}, np.zeros((0, 0)),
                np.zeros(0, work.policies))  # fmt: skip
    solved(work, task)  # loads code
    begin = time.perf_counter()
    done = solved(work, task)
    return done.seconds, time.perf_counter() - begin


def test_waiting_for_a_loaded_machine_makes_tasks_no_smaller():
    told, taken = measured()
    assert 0.0 < told < 0.7 * taken


def test_other_threads_of_a_process_make_tasks_no_smaller(monkeypatch):
    monkeypatch.setattr(time, "process_time", lambda: 16.0 * time.perf_counter())
    told, taken = measured()
    assert 0.0 < told <= taken


def test_workers_know_a_problem_again_in_the_next_batch():
    problem, executor, rng = pendulum.swing_up(horizon=20), Recorded(), np.random.default_rng(0)
    for _ in range(2):
        X0 = problem.x0 + 0.1 * rng.normal(size=(80, 2))
        ddp.solve_many(problem, {"x0": X0}, executor=executor, start="neighbours", keep=("U",))
    assert len(executor.digests) == 1


def test_tasks_are_filled_with_the_largest_blocks_that_fit(monkeypatch):
    problem, most, executor = pendulum.swing_up(horizon=20), 90, Recorded()
    monkeypatch.setattr(driver, "HEAVIEST", most * policy_type(problem, 2).itemsize)
    X0 = problem.x0 + 0.1 * np.random.default_rng(0).normal(size=(1500, 2))
    ddp.solve_many(problem, {"x0": X0}, executor=executor, start="neighbours", verify=False, keep=("U",))
    full = [size for size in executor.sizes if size > most // 2]
    assert max(full) <= most
    assert np.mean(full) > 0.9 * most


def test_scouts_that_take_long_make_later_tasks_no_smaller():
    problem, executor = pendulum.swing_up(horizon=20), Recorded()
    X0 = problem.x0 + 0.1 * np.random.default_rng(0).normal(size=(1500, 2))
    ddp.solve_many(problem, {"x0": X0}, executor=executor, start="neighbours", keep=("U",))
    assert max(executor.sizes) > 150


class Late(Recorded):
    """An executor of two workers whose tasks take time and end in turn; keeps whether each was of scouts."""

    def __init__(self):
        super().__init__()
        self.verified = []

    def submit(self, function, digest, pickled, task, outlet=None):
        self.verified.append(task.verified)
        found = super().submit(function, digest, pickled, task, outlet).result()
        future = Future()
        future.later = found._replace(seconds=1e-3 * len(found.rows))
        return future

    @staticmethod
    def wait(flying, return_when):
        first = next(iter(flying))
        first.set_result(first.later)
        return {first}, set()


def test_scouts_are_shared_by_all_workers_to_their_end(monkeypatch):
    problem, executor = pendulum.swing_up(horizon=20), Late()
    monkeypatch.setattr(driver, "wait", executor.wait)
    monkeypatch.setattr(driver, "cores", lambda: 2)
    X0 = problem.x0 + 0.1 * np.random.default_rng(0).normal(size=(1000, 2))
    ddp.solve_many(problem, {"x0": X0}, executor=executor, start="neighbours", keep=("U",))
    scouts = [size for size, verified in zip(executor.sizes, executor.verified, strict=True) if verified]
    left = np.cumsum(scouts[::-1])[::-1]
    assert left[0] < 100
    assert all(size <= max(WIDTH, rest // 2) for size, rest in zip(scouts, left, strict=True))


class Sends(Recorded):
    """An executor that keeps how many bytes each task sends back."""

    def __init__(self):
        super().__init__()
        self.sent = []

    def submit(self, *task):
        future = super().submit(*task)
        self.sent.append(len(pickle.dumps(future.result())))
        return future


def test_all_on_the_way_to_a_policy_that_is_lost_are_solved_again():
    blocks = [Block(np.array([i]), np.array([i - 1 if i else NONE]), anchors=i < 4) for i in range(5)]
    for known, again in (([], [0, 1, 2, 3, 4]), ([1], [2, 3, 4]), ([0, 3], [4]), ([0], [1, 2, 3, 4])):
        results = SimpleNamespace(done=np.arange(5) < 4, policies=dict.fromkeys(known))
        driver.Driver(None, {}, np.zeros(0), results, None, 0, None)._take_back(blocks)
        assert np.flatnonzero(~results.done).tolist() == again


def test_processes_that_are_still_importing_are_not_waited_for(monkeypatch):
    monkeypatch.setattr(executors, "settle_in", deaf)
    pool = executors.Pool(2)
    pool.submit(time.sleep, 0.0)
    begin = time.perf_counter()
    pool.close()
    assert time.perf_counter() - begin < 20.0


def test_workers_send_little_so_that_none_is_killed_amid_it():
    """A pipe takes 64 kB at once. One policy of a hundred knots is 5 kB."""
    problem, executor = pendulum.swing_up(), Sends()
    over = {"x0": problem.x0 + np.random.default_rng(0).normal(0.0, 0.2, (300, 2))}
    many = ddp.solve_many(problem, over, executor=executor, start="neighbours")
    assert max(executor.sent) < 20_000
    assert np.array_equal(many.U, ddp.solve_many(problem, over, executor=1, start="neighbours").U)
