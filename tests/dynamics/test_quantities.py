"""Centre of mass, frames, energy and momentum: against Pinocchio and fourth-order differences of its values."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of, fourth_order, random_state, random_tree, symmetric

import dynamics
from ddp.errors import ModelError, ProblemError

ROBOTS = {
    "ur5": lambda: dynamics.load("ur5"),
    "hyq": lambda: dynamics.load("hyq"),
    "groups": lambda: chain_of("planar", "spherical", "translation", "helical unaligned", "free-flyer", "revolute"),
    "tree 4": lambda: random_tree(4),
    "tree 9": lambda: random_tree(9),
}
REFERENCES = {
    "local": pin.LOCAL, "world": pin.WORLD, "local-world-aligned": pin.LOCAL_WORLD_ALIGNED,
}  # fmt: skip


class Case:
    """A robot, a state, and Pinocchio's values at states moved from there."""

    def __init__(self, name):
        self.robot = ROBOTS[name]()
        self.rng = np.random.default_rng(sum(map(ord, name)))
        self.q, self.v, _ = random_state(self.robot, self.rng, 1.5)
        if name == "ur5":
            self.robot.model.addFrame(pin.Frame("tip", 6, 0, pin.SE3.Random(), pin.OP_FRAME))
        else:
            last = self.robot.model.njoints - 1
            self.robot.model.addFrame(pin.Frame("tip", last, 0, pin.SE3.Random(), pin.OP_FRAME))
        self.data = self.robot.model.createData()

    def check(self, value, gradient, blocks, truth, tolerance=1e-9):
        """Value, its derivatives by (q, v) and, of each weighted quantity, the Hessian: differences of ``truth``."""
        nv, model = self.robot.nv, self.robot.model

        def moved(d):
            return np.atleast_1d(truth(pin.integrate(model, self.q, d[:nv]), self.v + d[nv:]))

        np.testing.assert_allclose(np.atleast_1d(value), moved(np.zeros(2 * nv)), rtol=1e-11, atol=1e-11)
        first = np.stack([fourth_order(lambda t, e=e: moved(t * e)) for e in np.eye(2 * nv)], axis=-1)
        np.testing.assert_allclose(np.atleast_2d(gradient), first, atol=tolerance * max(1.0, np.abs(first).max()))
        weight, H = blocks
        for _ in range(6):
            d = self.rng.normal(size=2 * nv)

            def along(t, d=d):
                return weight @ moved(t * d)

            h = 1e-2 / np.linalg.norm(d)
            near, far = along(h) + along(-h), along(2 * h) + along(-2 * h)
            second = (16 * near - far - 30 * along(0.0)) / (12 * h * h)
            assert abs(d @ H @ d - second) < 3e-7 * max(1.0, np.abs(d) @ np.abs(H) @ np.abs(d))


@pytest.fixture(params=ROBOTS)
def case(request):
    return Case(request.param)


def whole(hessian):
    H = np.block([[hessian.qq, hessian.qv], [hessian.qv.T, hessian.vv]])
    np.testing.assert_allclose(H, H.T, atol=1e-12 * max(1.0, np.abs(H).max()))
    return H


def padded(qq):
    return np.block([[qq, np.zeros_like(qq)], [np.zeros_like(qq), np.zeros_like(qq)]])


def test_center_of_mass(case):
    r, q, w = case.robot, case.q, case.rng.normal(size=3)
    J = dynamics.center_of_mass_derivatives(r, q)
    case.check(
        dynamics.center_of_mass(r, q), np.hstack([J, 0 * J]),
        (w, padded(dynamics.center_of_mass_hessian(r, q, w))),
        lambda q, v: pin.centerOfMass(r.model, case.data, q).copy(),
    )  # fmt: skip


def test_frame_placement(case):
    r, q, w = case.robot, case.q, case.rng.normal(size=6)
    index = r.model.getFrameId("tip")
    pin.framesForwardKinematics(r.model, case.data, q)
    M = case.data.oMf[index].copy()
    np.testing.assert_allclose(dynamics.frame_placement(r, q, "tip"), M.homogeneous, atol=1e-12)

    def displacement(q, v):
        pin.framesForwardKinematics(r.model, case.data, q)
        return pin.log6(M.inverse() * case.data.oMf[index]).vector

    J = dynamics.frame_placement_derivatives(r, q, "tip")
    np.testing.assert_allclose(J, pin.computeFrameJacobian(r.model, case.data, q, index, pin.LOCAL), atol=1e-12)
    H = padded(dynamics.frame_placement_hessian(r, q, "tip", w))
    case.check(np.zeros(6), np.hstack([J, 0 * J]), (w, H), displacement, 1e-7)


@pytest.mark.parametrize("reference", REFERENCES)
def test_frame_velocity(case, reference):
    r, q, v, w = case.robot, case.q, case.v, case.rng.normal(size=6)

    def velocity(q, v):
        pin.forwardKinematics(r.model, case.data, q, v)
        return pin.getFrameVelocity(r.model, case.data, r.model.getFrameId("tip"), REFERENCES[reference]).vector

    case.check(
        dynamics.frame_velocity(r, q, v, "tip", reference),
        np.hstack(dynamics.frame_velocity_derivatives(r, q, v, "tip", reference)),
        (w, whole(dynamics.frame_velocity_hessian(r, q, v, "tip", w, reference))), velocity,
    )  # fmt: skip


def test_energy(case):
    r, q, v = case.robot, case.q, case.v

    def energy(q, v):  # pin.computeKineticEnergy loses some of the armature (4.1, tree 4)
        M = symmetric(pin.crba(r.model, case.data, q))
        return 0.5 * v @ M @ v + pin.computePotentialEnergy(r.model, case.data, q)

    case.check(
        dynamics.energy(r, q, v), np.hstack(dynamics.energy_derivatives(r, q, v)),
        (np.ones(1), whole(dynamics.energy_hessian(r, q, v))), energy,
    )  # fmt: skip


@pytest.mark.parametrize("about", ["center-of-mass", "origin"])
def test_momentum(case, about):
    r, q, v, w = case.robot, case.q, case.v, case.rng.normal(size=6)

    def momentum(q, v):
        pin.computeCentroidalMomentum(r.model, case.data, q, v)
        moved = pin.SE3(np.eye(3), case.data.com[0] if about == "origin" else np.zeros(3)).act(case.data.hg)
        return moved.vector

    case.check(
        dynamics.momentum(r, q, v, about), np.hstack(dynamics.momentum_derivatives(r, q, v, about)),
        (w, whole(dynamics.momentum_hessian(r, q, v, w, about))), momentum,
    )  # fmt: skip


def test_batches_are_their_samples(rng):
    """Eight are made at a time, in lanes: threads that take other knots, and one alone, find the same bits."""
    robot = random_tree(5)
    Q = np.stack([robot.random_configuration(rng) for _ in range(9)])
    V, w = rng.normal(size=(9, robot.nv)), rng.normal(size=(9, 6))
    name = robot.model.frames[-1].name
    functions = [
        lambda t: dynamics.center_of_mass_hessian(robot, Q[t], w[t, ..., :3].copy()),
        lambda t: dynamics.energy(robot, Q[t], V[t]),
        lambda t: dynamics.energy_derivatives(robot, Q[t], V[t]).dq,
        lambda t: dynamics.energy_hessian(robot, Q[t], V[t]).qq,
        lambda t: dynamics.momentum_hessian(robot, Q[t], V[t], w[t]).qv,
        lambda t: dynamics.frame_velocity_derivatives(robot, Q[t], V[t], name, "world").dq,
    ]
    for f in functions:
        of_all, of_three = f(np.arange(9)), f(np.arange(3))
        for t in range(9):
            np.testing.assert_array_equal(of_all[t], f(np.arange(t, t + 1))[0])
            np.testing.assert_array_equal(of_all[t], f(t))
            if t < 3:
                np.testing.assert_array_equal(of_three[t], of_all[t])


def test_mistakes_are_named():
    robot = dynamics.load("ur5")
    with pytest.raises(ModelError, match="ur5 has no frame 'tool'; did you mean 'tool0'"):
        dynamics.frame_placement(robot, np.zeros(6), "tool")
    with pytest.raises(ProblemError, match="about: unknown 'com'"):
        dynamics.momentum(robot, np.zeros(6), np.zeros(6), "com")
    with pytest.raises(ProblemError, match="reference: unknown 'word'; did you mean 'world'"):
        dynamics.frame_velocity(robot, np.zeros(6), np.zeros(6), "tool0", "word")
    with pytest.raises(ProblemError, match=r"weight: expected shape \(3,\), got \(2,\)"):
        dynamics.center_of_mass_hessian(robot, np.zeros(6), np.zeros(2))
