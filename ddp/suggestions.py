"""Suggestions in errors: the names nearest to unknown ones, and the class that a keyword is an option of.

Of functions and classes by `suggesting`, of objects' attributes by `pointing`.
"""

import dataclasses
import difflib
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

Value = TypeVar("Value")

LONGEST = 100
"""Letters of a name or a value that errors quote, at most."""

OF_PROBLEMS = "control_limits", "constraints", "terminal_constraints"
"""Keywords of Problem that are often given to systems, or to functions that make problems."""

_UNREAD: dict[str, Any] = {"annotation_format": 3} if sys.version_info >= (3, 14) else {}
"""Has `inspect.signature` leave names in annotations that nobody imports: FORWARDREF of ``annotationlib.Format``."""


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known ones, as a sentence fragment."""
    known = list(dict.fromkeys(known))
    if not known:
        return "there are none"
    given = name[:LONGEST] if isinstance(name, str) else ""
    begun = [one for one in known if len(given) > 2 and one.startswith(given)]
    if len(begun) == 1:
        return f"did you mean {begun[0]!r}?"
    matches = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    if matches:  # the best, and those that are nearly as close
        near = difflib.SequenceMatcher(None, matches[0], given).ratio() - 0.25
        matches = difflib.get_close_matches(given, matches, n=3, cutoff=max(near, 0.5))
    elif len(given) > 2:
        matches = [name for name in known if given.casefold() in name.casefold()][:3]
    if matches:
        return f"did you mean {' or '.join(repr(m) for m in matches)}?"
    listed = ", ".join(map(repr, sorted(known)[:12])) + (", ..." if len(known) > 12 else "")
    return f"known are {listed}"


def other_arguments(function: Any, count: int) -> str:
    """Arguments of a function that cannot be called with so many; empty if it can be, or if they are not known."""
    try:
        known = inspect.signature(function)
    except (TypeError, ValueError):  # of what is compiled
        return ""
    try:
        known.bind(*[None] * count)
    except TypeError:
        return str(known)
    return ""


def suggesting(call: Value) -> Value:
    """Decorate a function or a class: errors name the keyword nearest to one that it lacks, and all that it needs.

    So do those of classes that inherit from it.
    """
    own: Any = call.__init__ if isinstance(call, type) else call  # type: ignore[misc]

    @functools.wraps(own)
    def checked(*args: Any, **named: Any) -> Any:
        try:
            return own(*args, **named)
        except TypeError as reason:
            given = {name: p for name, p in inspect.signature(own, **_UNREAD).parameters.items() if name != "self"}
            known = list(given)
            wrong = next((name for name in named if name not in known), "")
            if str(reason).endswith(f"got an unexpected keyword argument {wrong!r}"):  # Python 3.13 has suggestions
                reason.args = (f"{reason}; {_meant(own, wrong, known)}",)
            elif str(reason).startswith(f"{own.__qualname__}() missing"):
                needed = ", ".join(name for name, one in given.items() if one.default is one.empty)
                name = own.__qualname__.removesuffix(".__init__")
                reason.args = (f"{reason}; expected {name}({needed}, ...): see help({name})",)
            raise

    if not isinstance(call, type):
        return cast(Value, checked)
    kind: Any = call
    kind.__init__ = checked
    if kind.__new__ is object.__new__:

        @functools.wraps(own)
        def made(cls: Any, *_: Any, **__: Any) -> Any:
            if not hasattr(cls.__init__, "__wrapped__"):  # a dataclass that inherits has made its own
                suggesting(cls)
            return object.__new__(cls)

        kind.__new__ = staticmethod(made)
    return call


def pointing(**words: str) -> Callable[[type[Value]], type[Value]]:
    """Decorate a class: errors for attributes that it lacks name the one that is meant, or the nearest ones.

    words: what an attribute is often called elsewhere, by its name, ``X="states trajectory"``.
    """
    meant = {word: name for name, several in words.items() for word in several.split()}

    def missing(self: Any, name: str) -> Any:
        if not name.startswith("_") and hasattr(type(self), name):  # a property that has raised AttributeError
            return object.__getattribute__(self, name)
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name.startswith("_"):  # as of copies and pickles, which ask for many
            raise AttributeError(text)
        own = meant.get(name)
        known = (one for one in dir(self) if not one.startswith("_"))
        hint = f"{own} is what is often called so" if own else nearest(name, known)
        raise AttributeError(f"{text}; {hint}")

    def decorated(kind: type[Value]) -> type[Value]:
        kind.__getattr__ = missing  # type: ignore[attr-defined]
        return kind

    return decorated


def _meant(call: Any, wrong: str, known: Sequence[str]) -> str:
    """A hint for a keyword that a function lacks: options of its arguments' classes, or the nearest keyword."""
    options: dict[str, list[str]] = {}
    for argument, kind in _classes(call):
        for own in dataclasses.fields(kind):
            if own.init:
                options.setdefault(own.name, []).append(f"{argument}={kind.__name__}({own.name}=...)")
    near = difflib.get_close_matches(wrong[:LONGEST], [*known, *options], n=1, cutoff=0.7)
    option = near[0] if near and near[0] not in known else ""
    if option:
        return f"expected {' or '.join(options[option])}"
    if wrong in OF_PROBLEMS and not near:
        return f"expected Problem({wrong}=...)"
    return nearest(wrong, known)


def _classes(call: Any) -> Iterator[tuple[str, Any]]:
    """Names of a function's arguments that are of data classes, and these."""
    try:
        hints = typing.get_type_hints(call)
    except Exception:  # of names that are imported for type checkers alone, and whatever else users annotate with
        hints = {}
    for argument, hint in hints.items():
        kinds = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
        if argument != "return":
            yield from ((argument, kind) for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind))
