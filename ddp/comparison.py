"""A derivative beside differences of its function, entry by entry: which are wrong, and which cannot be judged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ddp import differences
from ddp.problem import Problem
from ddp.protocols import Array

FIRST_TOLERANCE = 1e-6
"""First derivatives: differences are good to 1e-9 or so; a wrong formula is rarely off by less than 1e-3."""

SECOND_TOLERANCE = 3e-6
"""Second derivatives: differences are good to 1e-8 or so."""

CLOSER = 1.0 / 20.0, 1.0 / 400.0
"""Steps this much smaller are tried where an entry seems wrong, as far as rounding lets them."""

FINER = 0.5, 0.25
"""Steps this much shorter tell whether an error is the differences' own: it shrinks by 16 from each to the next."""

LONGER = 4.0, 8.0
"""Steps this much longer are tried where rounding hides a tenth of the tolerance; two, to know what they miss."""

DEVIATIONS = 30.0
"""Standard deviations of rounding that an entry may be off by: there are thousands of entries."""

PROBES = 3
"""Directions along which rounding is measured."""


@dataclass(frozen=True)
class DerivativeCheck:
    """One derivative at one knot: the largest error relative to the largest entry, and the entry where it is.

    name: what was checked.  entry: its index.  given: its value as the solver gets it.  numerical: as
        differences say.
    smooth: whether differences can judge; not at a kink or a cut, such as a joint's limit or half a turn, where
        the two sides differ, or where smaller steps tell another story, nor where the function is not finite.
    """

    name: str
    knot: int
    error: float
    tolerance: float
    entry: tuple[int, ...]
    given: float
    numerical: float
    smooth: bool = True

    @property
    def ok(self) -> bool:
        """Whether it is not known to be wrong."""
        return self.error <= self.tolerance or not self.smooth

    def __str__(self) -> str:
        if self.error <= self.tolerance:
            return f"ok     {self.name}: relative error {self.error:.1e} at knot {self.knot}"
        if not self.smooth:
            kind = "smooth" if np.isfinite(self.numerical) else "finite"
            return f"?      {self.name}: not {kind} here, at knot {self.knot}, entry {list(self.entry)}"
        return (
            f"WRONG  {self.name}: relative error {self.error:.1e} at knot {self.knot}, "
            f"entry {list(self.entry)} is {self.given:.6g}, differences say {self.numerical:.6g}"
        )


@dataclass(frozen=True)
class Differences:
    """Differences of a batched function about one knot, in exponential coordinates.

    size: the magnitude that its values have at least, whose rounding the differences divide by h or h².
    """

    problem: Problem
    function: Callable[[Array, Array], Array]
    x: Array
    u: Array
    size: float

    def check_first(self, name: str, knot: int, given: Array, columns: slice) -> DerivativeCheck:
        """Compare some columns of the first derivative (..., nz)."""

        def look(closeness: float) -> _Look:
            h = self._steps(differences.FIRST * closeness)
            values = self._values(np.diag(h))
            found, gap = differences.first_difference(values), differences.one_sided_gaps(values)[0]
            found, gap = (np.moveaxis(array, 0, -1)[..., columns] / h[columns] for array in (found, gap))
            return _Look(found, gap, self._noise(found.shape[:-1], values)[..., None] / h[columns])

        return _compared(name, knot, given, look, FIRST_TOLERANCE)

    def check_second(self, name: str, knot: int, given: Array) -> DerivativeCheck:
        """Compare the first rows and columns of the Hessian (nz, nz) of a function of one value."""

        def look(closeness: float) -> _Look:
            h, own = self._steps(differences.SECOND * closeness), slice(0, len(given))
            values = self._values(differences.coordinate_pairs(len(h)) * h)
            found = differences.polarised(differences.second_difference(values), h)
            gap = differences.polarised(differences.one_sided_gaps(values)[1], h, 1.0)
            return _Look(found[own, own], gap[own, own], 4.0 * self._noise((), values) / np.outer(h, h)[own, own])

        return _compared(name, knot, given, look, SECOND_TOLERANCE)

    def _steps(self, h: float) -> Array:
        return np.concatenate([np.full(self.problem.dynamics.n, h), differences.steps(self.u, h)])

    def _values(self, directions: Array) -> Array:
        return self._at(differences.displacements(directions))

    def _at(self, Z: Array) -> Array:
        n = self.problem.dynamics.n
        X = self.problem.dynamics.integrate(np.tile(self.x, (len(Z), 1)), np.ascontiguousarray(Z[:, :n]))
        return self.function(X, self.u + Z[:, n:])

    def _noise(self, shape: tuple[int, ...], values: Array) -> Array:
        """Bound of the rounding of each value, of this shape: as measured nearby, but no less than expected."""
        expected = 100.0 * float(np.finfo(float).eps) * max(self.size, _size(values))
        return np.maximum(expected, DEVIATIONS * self._measured.reshape(shape))

    @cached_property
    def _measured(self) -> Array:
        """The largest standard deviation of rounding along some directions."""
        steps = self._steps(1.0)
        directions = np.cos(np.outer(1.0 + np.arange(PROBES), 1.0 + np.arange(len(steps))))
        nearby = [self._at(differences.NEARBY[:, None] * direction * steps) for direction in directions]
        return np.nan_to_num(np.max([differences.noise(np.asarray(values)) for values in nearby], axis=0))


class _Look(NamedTuple):
    """A derivative by differences, how far its two sides are apart, and what rounding hides of both."""

    numerical: Array
    gap: Array
    noise: Array


def _compared(name: str, knot: int, given: Array, look: Callable[[float], _Look], tolerance: float) -> DerivativeCheck:
    """The largest error of all entries that can be judged, if it is too large; else the largest of all."""
    far = _quietest(look, given, tolerance)
    errors = _errors(given, far, tolerance)
    smooth = np.full(errors.shape, True)
    if (errors > tolerance).any():
        finer = [look(factor) for factor in FINER]
        refined, fine = _refined(finer, given, far, tolerance)
        refined &= errors > tolerance
        missed = _missed(given, [far, *finer])
        far = far._replace(numerical=np.where(refined, fine.numerical, far.numerical))
        errors = np.where(refined, _errors(given, fine, tolerance), errors)
        smooth = errors <= tolerance
        before, steady = np.abs(given - far.numerical), np.full_like(smooth, True)
        apart, judged = np.full_like(smooth, False), np.full_like(smooth, False)
        for closeness in (1.0, *CLOSER):
            # Of a smooth function, a wrong derivative is as wrong seen from closer by, and the two sides come together.
            close = look(closeness)
            seen, after = close.noise < 0.25 * before, np.abs(given - close.numerical)
            alike = (after < 2.0 * before + close.noise) & (~seen | ((after > 0.5 * before) & (after < 2.0 * before)))
            steady &= alike | (refined & (closeness == 1.0))
            apart |= seen & (closeness < 1.0) & (close.gap > 0.3 * far.gap) & (close.gap > 0.1 * after + close.noise)
            judged |= seen & (closeness < 1.0)
        kinked = (~smooth & judged & ~(steady & ~apart)).any()
        # Beside entries that are not smooth, others with two sides apart may be hidden by what looks like rounding.
        steady &= judged | ~kinked | (far.gap < 0.5 * before)
        smooth |= (steady & ~apart & ~missed) | ~np.isfinite(errors)
        smooth &= np.isfinite(far.numerical)
    wrong = np.where(smooth, errors, 0.0)
    worst = wrong if (wrong > tolerance).any() else errors
    entry = tuple(int(i) for i in np.unravel_index(int(np.argmax(worst)), errors.shape))
    numbers = float(errors[entry]), tolerance, entry, float(given[entry]), float(far.numerical[entry])
    return DerivativeCheck(name, knot, *numbers, bool(smooth[entry]))


def _quietest(look: Callable[[float], _Look], given: Array, tolerance: float) -> _Look:
    """Differences whose steps are as long as rounding asks for, entry by entry."""
    near = look(1.0)
    if not (near.noise > 0.1 * tolerance * _largest(given, near)).any():
        return near
    longer, longest = (look(factor) for factor in LONGER)
    noise = longer.noise + np.abs(longest.numerical - longer.numerical) / 8.0  # half of what theory says it misses
    better = noise < near.noise
    return _Look(*(np.where(better, *pair) for pair in zip((*longer[:2], noise), near, strict=True)))


def _missed(given: Array, looks: Sequence[_Look]) -> Any:
    """Which entries are no farther from differences than halving the steps of these may still take them."""
    moved = [2.0 * np.abs(a.numerical - b.numerical) + b.noise for a, b in pairwise(looks)]
    return np.all([np.abs(given - a.numerical) <= far for a, far in zip(looks, moved, strict=False)], axis=0)


def _refined(finer: Sequence[_Look], given: Array, far: _Look, tolerance: float) -> tuple[Any, _Look]:
    """Which entries shorter steps judge better, where these converge and rounding hides little; what they show."""
    half, quarter = finer
    quiet = 0.1 * tolerance * _largest(given, far)
    fine = _Look(*(np.where(quarter.noise <= quiet, *pair) for pair in zip(quarter, half, strict=True)))
    moved, left = np.abs(far.numerical - half.numerical), np.abs(half.numerical - quarter.numerical)
    return (fine.noise <= quiet) & (left <= moved / 8.0 + half.noise + quarter.noise), fine


def _errors(given: Array, look: _Look, tolerance: float) -> Array:
    """Errors relative to the largest entry or, where all are tiny, to what rounding hides."""
    scale, apart = _largest(given, look) + look.noise / tolerance, np.abs(given - look.numerical)
    return np.nan_to_num(np.divide(apart, scale, out=apart.copy(), where=scale != 0.0), nan=np.inf)


def _largest(given: Array, look: _Look) -> float:
    """The size of the largest entry, as it is given or by differences."""
    return max(_size(look.numerical), _size(given))


def _size(values: Array) -> float:
    """The largest magnitude of all that are finite."""
    return float(np.abs(values).max(where=np.isfinite(values), initial=0.0))
