"""Digests of functions: equal for equal functions, in any process, wherever their files are.

Each is made of a function's own content (parts.py) and, transitively, of that of all functions and classes that it
names. Functions that lead back to each other have theirs from all of them together.

Extensions that no kernel names, the `overload` of a function or what an operator does for a type, count with their
modules: those that a function's module has imported, with all their functions and their code.
"""

import hashlib
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple

from ddp.compiling import extensions
from ddp.compiling.parts import Content, content_of, content_of_value, look
from ddp.compiling.parts import chosen as chosen
from ddp.compiling.syntax import UnknownError, code_of


class Digest(NamedTuple):
    """The digest of a function, and the modules of all that it names."""

    own: bytes
    modules: frozenset[str]


class _Known(NamedTuple):
    """A digest, and what it holds for.

    reads: what has been looked up, as (a reference to whose variable it is, its name, a reference to the value).
    parts: what it names that has a digest of its own, and that digest.
    lasting: whether none of it can change in place.
    """

    digest: Digest
    reads: tuple[Any, ...]
    parts: tuple[Any, ...]
    lasting: bool


class _Visit:
    """A function or class whose digest is being made; ``low``: the first on the stack that it leads back to."""

    def __init__(self, thing: Any, content: Content, place: int) -> None:
        self.thing, self.content, self.place, self.low = thing, content, place, place
        self.rest = content.parts()


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()
_current: weakref.WeakSet[Any] = weakref.WeakSet()
_digests: dict[int, tuple[Any, bytes | None]] = {}
_depth = 0
_extensions: dict[str, tuple[Any, bytes]] = {}


@contextmanager
def unchanging() -> Iterator[None]:
    """Within the block nothing that functions name changes, so that each is looked at once."""
    global _depth
    if not _depth:
        _current.clear()
        extensions.forget()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _digests.clear()


def digest(thing: Any) -> bytes | None:
    """The digest of a function, a kernel or a type; None if something that it names has none."""
    with unchanging():
        known = _digests.get(id(thing))
        if known is None:
            known = _digests[id(thing)] = thing, _digest(thing)
        return known[1]


def _digest(thing: Any) -> bytes | None:
    try:
        own, modules = _Walk().of(thing)
        total = hashlib.sha256(own)
        for name in sorted(set().union(*map(extensions.reachable, modules))):
            total.update(_extension(name))
        return total.digest()
    except (UnknownError, RecursionError):
        return None


class _Walk:
    """The way from a function through all that it names, by Tarjan's algorithm for what leads back to itself."""

    def __init__(self) -> None:
        self._stack: list[_Visit] = []
        self._open: dict[int, _Visit] = {}

    def of(self, thing: Any) -> Digest:
        """The digest of what is no part of anything."""
        top = content_of_value(thing)
        modules = set(top.modules)
        for part in top.parts():
            if not self._is_known(part):
                self._settle(part)
            modules |= _known[part].digest.modules
        return Digest(top.digest(_own), frozenset(modules))

    # -- functions and classes: what has a digest of its own ------------------------------------------

    def _settle(self, thing: Any) -> None:
        """Make the digests of a function or class and of all that it names."""
        way = [self._enter(thing)]
        while way:
            visit = way[-1]
            for part in visit.rest:
                if id(part) in self._open:
                    visit.low = min(visit.low, self._open[id(part)].place)
                elif not self._is_known(part):
                    way.append(self._enter(part))
                    break
            else:
                way.pop()
                if way:
                    way[-1].low = min(way[-1].low, visit.low)
                if visit.low == visit.place:
                    self._close(self._stack[visit.place :])

    def _enter(self, thing: Any) -> _Visit:
        content = content_of(thing)
        visit = self._open[id(thing)] = _Visit(thing, content, len(self._stack))
        self._stack.append(visit)
        return visit

    def _close(self, those: list[_Visit]) -> None:
        """Make the digests of functions and classes that all lead to each other, wherever one has begun.

        All begin equal, and are told apart by what they name until no more of them differ (the refinement of a
        partition). Equal digests at the end mean that whatever way one follows through both is the same.
        """
        digests, different, before = {id(one.thing): bytes(32) for one in those}, 1, 0

        def of(part: Any) -> bytes:
            return digests[id(part)] if id(part) in digests else _own(part)

        while different > before:
            digests, before = {id(one.thing): one.content.digest(of) for one in those}, different
            different = len(set(digests.values()))
        together = b"".join(sorted(digests.values()))
        digests = {thing: hashlib.sha256(own + together).digest() for thing, own in digests.items()}
        modules = set().union(*(one.content.modules for one in those))
        for part in chain.from_iterable(one.content.parts() for one in those):
            modules |= set() if id(part) in digests else _known[part].digest.modules
        for one in those:
            parts = tuple((weakref.ref(part), of(part)) for part in one.content.parts())
            digest = Digest(digests[id(one.thing)], frozenset(modules))
            _known[one.thing] = _Known(digest, tuple(one.content.reads), parts, one.content.lasting)
            _current.add(one.thing)
            del self._open[id(one.thing)]
        del self._stack[-len(those) :]

    def _is_known(self, thing: Any) -> bool:
        known = _known.get(thing)
        return known is not None and self._is_current(thing, known)

    def _is_current(self, thing: Any, known: _Known) -> bool:
        """Whether nothing has changed that a digest was made of, and it leads to nothing that is on the way."""
        seen: dict[int, Any] = {}
        rest = [(thing, known)]
        while rest:
            one, its = rest.pop()
            if one in _current or id(one) in seen:
                continue
            seen[id(one)] = one
            if not its.lasting or id(one) in self._open:
                return False
            for owner, name, value in its.reads:
                if (of := owner()) is None or look(of, name) is not value():
                    return False
            for part, own in its.parts:
                found = part()
                other = None if found is None else _known.get(found)
                if other is None or other.digest.own != own:
                    return False
                rest.append((found, other))
        _current.update(seen.values())
        return True


def _own(thing: Any) -> bytes:
    return _known[thing].digest.own


def _extension(name: str) -> bytes:
    """The digest of a module that extends numba: its code, and what its functions name."""
    module, known = sys.modules[name], _extensions.get(name)
    if known is not None and known[0] is module:
        return known[1]
    total = hashlib.sha256(code_of(getattr(module, "__file__", None)))
    for key, value in list(vars(module).items()):
        if isinstance(value, (FunctionType, type)) and value.__module__ == name:
            total.update(key.encode())
            with suppress(UnknownError):  # of what is no kernel, and hardly writes instructions; its code counts
                total.update(_Walk().of(value).own)
    _extensions[name] = module, total.digest()
    return total.digest()
