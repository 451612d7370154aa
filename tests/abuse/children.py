"""Work done in forked children, so that the death of one, or its silence, is an outcome like any other."""

import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PATIENCE = 10.0
"""Time of the processor that one input may take [s]; of the clock, which a busy machine stretches, `BUSY` times it."""

BUSY = 12.0

MEMORY = 3 << 30
"""Memory that a child may take beyond what its parent has [bytes]."""

BATCH = 500
"""Number of inputs that a child is given."""


def outcomes(count: int, work: Callable[[int], str], patience: float = PATIENCE) -> Iterator[tuple[int, str]]:
    """``work(i)`` for i < count, each in a child: what it returns, or how the child ended."""
    done = 0
    while done < count:
        for i, outcome in _batch(range(done, min(done + BATCH, count)), work, patience):
            yield i, outcome
            done = i + 1


def _batch(numbers: Sequence[int], work: Callable[[int], str], patience: float) -> Iterator[tuple[int, str]]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _work(theirs, numbers, work, patience)
    os.close(theirs)
    waiting, text, limit = numbers[0], b"", time.monotonic() + BUSY * patience
    try:
        while True:
            ready, _, _ = select.select([ours], [], [], max(0.0, limit - time.monotonic()))
            if not ready:
                os.kill(child, signal.SIGKILL)
                yield waiting, f"hangs for {BUSY * patience:g} s"
                break
            part = os.read(ours, 1 << 16)
            if not part:
                if waiting < numbers[-1] + 1:
                    _, status = os.waitpid(child, 0)
                    child = 0
                    yield waiting, f"dies: {_ending(status)}"
                break
            *lines, text = (text + part).split(b"\n")
            for line in lines:
                waiting, outcome = json.loads(line)
                yield waiting, outcome
                waiting, limit = waiting + 1, time.monotonic() + BUSY * patience
    finally:
        os.close(ours)
        if child:
            os.waitpid(child, 0)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _work(pipe: int, numbers: Sequence[int], work: Callable[[int], str], patience: float) -> None:
    """The child's life, which SIGPROF ends where an input takes too much of the processor."""
    status = 1
    try:
        os.chdir(tempfile.mkdtemp(prefix="mayne-abuse-"))  # where hostile paths lead to
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        if sys.platform == "linux":
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            most = taken + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for i in numbers:
            signal.setitimer(signal.ITIMER_PROF, patience)
            os.write(pipe, json.dumps([i, work(i)]).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)
