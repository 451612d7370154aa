"""Robots with elastic rods, as all functions of dynamics take them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ModelError, as_array, choice
from ddp.protocols import Array
from dynamics.robots.chain import Segment, add_chain, configurations, linked, segments_of
from dynamics.robots.equipment import Equipment, pairs_of_limits
from dynamics.robots.joints import effort_limits
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Mechanism
from dynamics.robots.model import Robot
from dynamics.robots.rods import Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Water
from dynamics.robots.tree import HybridTree, Tree
from dynamics.rods.hybrid_trees import Recipe, hybrid_tree, laden


class HybridRobot(Robot):
    """A robot with elastic rods, made by ``Assembly``; ``chain`` is a model of Pinocchio's that moves as it does."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tree: HybridTree
        self.source, self.equipment = None, Equipment(damped=recipe.damped)
        self.tree = hybrid_tree(recipe)
        self.handle, self.room = self.tree.handle, self.tree.room
        self._resisting: dict[tuple[bool, bool], Tree] = {}
        self.branches = {}
        begun = np.zeros(0) if recipe.begun is None else recipe.begun.q0
        self.q0 = np.concatenate([begun, self.neutral()[len(begun) :]])
        self._close(recipe.loops)

    @property
    def model(self) -> pin.Model:  # type: ignore[override]
        """Refuse: of no model of rigid joints alone q and v have as many numbers."""
        raise ModelError(
            f"robot: expected one of rigid bodies, got {self.name}, which has rods; robot.chain at robot.to_chain(q) is"
            " Pinocchio's model of it"
        )

    @property
    def _joints(self) -> pin.Model:
        return self.recipe.model

    @cached_property
    def mechanism(self) -> HybridMechanism:
        """The bodies, as loops see them."""
        return HybridMechanism(self)

    @property
    def rods(self) -> list[Rod]:
        """The rods, in the order of their coordinates."""
        return list(self.recipe.rods.values())

    @property
    def tendons(self) -> list[Tendon]:
        """The tendons of all rods, in the order of their tensions."""
        return [tendon for own in self.recipe.tendons.values() for tendon in own]

    @property
    def wrenches(self) -> list[str]:
        """Names of the wrenches that controls set, six numbers each, which come after the tensions."""
        return [wrench.name for wrench in self.recipe.wrenches]

    @property
    def surfaces(self) -> list[ContactSprings]:
        """The surfaces that rods press on."""
        return [contact.springs for contact in self.recipe.contacts]

    @property
    def water(self) -> Water | None:
        """The water about the rods, if they are in some."""
        return self.recipe.water

    def resisting(self, damping: bool, springs: bool) -> Tree:
        """The tree of steps and of rest: springs and friction of joints where asked for, and loads."""
        if (damping, springs) not in self._resisting:
            made = super().resisting(damping, springs)
            assert isinstance(made, HybridTree)
            self._resisting[damping, springs] = laden(made, self.recipe)
        return self._resisting[damping, springs]

    @property
    def actuation(self) -> Array:
        """S (nv, nu): columns of tendons and wrenches, zeros since they act by q, then those of actuators.

        These are the actuators of the robot that the assembly began with, if it has some, and a force or torque for
        every other degree of freedom of a joint. Tensions [N] pull where they are positive; see ``tendon_forces``.
        """
        return np.hstack([np.zeros((self.nv, self.tree.cables)), self._driving[0]])

    @property
    def control_limits(self) -> Array:
        """Lower and upper limits (nu, 2) of the controls of ``actuation``, ±inf where there is none.

        Tensions pull; the rest has the limits that the robot of the beginning has for its actuators and joints.
        """
        cables = pairs_of_limits("control_limits", None, self.tree.cables)
        cables[: len(self.tendons), 0] = 0.0
        return np.concatenate([cables, self._driving[1]])

    @cached_property
    def _driving(self) -> tuple[Array, Array]:
        """Columns of actuators, and their limits."""
        begun, flexible = self.recipe.begun, self.tree.rod[self.tree.body] >= 0
        free = np.setdiff1d(np.flatnonzero(~flexible), self.floating_dofs)
        driven, S, limits = 0, np.zeros((self.nv, 0)), np.zeros((0, 2))
        if begun is not None and begun.equipment.drives:
            driven, S, limits = begun.nv, np.zeros((self.nv, begun.actuation.shape[1])), begun.control_limits
            S[:driven] = begun.actuation
        others = free[free >= driven]
        efforts = effort_limits(self.recipe.model)
        return np.hstack([S, np.eye(self.nv)[:, others]]), np.concatenate([limits, efforts[others]])

    @property
    def frame_names(self) -> list[str]:
        return list(self.recipe.places)

    @property
    def cable_names(self) -> list[str]:
        """Names of the first controls: ``rod.tendon`` of tensions, ``wrench.fx`` ... ``wrench.nz`` of wrenches."""
        names = self.joint_names
        tendons = [f"{names[b]}.{tendon.name}" for b, own in self.recipe.tendons.items() for tendon in own]
        return tendons + [f"{name}.{axis}" for name in self.wrenches for axis in ("fx", "fy", "fz", "nx", "ny", "nz")]

    def rod_of(self, body: int) -> Rod:
        """The rod that carries a body of ``tree``."""
        return self.recipe.rods[body]

    def coordinates(self, name: str) -> slice:
        """Places of a rod's coordinates, or a joint's velocities, among v (nv,)."""
        own = self.numbers_of(name)[1]
        return slice(own.start, own.stop)

    def _random_numbers(self, body: int, lower: Array, upper: Array, rng: np.random.Generator) -> Array:
        rod = self.recipe.rods.get(body)
        return super()._random_numbers(body, lower, upper, rng) if rod is None else rod.random(rng)

    @cached_property
    def chain(self) -> pin.Model:
        """The robot with every segment of a rod as a rigid body on a free-flyer, called ``name/1``, ``name/2``, ....

        Poses and inverse dynamics of this model at ``to_chain`` are the robot's: Pinocchio, or a viewer, can use it.
        """
        return linked(self.recipe.model, self.recipe.rods, add_chain)[0]

    def to_chain(self, Q: ArrayLike) -> Array:
        """Configurations of ``chain``, (chain.nq,) or (N, chain.nq), of the robot's (nq,) or (N, nq)."""
        given = np.asarray(Q, dtype=np.float64)
        rows = as_array("Q", np.atleast_2d(given), (None, self.nq))
        return configurations(self.recipe.rods, self.tree.iq, rows, lambda rod: 1).reshape(*given.shape[:-1], -1)

    def has_frame(self, name: object) -> bool:
        return isinstance(name, str) and name in self.recipe.places

    def carrier(self, name: str) -> tuple[int, Array, int | None]:
        choice("frame", name, self.recipe.places, f"{self.name} has no frame", ModelError)
        body, pose, point = self.recipe.places[name]
        return body, np.concatenate([pose.rotation.ravel(), pose.translation]), point

    def frame_id(self, name: str) -> int:
        """Refuse: the frames of rods are none of Pinocchio's."""
        raise ModelError(f"frame {name!r}: expected a robot of rigid bodies, got {self.name}, which has rods")

    def visuals(self) -> tuple[pin.GeometryModel, list[str]]:
        """Refuse: rods have no shapes yet."""
        raise ModelError(f"{self.name}: rods are not drawn; draw robot.chain at robot.to_chain(X) instead")

    def __getstate__(self) -> Recipe:  # type: ignore[override]
        return self.recipe

    def __setstate__(self, state: Recipe) -> None:  # type: ignore[override]
        self.__init__(state)  # type: ignore[misc]


class HybridMechanism(Mechanism):
    """Bodies of a robot with rods as loops see them: where they are, and how degrees of freedom move them."""

    def __init__(self, robot: HybridRobot) -> None:
        super().__init__(robot.recipe.model)
        self.robot = robot
        self.segments = {b: segments_of(rod) for b, rod in robot.recipe.rods.items()}

    def place(self, frame: str) -> tuple[int, pin.SE3]:
        body, pose, point = self.robot.carrier(frame)
        if point is not None:
            raise ModelError(f"loop: expected the base or the tip of a rod, got the point {frame!r} within it")
        return body, pin.SE3(pose[:9].reshape(3, 3), pose[9:])

    def poses(self, q: Array) -> list[tuple[pin.SE3, Array]]:
        found = [(pin.SE3.Identity(), np.zeros((6, self.nv)))]
        for j in range(1, self.model.njoints):
            (pose, J), joint = found[self.model.parents[j]], self.model.joints[j]
            pose, J = pose * self.model.jointPlacements[j], J.copy()
            if j - 1 in self.segments:
                pose, own = self._tip(self.segments[j - 1], pose, q[joint.idx_q : joint.idx_q + joint.nq])
            else:
                moved = joint.createData()
                joint.calc(moved, q)
                pose = pose * moved.M
                own = pose.action @ np.asarray(moved.S).reshape(6, -1)
            J[:, joint.idx_v : joint.idx_v + joint.nv] = own
            found.append((pose, J))
        return found[1:]

    @staticmethod
    def _tip(segments: list[Segment], pose: pin.SE3, q: Array) -> tuple[pin.SE3, Array]:
        """Pose of the tip, and its motions by the rod's coordinates, of a rod whose base is at a pose."""
        J = np.zeros((6, len(q)))
        for one in segments:
            twist = pin.Motion(one.twist(q))
            pose = pose * pin.exp6(twist)
            J += pose.action @ (pin.Jexp6(twist) @ _slope(one, q))
        return pose, J


def _slope(one: Segment, q: Array) -> Array:
    """∂Ω/∂q (6, n) of a segment."""
    first, second = one.reference + np.tensordot(one.basis, q, (1, 0))
    h, c = one.length, np.sqrt(3.0) / 12.0 * one.length**2
    x, y = one.basis[0].T, one.basis[1].T
    return np.asarray(0.5 * h * (x + y) + c * (pin.Motion(first).action @ y - pin.Motion(second).action @ x))
