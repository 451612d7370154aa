"""The order in which a pipeline's stages run, and what it does when one of them fails."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import RLock, Thread, get_ident

import numpy as np
import pytest
from systems import pendulum

import ddp
from ddp.parallel import pipeline
from ddp.parallel.pipeline import Pipeline


def blocks(count: int) -> list[tuple[int, int]]:
    return [(8 * i, 8 * i + 8) for i in reversed(range(count))]


def note(name, log, pauses, start: int, stop: int) -> None:
    assert stop == start + 8
    time.sleep(next(pauses))
    log.append((name, start, get_ident()))


def test_each_stage_of_a_block_follows_the_one_before():
    rng = np.random.default_rng(0)
    for trial in range(20):
        count, threads = int(rng.integers(1, 12)), int(rng.integers(1, 4))
        pauses = iter(rng.uniform(0.0, 1e-3, 4 * count))
        log: list[tuple[str, int, int]] = []

        def stage(name, log=log, pauses=pauses):
            return partial(note, name, log, pauses)

        weigh = stage("weigh") if trial % 2 else None
        with ThreadPoolExecutor(threads) as pool:
            pipeline = Pipeline(blocks(count), stage("derive"), stage("contract"))
            pipeline.run(pool, threads, weigh, stage("sweep"))
        assert sorted(log) == sorted(set(log))
        when = {(name, start): at for at, (name, start, _) in enumerate(log)}
        order = ["derive", "weigh", "contract", "sweep"] if weigh else ["derive", "sweep"]
        assert len(when) == len(order) * count
        for start, _ in blocks(count):
            assert sorted(order, key=lambda name: when[name, start]) == order
        for name in ("weigh", "sweep"):
            mine = [(start, thread) for stage_name, start, thread in log if stage_name == name]
            assert mine == [(start, get_ident()) for start, _ in blocks(count if name in order else 0)]


def test_the_failure_of_the_earliest_knots_is_the_one_that_is_raised():
    def derive(start, stop):
        if start in (16, 40):
            raise ValueError(f"knot {start}")

    def contract(start, stop):
        raise ZeroDivisionError

    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            with pytest.raises(ValueError, match="knot 16"):
                Pipeline(blocks(8), derive, contract).run(pool, 2, lambda *_: None, lambda *_: None)
        assert pool.submit(int, "7").result() == 7


def test_a_failure_of_the_sweeping_thread_ends_the_others():
    def sweep(start, stop):
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            Pipeline(blocks(4), lambda *_: time.sleep(1e-3)).run(pool, 1, None, sweep)
        assert pool.submit(int, "7").result() == 7


def test_a_pool_that_takes_no_more_work_is_told_and_nobody_waits():
    class Full(ThreadPoolExecutor):
        def submit(self, *work):
            if self._threads:
                raise RuntimeError("no more threads")
            return super().submit(*work)

    with Full(2) as pool, pytest.raises(RuntimeError, match="no more"):
        Pipeline(blocks(4), lambda *_: None).run(pool, 2, None, lambda *_: None)


def test_whatever_ends_a_thread_ends_the_pass():
    def derive(start, stop):
        raise SystemExit(3)

    with ThreadPoolExecutor(1) as pool, pytest.raises(SystemExit):
        Pipeline(blocks(4), derive).run(pool, 1, None, lambda *_: None)


def test_an_interrupt_between_the_last_sweep_and_the_end_of_a_pass_leaves_no_thread_waiting(monkeypatch):
    swept, outcomes, follow = [], [], Pipeline._follow

    class Interrupted:
        def __init__(self):
            self.lock = RLock()

        def __getattr__(self, name):
            return getattr(self.lock, name)

        def __enter__(self):
            if len(swept) == 1 and swept[0][1] == get_ident():
                swept.append((None, 0))
                raise KeyboardInterrupt
            return self.lock.__enter__()

        def __exit__(self, *failure):
            return self.lock.__exit__(*failure)

    def followed(self, weigh, sweep):
        follow(self, weigh, sweep)
        swept.append((self, get_ident()))

    def solve():
        try:
            ddp.solve(pendulum(), workers="threads:2")
        except KeyboardInterrupt:
            outcomes.append("interrupted")

    monkeypatch.setattr(pipeline, "RLock", Interrupted)
    monkeypatch.setattr(Pipeline, "_follow", followed)
    solving = Thread(target=solve, daemon=True)
    solving.start()
    solving.join(20.0)
    ended = not solving.is_alive()
    swept[0][0].end()  # or nothing here would ever end
    assert ended
    assert outcomes == ["interrupted"]
