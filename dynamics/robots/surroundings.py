"""Surroundings of robots with rods as people describe them: surfaces that rods press on, and water."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ModelError, as_array, at_least_zero, instance, positive, settle_by, suggesting
from ddp.protocols import Array
from dynamics.geometry.solids import direction
from dynamics.robots.rods import number


@suggesting
@dataclass(frozen=True, eq=False)
class Plane:
    """A plane through a point [m]; rods stay on the side that its normal shows."""

    point: ArrayLike = (0.0, 0.0, 0.0)
    normal: ArrayLike = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        settle_by(self, _point, "point")
        settle_by(self, _unit, "normal")


@suggesting
@dataclass(frozen=True, eq=False)
class Cylinder:
    """A cylinder without ends about an axis through a point [m]; rods stay inside."""

    point: ArrayLike
    axis: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        settle_by(self, _point, "point")
        settle_by(self, _unit, "axis")
        settle_by(self, _positive, "radius")


@suggesting
@dataclass(frozen=True, eq=False)
class ContactSprings:
    """Springs between a surface and rods: spheres as wide as a rod's sections, about its points but the base.

    A sphere δ [m] deep in the surface is pushed out by ``stiffness`` δ^``exponent`` [N], without friction.
    exponent: 1, 1.5 (of Hertz), 2, 2.5 or 3.
    smoothing ε [m]: δ is (δ + √(δ² + ε²))/2 instead of max(δ, 0), so that the force is smooth: with an exponent of
    1.5 or less its second derivative is not bounded at touch-down otherwise. For optimisation; zero for simulation.
    """

    surface: Plane | Cylinder
    stiffness: float
    exponent: float = 1.5
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        instance("surface", self.surface, (Plane, Cylinder), "a Plane or a Cylinder", ModelError)
        settle_by(self, _positive, "stiffness")
        settle_by(self, number, "exponent")
        settle_by(self, partial(at_least_zero, unit=" m", error=ModelError), "smoothing")
        if self.exponent not in (1.0, 1.5, 2.0, 2.5, 3.0):
            raise ModelError(f"exponent: expected 1, 1.5, 2, 2.5 or 3, got {self.exponent}")

    def row(self) -> Array:
        """Numbers for kernels: point, normal or axis, radius (0 of a plane), stiffness, twice the exponent, ε."""
        if isinstance(self.surface, Plane):
            along, radius = self.surface.normal, 0.0
        else:
            along, radius = self.surface.axis, self.surface.radius
        return np.array([
            *np.asarray(self.surface.point), *np.asarray(along), radius, self.stiffness, 2.0 * self.exponent,
            self.smoothing,
        ])  # fmt: skip


@suggesting
@dataclass(frozen=True, eq=False)
class Water:
    """Still water about all rods of a robot.

    density ρ [kg/m³]: rods weigh less by the water that they displace.
    drag (3,): coefficients C_x, C_y, C_z along the rod and across it. With widths a, b of a section along y and z and
    the velocity u of its centre in its axes, drag per length is ρ/2 |u| (π (a + b)/4 C_x u_x, b C_y u_y, a C_z u_z)
    [N/m], |u| being √(u² + ε²) with ε = 1e-6 m/s, since |u| has no second derivative at rest.
    added (3,): mass of water that a section carries with it along its axes, as parts of the mass that it displaces.

    Bodies that are no rods float in it without weight and without drag: they are as dense as the water.
    """

    density: float = 1000.0
    drag: ArrayLike = (0.01, 1.1, 1.1)
    added: ArrayLike = (0.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        settle_by(self, _positive, "density")
        settle_by(self, _point, "drag", "added")
        for name, values in ("drag", np.asarray(self.drag)), ("added", np.asarray(self.added)):
            if values.min() < 0.0:
                raise ModelError(f"{name}: expected coefficients of at least 0, got {values}")


_positive, _unit = partial(positive, error=ModelError), partial(direction, error=ModelError)


def _point(field: str, value: ArrayLike) -> Array:
    return as_array(field, value, (3,), ModelError).copy()
