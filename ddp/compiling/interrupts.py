"""Keeps Ctrl-C out of what loses it: the compiler, where C calls Python, and zip files that are closed half-way."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Deferred:
    """A handler of SIGINT that notes the signal for the handler whose place it takes."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler
        self._caught: list[tuple[Any, ...]] = []

    def __call__(self, *signalled: Any) -> None:
        self._caught.append(signalled)

    def deliver(self) -> None:
        """Call the other handler if there was a signal; Python's own raises KeyboardInterrupt."""
        if self._caught:
            signalled = self._caught[-1]
            self._caught.clear()
            self.handler(*signalled)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer SIGINT to the end of the block, or to where a block inside of it begins.

    Only the main thread handles signals; a handler that is not Python's is left alone.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if isinstance(before, _Deferred):
        before.deliver()
        yield
    elif callable(before):
        deferred = _Deferred(before)
        try:
            signal.signal(signal.SIGINT, deferred)
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            deferred.deliver()
    else:
        yield


def is_of_interrupt(reason: BaseException | None) -> bool:
    """Whether an exception took the place of a KeyboardInterrupt that was on its way."""
    while reason is not None and not isinstance(reason, KeyboardInterrupt):
        reason = reason.__context__
    return reason is not None
