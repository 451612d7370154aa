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
from types import FunctionType, SimpleNamespace
from typing import Any

from ddp.errors import positive_integer
from ddp.machine import coefficients, rotations
from ddp.tracing.scalars import MATH, lifted, select

Numbers = Sequence[Any]

_sin, _cos, _sqrt, _atan2 = (MATH[function] for function in (math.sin, math.cos, math.sqrt, math.atan2))
_nearest = lifted(round, lambda graph, a: graph.unary("rint", a))


def _followed(*kernels: Any) -> SimpleNamespace:
    """Python's functions behind kernels, which call each other, with operations of values for those of registers."""
    names: dict[str, Any] = {
        "__name__": __name__, "square_root": _sqrt, "where_less": lambda a, b, x, y: select(a < b, x, y),
        "sine_cosine": lambda a: (_sin(a), _cos(a)), "all_less": lambda a, b: (a < b) is True,
    }  # fmt: skip
    made = {one.__name__: FunctionType(one.py_func.__code__, names) for one in kernels}
    names.update(made)
    return SimpleNamespace(**made)


_motions = _followed(
    coefficients.stumpff, coefficients.cotangent_ratios, coefficients.eighth_arctangent, rotations.dot3,
    rotations.cross3, rotations.bent, rotations.quaternion_exp, rotations.quaternion_product, rotations.quaternion_log,
    rotations.screw, rotations.log_translation, rotations.arc, rotations.log_arc,
)  # fmt: skip
_cross, _product = _motions.cross3, _motions.quaternion_product


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
        return [*self._placed(x, *_motions.arc(d[2], d)), *self.heading.plus(x[2:], d[2:])]

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """The twist whose arc leads from x to y."""
        (w,) = self.heading.minus(y[2:], x[2:])
        return [*_motions.log_arc(w, self._seen(y, x)), w]

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
        return [*_product(x, _motions.quaternion_exp(d))]

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """The rotation vector from x to y, at most half a turn."""
        return [*_motions.quaternion_log(_between(x, y))[0]]

    def near_minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """To second order, of quaternions of any norm."""
        *r, w = _product(_inverse(x), y)
        return [2.0 * a / w for a in r]

    def bracket(self, a: Numbers, b: Numbers) -> list[Any]:
        return [*_cross(a, b)]


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
        moved, turn = _motions.screw(d[3:], d[:3])
        return [*_placed(x, moved), *_product(x[3:], turn)]

    def minus(self, y: Numbers, x: Numbers) -> list[Any]:
        """The twist whose screw leads from x to y."""
        w, beta = _motions.quaternion_log(_between(x[3:], y[3:]))
        return [*_motions.log_translation(w, beta, _seen(y, x)), *w]

    def near_minus(self, y: Numbers, x: Numbers) -> list[Any]:
        v, w = _seen(y, x), self.attitude.near_minus(y[3:], x[3:])
        return [*(p - 0.5 * q for p, q in zip(v, _cross(w, v), strict=True)), *w]

    def bracket(self, a: Numbers, b: Numbers) -> list[Any]:
        turned = zip(_cross(a[3:], b[:3]), _cross(b[3:], a[:3]), strict=True)
        return [*(p - q for p, q in turned), *_cross(a[3:], b[3:])]


Part = Euclidean | S1 | SO3 | SE2 | SE3 | UnitCircle | UnitPlane
"""A space that states are made of."""


# -- vectors and quaternions -----------------------------------------------------------------------------------------


def _inverse(q: Numbers) -> list[Any]:
    return [-q[0], -q[1], -q[2], q[3]]


def _between(x: Numbers, y: Numbers) -> list[Any]:
    """The unit quaternion of the turn from x to y, of any norm: steps of a user's own keep theirs almost."""
    q = _product(_inverse(x), y)
    scale = 1.0 / _sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return [scale * a for a in q]


def rotated(q: Numbers, v: Numbers) -> list[Any]:
    """A vector (3,) turned by a unit quaternion."""
    across = _cross(q, v)
    return [a + 2.0 * (q[3] * b + c) for a, b, c in zip(v, across, _cross(q, across), strict=True)]


def _placed(x: Numbers, v: Numbers) -> list[Any]:
    return [a + b for a, b in zip(x[:3], rotated(x[3:], v), strict=True)]


def _seen(y: Numbers, x: Numbers) -> list[Any]:
    return rotated(_inverse(x[3:]), [y[0] - x[0], y[1] - x[1], y[2] - x[2]])


def sine_ratio(t: Any) -> Any:
    """``sin(a) / a`` of the square t of an angle."""
    return _motions.stumpff(t)[1]
