"""A problem's own parameters, as the command line takes them: ``--speed 0.4`` for ``build(speed=0.4)``.

The fields of a parameter that is a record are parameters of their own: ``--weights-torque 2``.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ddp.errors import ProblemError, nearest, said
from ddp.problem import Problem
from problems.registry import Entry

HOW = 'several numbers have commas between them, rows of a matrix semicolons: "1,0,0,0.4;0,1,0,0.2;0,0,1,0.5;0,0,0,1"'
"""Notation of arrays; that example is a pose without rotation at x = 0.4, y = 0.2, z = 0.5 m."""

WHOLE = "a whole number"


def parameters(entry: Entry) -> dict[str, Any]:
    """Each parameter of a problem's constructor and its default; of records, each field."""
    found: dict[str, Any] = {}
    for name, default in _given(entry).items():
        if is_dataclass(default) and not isinstance(default, type):
            found |= {f"{name}_{field.name}": getattr(default, field.name) for field in fields(default)}
        else:
            found[name] = default
    return found


def build(entry: Entry, chosen: Mapping[str, Any]) -> Problem:
    """The problem with some of its `parameters` chosen."""
    arguments = dict(chosen)
    for name, default in _given(entry).items():
        if is_dataclass(default) and not isinstance(default, type):
            own = {field.name: f"{name}_{field.name}" for field in fields(default)}
            changes = {field: arguments.pop(option) for field, option in own.items() if option in arguments}
            if changes:
                arguments[name] = replace(default, **changes)
    try:
        return entry.build(**arguments)
    except ProblemError as reason:
        name, _, wrong = str(reason).partition(": ")
        if name not in arguments or not wrong.startswith("expected shape"):
            raise
        raise ProblemError(f"--{name.replace('_', '-')}: {wrong}; {HOW}") from None


def _given(entry: Entry) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(entry.build).parameters.items()}


def parse(
    entry: Entry, arguments: Sequence[str], others: Sequence[str] = (),
    elsewhere: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The parameters that ``--name value`` or ``--name=value`` mean; ``1,2`` is a vector, ``1,2;3,4`` a matrix.

    others: what else could have been meant by a misspelt option.   elsewhere: names of commands, by option.

    Raises ProblemError, naming the option, for a parameter that the problem lacks and for a value of another kind.
    """
    known = parameters(entry)
    signature = inspect.signature(entry.build).parameters
    arrays = {name for name, parameter in signature.items() if "ArrayLike" in str(parameter.annotation)}
    chosen: dict[str, Any] = {}
    waiting = list(arguments)
    while waiting:
        option, equals, value = waiting.pop(0).partition("=")
        if not option.startswith("--"):
            raise ProblemError(f"arguments: expected --name value after {entry.name}, got {said(option)}")
        name = option[2:].replace("-", "_")
        if name not in known:
            options = [f"--{other.replace('_', '-')}" for other in known] + list(others)
            has = ", ".join(f"`mayne {command}`" for command in (elsewhere or {}).get(option, ()))
            hint = f"it is an option of {has}" if has else nearest(option, options)
            raise ProblemError(f"{option}: {entry.name} has no such parameter; {hint}")
        if not equals:
            if not waiting:
                raise ProblemError(f"{option}: expected a value after it")
            value = waiting.pop(0)
        what = f"{WHOLE} of steps of --dt seconds" if name == "horizon" and "dt" in known else WHOLE
        chosen[name] = _converted(option, value, known[name], name in arrays, what)
    return chosen


def _converted(option: str, text: str, default: Any, is_array: bool, whole: str = WHOLE) -> Any:
    """A text as a value of the default's kind; without one, numbers where it can be read as numbers.

    whole: what a whole number is, for errors.
    """
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ProblemError(f"{option}: expected true or false, got {said(text)}")
        return text.lower() == "true"
    kind = int if isinstance(default, int) else float
    try:
        rows = [tuple(kind(part) for part in row.split(",")) for row in text.split(";")]
    except ValueError:
        if default is None and not is_array:
            return text
        several = "one number" if isinstance(default, float) else "numbers with commas between them"
        plain = whole if kind is int else several
        what = f"numbers ({HOW})" if is_array else plain
        raise ProblemError(f"{option}: expected {what}, got {said(text)}") from None
    if len({len(row) for row in rows}) > 1:
        raise ProblemError(f"{option}: expected rows of one length, got {said(text)}")
    if isinstance(default, (int, float)) and (len(rows), len(rows[0])) != (1, 1):
        raise ProblemError(f"{option}: expected one number, got {said(text)}")
    if len(rows) > 1:
        return tuple(rows)
    return rows[0][0] if len(rows[0]) == 1 else rows[0]
