"""Soft and hybrid robots: arms of silicone with cables, a fin-ray finger, a platform on pillars, a swimmer."""

from __future__ import annotations

from functools import partial

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.rods import Circle, Material, Rectangle, Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Cylinder, Water
from dynamics.rods.assembly import Assembly
from dynamics.rods.hybrid_robot import HybridRobot

SILICONE = Material(young=1e6, poisson=0.5, density=1000.0, damping=1e4)
PIPE = Cylinder((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.15)
ARM, FINGER = (0.03, 0.015), (0.015, 0.01)
"""Radii at the base and at the tip [m] of the cable arm, and of the finger of the serial one."""


def hanging() -> pin.SE3:
    """Pose of a base whose rod hangs: along -z of the world."""
    return pin.SE3(np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]), np.zeros(3))


def straight(angle: float, base: float, tip: float, x: float) -> tuple[float, float]:
    """Place at X/L of a cable along a rod, whose distance from the axis goes from ``base`` to ``tip`` [m]."""
    distance = base + (tip - base) * x
    return distance * np.sin(angle), distance * np.cos(angle)


def helix(side: float, x: float) -> tuple[float, float]:
    """Place of a cable that winds around the axis twice, at the tip's radius, to one side or the other."""
    return ARM[1] * np.sin(4.0 * np.pi * x), side * ARM[1] * np.cos(4.0 * np.pi * x)


def along(base: float, tip: float) -> list[Tendon]:
    """Three cables along a rod, at equal angles from its z axis on."""
    angles = -2.0 * np.pi * np.arange(3) / 3
    return [Tendon(f"cable {k}", partial(straight, angle, base, tip)) for k, angle in enumerate(angles, 1)]


def cable_arm(gauss: int = 5) -> HybridRobot:
    """An arm that hangs: half a metre long, its radius 30 mm at the base and 15 mm at the tip; 24 degrees of freedom.

    gauss: number of Gauss-Legendre points.   Controls: tensions [N] of cables 1 to 3 along it, then of the helices.
    """
    return _cable_arm("cable-arm", gauss).robot()


def arm_in_a_pipe() -> HybridRobot:
    """The arm with 12 points, eleven of them centres of spheres that the wall of a pipe pushes by 1e5 N/m^1.5."""
    return _cable_arm("arm-in-a-pipe", gauss=10).contact(ContactSprings(PIPE, 1e5, 1.5)).robot()


def _cable_arm(name: str, gauss: int) -> Assembly:
    """The arm before it is finished."""
    rod = Rod("arm", 0.5, Circle(*ARM), SILICONE, torsion=4, bending=4, stretch=2, shear=2, gauss=gauss)
    helices = [Tendon(f"helix {k}", partial(helix, side)) for k, side in ((1, 1.0), (2, -1.0))]
    return Assembly(name).rod(rod, placement=hanging(), tendons=[*along(*ARM), *helices])


JOINTS = 7
LINK, MASS, RADIUS = 0.2, 1.0, 0.04
"""Length [m], mass [kg] and radius [m] of each link of the serial arm."""


def serial_arm(cables: bool = True) -> HybridRobot:
    """An arm on a ceiling: joints that turn about x and y in turn, links that hang, a soft finger of half a metre.

    27 degrees of freedom.   cables: whether three pull along the finger.
    Controls: their tensions [N], then the torques of the joints [N m].
    """
    build, on, at = Assembly("serial-arm"), "world", pin.SE3.Identity()
    link = pin.Inertia.FromCylinder(MASS, RADIUS, LINK)
    link.lever = np.array([0.0, 0.0, -0.5 * LINK])
    for k in range(JOINTS):
        kind = pin.JointModelRX() if k % 2 == 0 else pin.JointModelRY()
        build.joint(f"joint{k + 1}", kind, on, at, link)
        on, at = f"joint{k + 1}", pin.SE3(np.eye(3), np.array([0.0, 0.0, -LINK]))
    rod = Rod("finger", 0.5, Circle(*FINGER), SILICONE, torsion=4, bending=4, stretch=4, gauss=6)
    return build.rod(rod, on, at * hanging(), tendons=along(*FINGER) if cables else ()).robot()


ABS = Material(young=2e9, poisson=0.35, density=1050.0, damping=1e5)
PIECES, PIECE, HALF_ANGLE = 6, 0.03, np.radians(10.0)
"""Pieces of a wall of the finger, the length of each [m], and how far it leans from the vertical [rad]."""

ACROSS_PLANE = "y rx ry rz"
"""Free of a hinge in the plane of x and z: all that lies across it, and the turn about it."""


def strip(name: str, length: float, width: float) -> Rod:
    """A strip 1 mm thick that bends in the plane: linear bending, constant stretch and shear."""
    section = Rectangle(width, 0.001)
    return Rod(name, length, section, ABS, bending=(1, None), stretch=0, shear=(None, 0), gauss=6)


def fin_ray() -> HybridRobot:
    """A finger: walls of six strips, 25 mm wide, joined at the tip, and five ribs of 10 mm that are hinged to both.

    It bends in a plane; one wall stands on a slider along z. 74 degrees of freedom; six loops, of 13 equations in the
    plane. Controls: forces and torques of the joints.
    """
    half = PIECES * PIECE * np.sin(HALF_ANGLE)
    build = Assembly("fin-ray")
    build.joint("slider", pin.JointModelPZ(), placement=pin.SE3(np.eye(3), np.array([half, 0.0, 0.0])),
                inertia=pin.Inertia(0.02, np.zeros(3), 1e-5 * np.eye(3)))  # fmt: skip
    at: dict[str, tuple[str, pin.SE3]] = {
        "left": ("world", _wall(-half, HALF_ANGLE)), "right": ("slider", _wall(0.0, -HALF_ANGLE))
    }  # fmt: skip
    for k in range(1, PIECES + 1):
        for side in ("left", "right"):
            on, placement = at[side]
            build.rod(strip(f"{side}{k}", PIECE, 0.025), on, placement)
            at[side] = f"{side}{k}/tip", pin.SE3.Identity()
        level = pin.SE3(_wall(0.0, HALF_ANGLE).rotation.T, np.zeros(3))
        if k < PIECES:
            build.joint(f"hinge{k}", pin.JointModelRY(), f"left{k}/tip", level)
            build.rod(strip(f"rib{k}", 2.0 * half * (1.0 - k / PIECES), 0.01), f"hinge{k}")
            build.loop(f"rib{k}/tip", f"right{k}/tip", free=ACROSS_PLANE)
        else:
            other = pin.SE3(_wall(0.0, -HALF_ANGLE).rotation.T, np.zeros(3))
            build.frame("top", f"left{k}/tip", level).frame("other top", f"right{k}/tip", other)
            build.loop("top", "other top", free="y rx rz")
    return build.robot()


def _wall(x: float, angle: float) -> pin.SE3:
    """Pose of a wall's base: its strips run along z of the world, leaning by an angle, and bend about y."""
    return pin.SE3(pin.utils.rotate("y", angle - 0.5 * np.pi), np.array([x, 0.0, 0.0]))


SIDE, THICKNESS, HEIGHT = 0.2, 0.01, 0.15
"""Side and thickness of the platform, an equilateral triangle, and height of the pillars [m]."""

_UP = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


def pillar(name: str) -> Rod:
    """A pillar: cubic twist and bending, linear stretch and shear; 18 degrees of freedom."""
    return Rod(name, HEIGHT, Rectangle(0.03, 0.015), SILICONE, torsion=3, bending=3, stretch=1, shear=1, gauss=6)


def corners() -> Array:
    """The corners (3, 3) of the platform about its centre [m]."""
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    return SIDE / np.sqrt(3.0) * np.array([np.cos(angles), np.sin(angles), 0.0 * angles]).T


def platform() -> pin.Inertia:
    """Inertia of the platform about its centre, at the density of the pillars."""
    mass = SILICONE.density * np.sqrt(3.0) / 4.0 * SIDE**2 * THICKNESS
    across, about = mass * (SIDE**2 / 24.0 + THICKNESS**2 / 12.0), mass * SIDE**2 / 12.0
    return pin.Inertia(mass, np.zeros(3), np.diag([across, across, about]))


def parallel_robot() -> HybridRobot:
    """A platform on three pillars of silicone: one is clamped to the ground, two are hinged to it.

    Balls join them to the platform. 63 degrees of freedom, two loops of five equations. Controls: force [N] and couple
    [N m] on the platform's centre in the world's axes, then the torques of the balls.
    """
    places, build = corners(), Assembly("parallel-robot")
    build.rod(pillar("pillar1"), placement=pin.SE3(_UP, places[0]))
    build.joint("ball1", pin.JointModelSpherical(), "pillar1/tip", pin.SE3(_UP.T, np.zeros(3)))
    build.body(platform(), "ball1", pin.SE3(np.eye(3), -places[0]), name="platform")
    for k in (1, 2):
        build.joint(f"ball{k + 1}", pin.JointModelSpherical(), "platform", pin.SE3(np.eye(3), places[k]))
        turned = pin.utils.rotate("z", 2.0 * np.pi * k / 3.0) @ _UP
        down = pin.SE3(turned @ np.diag([-1.0, 1.0, -1.0]), np.zeros(3))
        build.rod(pillar(f"pillar{k + 1}"), f"ball{k + 1}", down)
        build.frame(f"foot{k + 1}", placement=pin.SE3(down.rotation, places[k]))
        build.loop(f"pillar{k + 1}/tip", f"foot{k + 1}", free="ry")
    return build.wrench("push", "platform").robot()


BODY, LENGTH, HOOK = 0.08, 0.3, 0.06
"""Radius and length of the swimmer's body, and length of its hooks [m]."""


def swimmer() -> HybridRobot:
    """A body that floats in water: on hooks of two shafts, three flagella of 0.35 m in front and three of 0.5 m behind.

    All is as dense as water. 80 degrees of freedom. Controls: torques of the two shafts [N m].
    """
    rho = SILICONE.density
    body = pin.Inertia.FromCylinder(rho * np.pi * BODY**2 * LENGTH, BODY, LENGTH)
    along_x = pin.SE3(pin.utils.rotate("y", 0.5 * np.pi), np.zeros(3))
    build = Assembly("swimmer").joint("body", pin.JointModelFreeFlyer(), inertia=along_x.act(body))
    for shaft, side, length in (("front", 1.0, 0.35), ("rear", -1.0, 0.5)):
        end = pin.SE3(np.eye(3), np.array([0.5 * side * LENGTH, 0.0, 0.0]))
        disc = pin.Inertia.FromCylinder(rho * np.pi * 0.03**2 * 0.04, 0.03, 0.04)
        build.joint(shaft, pin.JointModelRX(), "body", end, along_x.act(disc))
        for k in range(3):
            radial = pin.utils.rotate("x", 2.0 * np.pi * k / 3.0) @ pin.utils.rotate("y", -0.5 * np.pi)
            hook = pin.SE3(radial, np.zeros(3))
            bar = pin.Inertia.FromCylinder(rho * np.pi * 0.01**2 * HOOK, 0.01, HOOK)
            build.body((hook * pin.SE3(np.eye(3), np.array([0.5 * HOOK, 0.0, 0.0])) * along_x).act(bar), shaft)
            backwards = pin.utils.rotate("y", 0.25 * np.pi * side)
            base = hook * pin.SE3(backwards, np.array([HOOK, 0.0, 0.0]))
            rod = Rod(
                f"{shaft} flagellum {k + 1}", length, Circle(0.0125, 0.0005), SILICONE, torsion=3, bending=3, gauss=11
            )
            build.rod(rod, shaft, base)
    return build.water(Water(rho)).robot()
