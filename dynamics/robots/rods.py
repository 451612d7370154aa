"""Elastic rods as people describe them: material, cross section, degrees of strain, tendons."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from ddp.errors import (
    ModelError,
    as_array,
    at_least_zero,
    instance,
    integer,
    positive,
    said,
    settle_by,
    suggesting,
    text,
)
from ddp.protocols import Array

Profile = Callable[[float], float]

STRAIGHT = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Strains [stretch, shear y, shear z; torsion, bending y, bending z] of a straight rod along its x axis."""

MOST_POINTS = 100
"""Gauss-Legendre points of one rod at most."""

_NAMES = ("torsion", "bending_y", "bending_z", "stretch", "shear_y", "shear_z")
_ORDER = (3, 4, 5, 0, 1, 2)
"""Strains in the order of a rod's coordinates: torsion, bending y, bending z, stretch, shear y, shear z."""


@suggesting
@dataclass(frozen=True)
class Material:
    """A linear material: Young's modulus [Pa], Poisson's ratio, density [kg/m³], viscosity ``damping`` [Pa s]."""

    young: float
    poisson: float
    density: float
    damping: float = 0.0

    def __post_init__(self) -> None:
        settle_by(self, number, "poisson")
        settle_by(self, partial(positive, error=ModelError), "young", "density")
        settle_by(self, partial(at_least_zero, unit=" Pa s", error=ModelError), "damping")
        if not -1.0 < self.poisson <= 0.5 + 1e-9:
            raise ModelError(f"poisson: expected a ratio in (-1, 0.5], got {self.poisson}")

    @property
    def shear_modulus(self) -> float:
        """G = E / 2(1 + ν) [Pa]."""
        return self.young / (2.0 * (1.0 + self.poisson))


class Sections(NamedTuple):
    """Cross sections along a rod: area [m²], second moments ∫z², ∫y² and torsion constant [m⁴], half widths [m].

    Each (points,); the y and z axes of a section are its principal ones, through its centroid.
    """

    area: Array
    Jy: Array
    Jz: Array
    torsion: Array
    y: Array
    z: Array


@suggesting
class Circle:
    """Circular sections: a radius at base and tip [m], between which it is linear, or a function of X/L."""

    def __init__(self, radius: float | Profile, tip: float | None = None) -> None:
        self.radius = _profile("radius", radius, tip)

    def along(self, x: Array) -> Sections:
        """Sections at X/L."""
        r = _sampled("radius", self.radius, x)
        area, J = np.pi * r**2, 0.25 * np.pi * r**4
        return Sections(area, J, J, 2.0 * J, r, r)


@suggesting
class Rectangle:
    """Rectangular sections: full widths along y and z [m], numbers or functions of X/L."""

    def __init__(self, y: float | Profile, z: float | Profile) -> None:
        self.y, self.z = _profile("y", y, None), _profile("z", z, None)

    def along(self, x: Array) -> Sections:
        """Sections at X/L; the torsion constant is Saint-Venant's."""
        a, b = _sampled("y", self.y, x), _sampled("z", self.z, x)
        long, short, n = np.maximum(a, b), np.minimum(a, b), np.arange(1, 40, 2)[:, None]
        edge = (np.tanh(0.5 * n * np.pi * long / short) / n**5).sum(axis=0)
        torsion = long * short**3 / 3.0 * (1.0 - 192.0 / np.pi**5 * short / long * edge)
        return Sections(a * b, a * b**3 / 12.0, a**3 * b / 12.0, torsion, 0.5 * a, 0.5 * b)


def _profile(field: str, value: float | Profile, tip: float | None) -> Profile:
    if callable(value):
        if tip is not None:
            raise ModelError(f"{field}: expected one function of X/L or numbers at base and tip, got both")
        return value
    base = positive(field, value, ModelError)
    end = base if tip is None else positive(f"{field} at the tip", tip, ModelError)
    return lambda x: base + (end - base) * x


def _sampled(field: str, profile: Profile, x: Array) -> Array:
    values = as_array(field, [profile(float(one)) for one in x], (len(x),), ModelError)
    if values.min() <= 0.0:
        raise ModelError(f"{field}: expected positive lengths [m] along the rod, got {values.min()}")
    return values


@suggesting
@dataclass(frozen=True)
class Tendon:
    """A cable within a rod, from its base to its tip, which pulls with one tension.

    path: a function of X/L to (y, z) [m], where it runs in the section.
    """

    name: str
    path: Callable[[float], tuple[float, float]]

    def __post_init__(self) -> None:
        text("name", self.name, ModelError)
        if not callable(self.path):
            raise ModelError(f"path: expected a function of X/L to (y, z), got {said(self.path)}")

    def along(self, x: Array) -> tuple[Array, Array]:
        """(y, z) and its derivative by X/L, (points, 2) each; differences of eighth order."""
        steps, weights = np.array([1, 2, 3, 4]), np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
        field, at, slopes = f"path of tendon {self.name!r}", [], []
        for one in x:
            h = min(2e-3, 0.25 * one, 0.25 * (1.0 - one))
            at.append(as_array(f"{field}: (y, z)", np.array(self.path(float(one))), (2,), ModelError))
            pairs = [np.array(self.path(float(one + k * h))) - self.path(float(one - k * h)) for k in steps]
            slopes.append(weights @ np.array(pairs) / h)
        return np.array(at), as_array(f"{field}: slope", slopes, (len(x), 2), ModelError)


@suggesting
class Rod:
    """An elastic rod along its x axis, whose strains are polynomials of the arc length.

    name; length [m]; section: ``Circle`` or ``Rectangle``; material.
    torsion, bending, stretch, shear: degrees of the strains, None leaves a strain out (it stays at rest); bending and
    shear take a pair for y and z. Coordinates are coefficients of Legendre polynomials P_k(2X/L - 1) in this order,
    bending and torsion in 1/m, stretch and shear without unit.
    gauss: number of Gauss-Legendre points, which carry mass and elasticity; with base and tip they are the points of
    the kinematics, too. At least the highest degree and one more.
    rest: the six strains [stretch, shear y, shear z; torsion, bending y, bending z] without load, or a function of X/L.

    points (gauss + 2,): arc lengths [m] of the points, base first; the frames ``name/0``, ``name/1``, ....
    half_widths (gauss + 2,): the larger half width of the section at each point [m].
    """

    def __init__(
        self, name: str, length: float, section: Circle | Rectangle, material: Material,
        torsion: int | None = None, bending: int | tuple[int | None, int | None] | None = None,
        stretch: int | None = None, shear: int | tuple[int | None, int | None] | None = None,
        gauss: int = 5, rest: ArrayLike | Callable[[float], ArrayLike] = STRAIGHT,
    ) -> None:  # fmt: skip
        self.name, self.length = text("name", name, ModelError), positive("length", length, ModelError)
        instance("section", section, (Circle, Rectangle), "a Circle or a Rectangle", ModelError)
        instance("material", material, Material, error=ModelError)
        self.material, self.gauss = material, integer("gauss", gauss, 1, ModelError)
        if self.gauss > MOST_POINTS:
            raise ModelError(f"gauss: expected at most {MOST_POINTS} points, got {said(gauss)}; join several rods")
        self.degrees = (
            _degree("torsion", torsion), *_pair("bending", bending),
            _degree("stretch", stretch), *_pair("shear", shear),
        )  # fmt: skip
        highest = max((d for d in self.degrees if d is not None), default=-1)
        if highest < 0:
            raise ModelError(f"rod {name!r}: expected a degree for at least one strain, got None for all")
        if self.gauss <= highest:
            raise ModelError(
                f"gauss: expected at least {said(highest + 1)} points for strains of degree {said(highest)}, got"
                f" {gauss} (a strain that vanishes at all of them would have neither mass nor stiffness)"
            )
        x, weights = legendre.leggauss(self.gauss)
        inner = 0.5 * (x + 1.0)
        self.points = self.length * np.concatenate([[0.0], inner, [1.0]])
        self.weights = 0.5 * self.length * weights
        self.sections, self.is_round = section.along(inner), isinstance(section, Circle)
        near = section.along(np.concatenate([[1e-6], inner, [1.0 - 1e-6]]))
        self.half_widths = np.maximum(near.y, near.z)
        self.outline = np.array([near.y, near.z])
        self.rest = np.array([_rest(rest, one / self.length) for one in self.sampling_points()])
        self.rest_at_points = np.array([_rest(rest, one) for one in inner])

    @property
    def nv(self) -> int:
        """Number of coordinates."""
        return sum(d + 1 for d in self.degrees if d is not None)

    @property
    def labels(self) -> list[str]:
        """Names of the coordinates (nv,), ``torsion0``, ..., ``bending_y0``, ..., by strains and degrees."""
        named = zip(_NAMES, self.degrees, strict=True)
        return [f"{name}{k}" for name, degree in named for k in range(0 if degree is None else degree + 1)]

    @property
    def strain(self) -> NDArray[np.int64]:
        """Which of the six strains each coordinate is of (nv,)."""
        return np.repeat(_ORDER, [0 if d is None else d + 1 for d in self.degrees])

    @property
    def strains(self) -> list[int]:
        """The strains that are not left out, in ascending order."""
        return sorted(set(self.strain.tolist()))

    def holds(self, tendon: Tendon) -> bool:
        """Whether a tendon runs within the rod's sections."""
        (y, z), sections = np.abs(tendon.along(self.points[1:-1] / self.length)[0]).T, self.sections
        if self.is_round:
            return bool((np.hypot(y, z) <= sections.y * (1.0 + 1e-9)).all())
        return bool(((y <= sections.y * (1.0 + 1e-9)) & (z <= sections.z * (1.0 + 1e-9))).all())

    def sampling_points(self) -> Array:
        """Arc lengths [m] at which segments sample strains: a pair for each."""
        h, half = np.diff(self.points), np.sqrt(3.0) / 6.0
        return (self.points[:-1, None] + np.outer(h, [0.5 - half, 0.5 + half])).ravel()

    def basis(self, at: Array) -> Array:
        """Φ (len(at), nv, 6): strains of unit coordinates at arc lengths [m]."""
        found = np.zeros((len(at), self.nv, 6))
        column = 0
        for strain, degree in zip(_ORDER, self.degrees, strict=True):
            for k in range(0 if degree is None else degree + 1):
                found[:, column, strain] = legendre.legval(2.0 * at / self.length - 1.0, np.eye(k + 1)[k])
                column += 1
        return found

    def levels(self, at: Array) -> Array:
        """Entries of ``basis`` that are not zero, (len(at), nv): each coordinate is of one strain."""
        return self.basis(at)[:, np.arange(self.nv), self.strain]

    def stiffness(self) -> Array:
        """K (nv, nv) = Σ w Φᵀ diag(EA, GA, GA, GJ, E∫z², E∫y²) Φ, forces of elasticity per coordinate."""
        A, Jy, Jz, J, *_ = self.sections
        E, G = self.material.young, self.material.shear_modulus
        return self._summed(np.array([E * A, G * A, G * A, G * J, E * Jy, E * Jz]).T)

    def damping(self) -> Array:
        """D (nv, nv) = υ Σ w Φᵀ diag(3A, A, A, J, 3∫z², 3∫y²) Φ, forces of viscosity per rate of a coordinate."""
        A, Jy, Jz, J, *_ = self.sections
        return self._summed(self.material.damping * np.array([3.0 * A, A, A, J, 3.0 * Jy, 3.0 * Jz]).T)

    def _summed(self, moduli: Array) -> Array:
        Phi = self.basis(self.points[1:-1])
        return np.asarray(np.einsum("k,kis,ks,kjs->ij", self.weights, Phi, moduli, Phi))

    def inertias(self) -> Array:
        """Inertia (points, 10) that each point stands for, in the axes of its section (see geometry/spatial.py)."""
        found = np.zeros((self.gauss + 2, 10))
        A, Jy, Jz, *_ = self.sections
        density = self.material.density * self.weights
        found[1:-1, 0], found[1:-1, 7], found[1:-1, 9] = density * A, density * Jz, density * Jy
        return found

    def random(self, rng: np.random.Generator) -> Array:
        """Random coordinates (nv,), by which the rod turns by up to a radian or so and stretches by a tenth."""
        reach = np.where(self.strain < 3, 0.1, 1.0 / self.length)
        return np.asarray(rng.uniform(-1.0, 1.0, size=self.nv) * reach)

    def __repr__(self) -> str:
        return f"Rod({self.name!r}, length={self.length}, nv={self.nv})"


def number(field: str, value: float) -> float:
    """A finite number; ModelError if it is none."""
    return float(as_array(field, value, (), ModelError))


def _degree(field: str, value: int | None) -> int | None:
    return None if value is None else integer(field, value, 0, ModelError)


def _pair(field: str, value: int | tuple[int | None, int | None] | None) -> tuple[int | None, int | None]:
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ModelError(f"{field}: expected a degree or a pair of them for y and z, got {said(value)}")
        return _degree(field, value[0]), _degree(field, value[1])
    return (_degree(field, value),) * 2


def _rest(rest: ArrayLike | Callable[[float], ArrayLike], x: float) -> Array:
    strains = as_array("rest", rest(float(x)) if callable(rest) else rest, (6,), ModelError)
    if strains[0] <= 0.0:
        raise ModelError(f"rest: expected a positive stretch, which is 1 of an unstretched rod, got {strains[0]}")
    return strains.copy()
