"""Hostile values: those that fit nowhere, and valid ones of an odd form, which must change nothing."""

import decimal
import fractions
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Hostile(NamedTuple):
    """A value, made from the valid one in whose place it goes.

    same: whether results must be those of the valid one.
    """

    name: str
    make: Callable[[Any], Any]
    same: bool = False


class Endless:
    """An object of an endless representation."""

    def __repr__(self):
        return "endless " * 20_000


class Refuses:
    """An object that refuses whatever it is asked."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")

    def __len__(self):
        raise RuntimeError("no length")

    def __float__(self):
        raise RuntimeError("no number")

    def __iter__(self):
        raise RuntimeError("no items")


def _recursive():
    values = []
    values.append(values)
    return values


def _deep():
    values = 1.0
    for _ in range(5000):
        values = [values]
    return values


ANYTHING = [
    Hostile(name, lambda _, make=make: make())
    for name, make in {
        "None": lambda: None, "NaN": lambda: np.nan, "inf": lambda: np.inf, "-inf": lambda: -np.inf, "-1": lambda: -1,
        "0": lambda: 0, "1": lambda: 1, "-1e-300": lambda: -1e-300, "1e-300": lambda: 1e-300, "1e300": lambda: 1e300,
        "0.5": lambda: 0.5, "10**8": lambda: 10**8, "2**63": lambda: 2**63, "10**400": lambda: 10**400,
        "True": lambda: True, "False": lambda: False, "1j": lambda: 1j, "Ellipsis": lambda: ...,
        "''": lambda: "", "'text'": lambda: "text", "'ur5'": lambda: "ur5", "NUL": lambda: "a\0b",
        "formula": lambda: "$\\foo$",
        "surrogate": lambda: "\udc80", "long text": lambda: "x" * 1_000_000, "bytes": lambda: b"ur5",
        "path": lambda: pathlib.Path("/nonexistent/robot.urdf"), "folder": lambda: "/tmp",
        "[]": lambda: [], "()": lambda: (), "{}": lambda: {}, "set": lambda: {1.0, 2.0}, "mapping": lambda: {"a": 1.0},
        "mapping of numbers": lambda: {0: [1.0]}, "[None]": lambda: [None], "['a']": lambda: ["a"],
        "ragged": lambda: [[1.0], [1.0, 2.0]], "of itself": _recursive, "deep": _deep,
        "object": lambda: object(), "class": lambda: int, "function": lambda: (lambda *_: 1.0), "module": lambda: np,
        "endless repr": lambda: Endless(), "refuses": lambda: Refuses(), "generator": lambda: (x for x in (1.0, 2.0)),
        "range": lambda: range(3), "slice": lambda: slice(0, 3), "Decimal": lambda: decimal.Decimal("0.5"),
        "Fraction": lambda: fractions.Fraction(1, 3),
        "0-d": lambda: np.array(1.5), "0-d NaN": lambda: np.array(np.nan), "empty": lambda: np.zeros(0),
        "(0, 0)": lambda: np.zeros((0, 0)), "(1,)": lambda: np.ones(1), "(1, 1, 1, 1)": lambda: np.ones((1, 1, 1, 1)),
        "(3, 3)": lambda: np.ones((3, 3)), "(1000,)": lambda: np.linspace(0.0, 1.0, 1000),
        "text array": lambda: np.array(["a", "b"]), "object array": lambda: np.array([None, 1.0]),
        "dates": lambda: np.array(["2020-01-01"], "datetime64[D]"), "record": lambda: np.zeros(2, [("a", float)]),
        "NaN array": lambda: np.full(6, np.nan), "uint64": lambda: np.array([2**64 - 1], np.uint64),
    }.items()
]  # fmt: skip

OF_ARRAYS = [
    Hostile("with NaN", lambda a: _changed(a, np.nan)),
    Hostile("with inf", lambda a: _changed(a, np.inf)),
    Hostile("with 1e300", lambda a: _changed(a, 1e300)),
    Hostile("zeros", lambda a: np.zeros_like(a)),
    Hostile("negative", lambda a: -a),
    Hostile("complex", lambda a: a + 1j),
    Hostile("texts", lambda a: a.astype(str)),
    Hostile("one more", lambda a: np.concatenate([a, a[-1:]])),
    Hostile("one less", lambda a: a[:-1]),
    Hostile("an axis more", lambda a: a[None]),
    Hostile("an axis behind", lambda a: a[..., None]),
    Hostile("none of them", lambda a: a[:0]),
    Hostile("transposed", lambda a: a.T if a.ndim > 1 else a[None].T),
    Hostile("masked", lambda a: np.ma.masked_array(a, mask=np.ones(a.shape, bool))),
    Hostile("halves", lambda a: a.astype(np.float16)),
    Hostile("truths", lambda a: a != 0.0),
    Hostile("read-only", lambda a: _locked(a.copy()), True),
    Hostile("strided", lambda a: np.repeat(a, 2, axis=-1)[..., ::2], True),
    Hostile("backwards", lambda a: a[..., ::-1].copy()[..., ::-1], True),
    Hostile("Fortran's order", lambda a: np.asfortranarray(a), True),
    Hostile("other endian", lambda a: a.astype(">f8"), True),
    Hostile("misaligned", lambda a: _misaligned(a), True),
    Hostile("a list", lambda a: a.tolist(), True),
    Hostile("a tuple", lambda a: tuple(a.tolist()), True),
    Hostile("objects", lambda a: a.astype(object)),
    Hostile("long doubles", lambda a: a.astype(np.longdouble), True),
]


def _changed(a, value):
    a = np.array(a, float)
    a.flat[-1] = value
    return a


def _locked(a):
    a.flags.writeable = False
    return a


def _misaligned(a):
    room = np.zeros(a.size * 8 + 1, np.uint8)[1:].view(np.float64).reshape(a.shape)
    room[:] = a
    return room


OF_LISTS = [
    Hostile("one in place of several", lambda a: a[0]),
    Hostile("with None", lambda a: [*a, None]),
    Hostile("twice", lambda a: [*a, *a]),
    Hostile("in a list", lambda a: [a]),
    Hostile("as a generator", lambda a: (item for item in a)),
]


class Word(str):
    """Words that are typed on a command line."""


OF_WORDS = [
    Hostile(repr(word)[:20], lambda _, word=word: word)
    for word in (
        "", " ", "x", "nan", "inf", "-inf", "-1", "0", "0.5", "1e400", "1e8", "9" * 400, "1j", "1,2", "[1]", "None",
        "--", "--x", "-", "/tmp", "/nonexistent/x.png", "/dev/full", "/dev/null/x.html", "\udc80", "\u2028",
        "x" * 300, "$(x)", "%s", "{0}", "a=b", "true", "auto", "threads:0", "processes:x", "../x.npz",
    )
]  # fmt: skip


def values_for(valid):
    """All that is tried in place of a valid value."""
    if isinstance(valid, Word):
        return OF_WORDS
    if isinstance(valid, np.ndarray) and valid.dtype == float and valid.ndim > 0 and valid.size > 0:
        return [*ANYTHING, *OF_ARRAYS]
    if isinstance(valid, (list, tuple)) and valid:
        return [*ANYTHING, *OF_LISTS]
    return ANYTHING
