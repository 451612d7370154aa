"""The derivatives of a trajectory and the sweep over them at once: threads make blocks, one of them sweeps behind.

The recursion runs from the last knot to the first, so that blocks of knots are wanted in that order:

    derive(block)      everything that no multiplier enters                 any thread
    weigh(block)       the costates, from those after the block             the sweeping thread, last block first
    contract(block)    the second order with these costates                 any thread
    sweep(block)       the Riccati recursion                                the sweeping thread, last block first

What is computed is what a serial sweep computes, call by call and knot by knot: results are the same to the last bit.
The sweeping thread lends a hand wherever it would have to wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition, RLock, get_ident

import numpy as np

Stage = Callable[[int, int], None]
"""Task on the knots start .. stop-1."""


class Pipeline:
    """One pass over ``blocks``, (start, stop) from the last to the first, by this thread and ``count`` others."""

    def __init__(self, blocks: Sequence[tuple[int, int]], derive: Stage, contract: Stage | None = None) -> None:
        self._blocks = blocks
        self._stages = derive, contract
        self._waiting = deque((0, block) for block in range(len(blocks)))
        self._done: tuple[set[int], set[int]] = set(), set()
        self._failures: dict[tuple[int, int], BaseException] = {}
        self._lock = RLock()  # taken by itself: an interrupt within a Condition's own __enter__ would leave it locked
        self._changed = Condition(self._lock)
        self._over = False
        self._sweeping = get_ident()

    def run(self, pool: ThreadPoolExecutor, count: int, weigh: Stage | None, sweep: Stage) -> None:
        """Do it all; without ``weigh`` nothing is contracted. Of several failures raises that of the earliest knots."""
        others: list[Future[None]] = []
        try:
            for _ in range(count):
                others.append(pool.submit(self._serve))
            self._follow(weigh, sweep)
        finally:
            self.end()
            for other in others:
                other.result()
        if self._failures:
            raise self._failures[min(self._failures, key=lambda task: (task[0], -task[1]))]

    def end(self) -> None:
        """Mark the pass as finished and wake all waiting threads."""
        with self._lock:
            self._over = True
            self._waiting.clear()
            self._changed.notify_all()

    def _follow(self, weigh: Stage | None, sweep: Stage) -> None:
        """The part of the sweeping thread: what has an order, and whatever else is there to be done meanwhile."""
        derived, contracted = self._done
        count = len(self._blocks)
        weighed, swept = (count if weigh is None else 0), 0
        ready = derived if weigh is None else contracted
        while swept < count and not self._failures:
            if weigh is not None and weighed in derived:
                weigh(*self._blocks[weighed])
                self._offer(weighed)
                weighed += 1
            elif swept in ready:
                sweep(*self._blocks[swept])
                swept += 1
            elif not self._lend_a_hand():
                with self._lock:
                    while not (self._waiting or weighed in derived or swept in ready or self._failures):
                        self._changed.wait()
        while self._lend_a_hand():
            """After a failure the rest is done all the same: which one is told must not depend on who was quicker."""

    def _serve(self) -> None:
        """Run one task after another until the pass is over, in every other thread."""
        with np.errstate(all="ignore"):  # every thread has its own
            while True:
                with self._lock:
                    while not (self._waiting or self._over):
                        self._changed.wait()
                    if self._over and not self._waiting:
                        return
                self._lend_a_hand()

    def _offer(self, block: int) -> None:
        """A contraction goes before derivatives: the sweep waits for it sooner."""
        with self._lock:
            self._waiting.appendleft((1, block))
            self._changed.notify()

    def _lend_a_hand(self) -> bool:
        """Do the next task, if there is one."""
        try:
            stage, block = self._waiting.popleft()
        except IndexError:
            return False
        try:
            if (work := self._stages[stage]) is not None:
                work(*self._blocks[block])
        except BaseException as failure:  # of whatever kind: the sweeping thread waits for this block
            self._failures[stage, block] = failure
            if get_ident() == self._sweeping and not isinstance(failure, Exception):
                raise
        with self._lock:
            self._done[stage].add(block)
            self._changed.notify_all()
        return True
