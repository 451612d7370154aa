"""Spaces that states are made of: their ⊕ and ⊖, as formulas of single numbers that can be followed.

Every space has, for lists of floats or of numbers of a graph:

| member | meaning |
|---|---|
| ``nx``, ``n``, ``unit`` | numbers of an element, of a tangent vector; those of an element whose squares sum to one |
| ``neutral()`` | the element that moves nothing |
| ``plus(x, d)``, ``minus(y, x)`` | ``x ⊕ d = x Exp(d)`` and ``y ⊖ x = Log(x⁻¹ y)``, at any distance |
| ``near_minus(y, x)`` | ``y ⊖ x`` to second order in y about x |
| ``bracket(a, b)`` | of tangent vectors, how far their motions are from commuting |

Derivatives of ``y ⊖ x`` at y = x need ``near_minus`` alone, ``X - ½ X²`` of ``x⁻¹ y = 1 + X``, which has neither
angles nor singularities. Those of ``x ⊕ d`` at d = 0 have none as they are: of its quotients series are left there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddp.errors import positive_integer
from ddp.tracing.scalars import MATH, lifted, select

Numbers = Sequence[Any]

_sin, _cos, _sqrt, _atan2 = (MATH[function] for function in (math.sin, math.cos, math.sqrt, math.atan2))
_nearest = lifted(round, lambda graph, a: graph.unary("rint", a))

SMALL, SMALL_TANGENT = 0.25, 0.04
"""Squares of angles, and of tangents, below which series stand for quotients: their next terms are below 1e-17."""


def wrapped(angle: Any) -> Any:
    """An angle, in (-π, π]."""
    return angle - 2.0 * math.pi * _nearest(angle / (2.0 * math.pi))


class _Commuting:
    """A space whose motions commute."""

    n: Any

    def bracket(self, a: Numbers, b: Numbers) -> list[Any]:
        return [0.0] * int(self.n)


@dataclass(frozen=True)
class Euclidean(_Commuting):
    """``size`` plain numbers."""

    size: int
    unit = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", positive_integer("Euclidean", self.size))

    @property
    def nx(self) -> int:
        return self.size

    n = nx

    def neutral(self) -> list[float]:
        return [0.0] * self.size

    def plus(self, x: Numbers, d: Numbers) -> list[Any]:
        return [a + b for a, b in zip(x, d, strict=True)]

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        return [a - b for a, b in zip(y, x, strict=True)]

    near_minus = minus


@dataclass(frozen=True)
class S1(_Commuting):
    """An angle [rad], any number: differences are the short way round, in (-π, π]."""

    nx = n = 1
    unit = None

    def neutral(self) -> list[float]:
        return [0.0]

    def plus(self, x: Numbers, d: Numbers) -> list[Any]:
        return [x[0] + d[0]]

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        return [wrapped(y[0] - x[0])]

    def near_minus(self, y: Numbers, x: Numbers) -> list[Any]:
        return [y[0] - x[0]]


@dataclass(frozen=True)
class UnitCircle(_Commuting):
    """An angle, kept as its cosine and sine, as robots' continuous joints are."""

    nx, n = 2, 1
    unit = slice(0, 2)

    def neutral(self) -> list[float]:
        return [1.0, 0.0]

    def plus(self, x: Numbers, d: Numbers) -> list[Any]:
        return _turned(x, _cos(d[0]), _sin(d[0]))

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        c, s = _turned(y, x[0], -x[1])
        return [_atan2(s, c)]

    def near_minus(self, y: Numbers, x: Numbers) -> list[Any]:
        c, s = _turned(y, x[0], -x[1])
        return [s / c]


def _turned(x: Numbers, c: Any, s: Any) -> list[Any]:
    """(cos, sin) turned by the angle of another cosine and sine."""
    return [x[0] * c - x[1] * s, x[1] * c + x[0] * s]


class _Plane:
    """A body in the plane: position and heading. Tangent vectors are twists (v_x, v_y, ω) in the body's own axes."""

    heading: Any
    n = 3

    @property
    def nx(self) -> int:
        return 2 + int(self.heading.nx)

    def neutral(self) -> list[float]:
        """The origin, looking along x."""
        return [0.0, 0.0, *self.heading.neutral()]

    def plus(self, x: Numbers, d: Numbers) -> list[Any]:
        """Moved along the arc of a twist."""
        t, w = d[2] * d[2], d[2]
        a, b = sine_ratio(t), w * _cosine_ratio(t)
        return [*self._placed(x, a * d[0] - b * d[1], b * d[0] + a * d[1]), *self.heading.plus(x[2:], d[2:])]

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """The twist whose arc leads from x to y."""
        (p, q), (w,) = self._seen(y, x), self.heading.minus(y[2:], x[2:])
        a, b = 1.0 - w * w * _cotangent_ratio(w * w), 0.5 * w
        return [a * p + b * q, a * q - b * p, w]

    def near_minus(self, y: Numbers, x: Numbers) -> list[Any]:
        (p, q), (w,) = self._seen(y, x), self.heading.near_minus(y[2:], x[2:])
        return [p + 0.5 * w * q, q - 0.5 * w * p, w]

    def bracket(self, a: Numbers, b: Numbers) -> list[Any]:
        return [b[2] * a[1] - a[2] * b[1], a[2] * b[0] - b[2] * a[0], 0.0]

    def _placed(self, x: Numbers, p: Any, q: Any) -> list[Any]:
        """A point of the body's axes in the world."""
        c, s = self._axis(x)
        return [x[0] + c * p - s * q, x[1] + s * p + c * q]

    def _seen(self, y: Numbers, x: Numbers) -> tuple[Any, Any]:
        """Place of y in the axes of x."""
        (c, s), p, q = self._axis(x), y[0] - x[0], y[1] - x[1]
        return c * p + s * q, c * q - s * p

    def _axis(self, x: Numbers) -> tuple[Any, Any]:
        return (x[2], x[3]) if self.heading.nx == 2 else (_cos(x[2]), _sin(x[2]))


@dataclass(frozen=True)
class SE2(_Plane):
    """A body in the plane: x, y [m], heading [rad]; tangent vectors are twists (v_x, v_y, ω) in its own axes."""

    heading = S1()
    unit = None


@dataclass(frozen=True)
class UnitPlane(_Plane):
    """A body in the plane: x, y [m], cosine and sine of the heading, as robots' planar joints are."""

    heading = UnitCircle()
    unit = slice(2, 4)


@dataclass(frozen=True)
class SO3:
    """An attitude: a unit quaternion (x, y, z, w); tangent vectors are angular [rad], in the body's own axes."""

    nx, n = 4, 3
    unit = slice(0, 4)

    def neutral(self) -> list[float]:
        return [0.0, 0.0, 0.0, 1.0]

    def plus(self, x: Numbers, d: Numbers) -> list[Any]:
        """Turned about an axis of the body's."""
        t = 0.25 * _dot(d, d)
        s = 0.5 * sine_ratio(t)
        return _product(x, [s * d[0], s * d[1], s * d[2], 1.0 - t * _cosine_ratio(t)])

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """The rotation vector from x to y, at most half a turn."""
        *r, w = _product(_inverse(x), y)
        sign = select(w < 0.0, -1.0, 1.0)
        r, w = [sign * a for a in r], sign * w
        t = _dot(r, r)
        small = t < SMALL_TANGENT * w * w
        T, size = t / select(small, w * w, 1.0), _sqrt(select(small, 1.0, t))
        factor = select(small, 2.0 * _series(T, _ARCTANGENT) / select(small, w, 1.0), 2.0 * _atan2(size, w) / size)
        return [factor * a for a in r]

    def near_minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """To second order, of quaternions of any norm."""
        *r, w = _product(_inverse(x), y)
        return [2.0 * a / w for a in r]

    def bracket(self, a: Numbers, b: Numbers) -> list[Any]:
        return _cross(a, b)


@dataclass(frozen=True)
class SE3:
    """A free body: position [m], unit quaternion (x, y, z, w); tangent vectors are twists (v, ω) in its own axes."""

    nx, n = 7, 6
    unit = slice(3, 7)
    attitude = SO3()

    def neutral(self) -> list[float]:
        return [0.0, 0.0, 0.0, *self.attitude.neutral()]

    def plus(self, x: Numbers, d: Numbers) -> list[Any]:
        """Moved along the screw of a twist."""
        v, w = d[:3], d[3:]
        t, across = _dot(w, w), _cross(w, v)
        b, c = _cosine_ratio(t), _cubic_ratio(t)
        moved = [p + b * q + c * r for p, q, r in zip(v, across, _cross(w, across), strict=True)]
        return [*_placed(x, moved), *self.attitude.plus(x[3:], w)]

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """The twist whose screw leads from x to y."""
        v, w = _seen(y, x), self.attitude.minus(y[3:], x[3:])
        across, c = _cross(w, v), _cotangent_ratio(_dot(w, w))
        return [*(p - 0.5 * q + c * r for p, q, r in zip(v, across, _cross(w, across), strict=True)), *w]

    def near_minus(self, y: Numbers, x: Numbers) -> list[Any]:
        v, w = _seen(y, x), self.attitude.near_minus(y[3:], x[3:])
        return [*(p - 0.5 * q for p, q in zip(v, _cross(w, v), strict=True)), *w]

    def bracket(self, a: Numbers, b: Numbers) -> list[Any]:
        turned = zip(_cross(a[3:], b[:3]), _cross(b[3:], a[:3]), strict=True)
        return [*(p - q for p, q in turned), *_cross(a[3:], b[3:])]


Part = Euclidean | S1 | SO3 | SE2 | SE3 | UnitCircle | UnitPlane
"""A space that states are made of."""


# -- vectors and quaternions -----------------------------------------------------------------------------------------


def _dot(a: Numbers, b: Numbers) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Numbers, b: Numbers) -> list[Any]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _product(a: Numbers, b: Numbers) -> list[Any]:
    return [
        a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
        a[3] * b[1] + a[1] * b[3] + a[2] * b[0] - a[0] * b[2],
        a[3] * b[2] + a[2] * b[3] + a[0] * b[1] - a[1] * b[0],
        a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
    ]


def _inverse(q: Numbers) -> list[Any]:
    return [-q[0], -q[1], -q[2], q[3]]


def rotated(q: Numbers, v: Numbers) -> list[Any]:
    """A vector (3,) turned by a unit quaternion."""
    across = _cross(q, v)
    return [a + 2.0 * (q[3] * b + c) for a, b, c in zip(v, across, _cross(q, across), strict=True)]


def _placed(x: Numbers, v: Numbers) -> list[Any]:
    return [a + b for a, b in zip(x[:3], rotated(x[3:], v), strict=True)]


def _seen(y: Numbers, x: Numbers) -> list[Any]:
    return rotated(_inverse(x[3:]), [y[0] - x[0], y[1] - x[1], y[2] - x[2]])


# -- quotients of angles, of their squares t -------------------------------------------------------------------------

_SINE = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(8)]
_COSINE = [(-1.0) ** k / math.factorial(2 * k + 2) for k in range(8)]
_CUBIC = [(-1.0) ** k / math.factorial(2 * k + 3) for k in range(8)]
_ARCTANGENT = [(-1.0) ** k / (2 * k + 1) for k in range(12)]
_COTANGENT = [1.0 / 12.0, 1.0 / 720.0, 1.0 / 30240.0, 1.0 / 1209600.0, 1.0 / 47900160.0, 691.0 / 1307674368000.0,
              1.0 / 74724249600.0]  # fmt: skip


def _series(t: Any, coefficients: Numbers) -> Any:
    total: Any = 0.0
    for c in reversed(coefficients):
        total = c + t * total
    return total


def _ratio(t: Any, coefficients: Numbers, closed: Any) -> Any:
    """A series where t is small, else ``closed(angle)``."""
    small = t < SMALL
    return select(small, _series(t, coefficients), closed(_sqrt(select(small, 1.0, t))))


def sine_ratio(t: Any) -> Any:
    """``sin(a) / a``."""
    return _ratio(t, _SINE, lambda a: _sin(a) / a)


def _cosine_ratio(t: Any) -> Any:
    """``(1 - cos(a)) / a²``."""
    return _ratio(t, _COSINE, lambda a: 2.0 * (_sin(0.5 * a) / a) ** 2)


def _cubic_ratio(t: Any) -> Any:
    """``(a - sin(a)) / a³``."""
    return _ratio(t, _CUBIC, lambda a: (a - _sin(a)) / a**3)


def _cotangent_ratio(t: Any) -> Any:
    """``(1 - a/2 cot(a/2)) / a²``."""
    return _ratio(t, _COTANGENT, lambda a: (1.0 - 0.5 * a * _cos(0.5 * a) / _sin(0.5 * a)) / (a * a))
