"""Forces within rods: golden numbers, differences, and rest against beams whose shapes are known."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, relative_error
from rod_oracles import HANGING, SILICONE, cable_arm, golden_state, tip
from scipy.integrate import solve_bvp
from scipy.linalg import eigh
from scipy.optimize import root

import dynamics
from ddp.errors import ModelError
from dynamics import Assembly, Circle, Rod, Tendon


def newton(robot, q, u, steps=30):
    """Rest under tensions u by Newton's method."""
    still = np.zeros(robot.nv)
    for _ in range(steps):
        R = dynamics.inverse_dynamics(robot, q, still, still) + dynamics.internal_forces(robot, q, still)
        J = dynamics.inverse_dynamics_derivatives(robot, q, still, still).dq
        J = J + dynamics.internal_forces_derivatives(robot, q, still).dq
        if len(robot.tendons):
            R, J = R - dynamics.tendon_forces(robot, q, u), J - dynamics.tendon_forces_derivatives(robot, q, u).dq
        step = np.linalg.solve(J, R)
        q = q - step / max(1.0, np.abs(step).max())
    return q


def test_golden_numbers_of_tendons():
    robot, (q, _, _), u = cable_arm(), golden_state(), [5.0, 4.0, 3.0, 2.0, 1.0]
    found = np.linalg.norm(dynamics.tendon_forces(robot, q, u)), np.linalg.norm(
        dynamics.tendon_forces_derivatives(robot, q, u).dq
    )
    np.testing.assert_allclose(found, [7.39307230095, 11.27783542644], rtol=1e-8)


def test_derivatives_of_tendons_are_differences(rng):
    robot, (q, v, _) = cable_arm(), golden_state()
    u, mu = rng.uniform(0.0, 10.0, 5), rng.normal(size=robot.nv)
    first, second = dynamics.tendon_forces_derivatives(robot, q, u), dynamics.tendon_forces_hessian(robot, q, u, mu)
    e, f = np.eye(robot.nv), np.eye(5)

    def along(function, d):
        return fourth_order(lambda t: function(q + t * d))

    dq = np.array([along(lambda q: dynamics.tendon_forces(robot, q, u), d) for d in e]).T
    qq = np.array([along(lambda q: mu @ dynamics.tendon_forces_derivatives(robot, q, u).dq, d) for d in e])
    qu = np.array([along(lambda q: mu @ dynamics.tendon_forces_derivatives(robot, q, u).du, d) for d in e])
    assert relative_error(first.dq, dq) < 1e-10
    assert relative_error(first.du, np.array([dynamics.tendon_forces(robot, q, d) for d in f]).T) < 1e-13
    assert relative_error(second.qq, qq) < 1e-10
    assert relative_error(second.qu, qu) < 1e-10
    internal = dynamics.internal_forces_derivatives(robot, q, v)
    np.testing.assert_allclose(internal.dq @ q + internal.dv @ v, dynamics.internal_forces(robot, q, v), atol=1e-12)


@pytest.mark.parametrize(
    ("tendon", "golden"),
    [(0, (0.158121105, 0.0, -0.441901839)), (3, (-0.010892771, 0.00159893, -0.492040263))],
)
def test_rest_of_the_cable_arm(tendon, golden):
    robot = cable_arm()
    q = newton(robot, np.zeros(24), 20.0 * np.eye(5)[tendon])
    np.testing.assert_allclose(tip(robot, q).translation, golden, atol=2e-9)  # nine digits were kept


def test_frequencies_of_the_cable_arm():
    robot, still = cable_arm(), np.zeros(24)
    first = dynamics.inverse_dynamics_derivatives(robot, still, still, still)
    K = first.dq + dynamics.internal_forces_derivatives(robot, still, still).dq
    found = np.sqrt(eigh(K, first.da, eigvals_only=True)[:8]) / (2.0 * np.pi)
    golden = [1.66960, 1.66960, 5.99959, 5.99959, 14.17115, 14.17115, 14.68187, 20.42212]
    np.testing.assert_allclose(found, golden, atol=1e-5)


def test_a_uniform_cantilever_vibrates_like_euler_and_bernoulli():
    metal = dynamics.Material(1e9, 0.3, 1000.0)
    rod = Rod("beam", 1.0, Circle(0.005), metal, bending=(6, None), gauss=10)
    robot = Assembly(gravity=(0.0, 0.0, 0.0)).rod(rod).robot()
    still = np.zeros(robot.nv)
    M = dynamics.mass_matrix(robot, still)
    K = dynamics.internal_forces_derivatives(robot, still, still).dq
    found = np.sqrt(eigh(K, M, eigvals_only=True)[:2]) / (2.0 * np.pi)
    np.testing.assert_allclose(found[0], 1.39897802, rtol=5e-5)
    np.testing.assert_allclose(found[1], 8.76724563, rtol=3e-4)


@pytest.mark.parametrize(("degree", "gauss", "slopes", "lengths"), [(4, 10, 6e-5, 1e-5), (7, 25, 2e-6, 1e-6)])
@pytest.mark.parametrize(
    ("alpha", "slope", "drop", "shortening"),
    [
        (1.0, 0.46135195, 0.301720774, 0.0564332363), (5.0, 1.21536812, 0.713791524, 0.387628361),
        (10.0, 1.43028554, 0.810609025, 0.554995598),
    ],
)  # fmt: skip
def test_a_cantilever_under_a_load_at_its_tip_is_the_elastica(
    alpha, slope, drop, shortening, degree, gauss, slopes, lengths
):  # fmt: skip
    q, *lengths_found = loaded_cantilever(alpha, degree, gauss)
    np.testing.assert_allclose(q[0], slope, atol=slopes)
    np.testing.assert_allclose(lengths_found, [drop, shortening], atol=lengths)


def loaded_cantilever(alpha, degree, gauss):
    """q, drop and shortening of the tip under a load alpha E J / L², of a beam of length one."""
    light = dynamics.Material(1e6, 0.5, 1e-9)
    rod = Rod("beam", 1.0, Circle(0.01), light, bending=(degree, None), gauss=gauss)
    load = pin.Inertia(alpha * light.young * 0.25 * np.pi * 0.01**4, np.zeros(3), np.zeros((3, 3)))
    robot = Assembly(gravity=(0.0, 0.0, -1.0)).rod(rod).body(load, "beam/tip").robot()
    q = newton(robot, np.zeros(robot.nv), [])
    x, _, z = tip(robot, q).translation
    return q, -z, 1.0 - x


def best_of_degree(alpha, degree):
    """q, drop and shortening of least energy among curvatures of a degree, lengths by a fine quadrature."""
    points, weights = np.polynomial.legendre.leggauss(100)
    along = 0.5 * (points + 1.0)
    angles = [np.polynomial.Legendre.basis(k, domain=[0.0, 1.0]).integ(lbnd=0.0)(along) for k in range(degree + 1)]
    turn, stiffness = np.array(angles), 1.0 / (2.0 * np.arange(degree + 1) + 1.0)

    def unbalanced(q):
        return stiffness * q - alpha * turn @ (0.5 * weights * np.cos(q @ turn))

    q = root(unbalanced, np.eye(degree + 1)[0], tol=1e-13).x
    return q, 0.5 * weights @ np.sin(q @ turn), 1.0 - 0.5 * weights @ np.cos(q @ turn)


def test_rest_goes_to_the_least_energy_of_its_degree_with_the_fourth_power_of_segments():
    """Of slopes under alpha = 10, curvatures of degree four leave 5.6e-6, and segments between ten points 4.6e-5."""
    exact = np.concatenate([np.ravel(part) for part in best_of_degree(10.0, 4)])
    assert abs(exact[0] - 1.43028554) < 6e-6
    coarse, fine = (
        np.abs(np.concatenate([np.ravel(part) for part in loaded_cantilever(10.0, 4, gauss)]) - exact).max()
        for gauss in (14, 28)
    )
    assert fine < 6e-5
    assert 3.7 < np.log(coarse / fine) / np.log(29.0 / 15.0) < 4.4


def test_a_tendon_beside_the_axis_bends_a_rod_to_an_arc():
    rod = Rod("finger", 0.4, Circle(0.02), SILICONE, bending=2, stretch=1, gauss=4)
    build = Assembly(gravity=(0.0, 0.0, 0.0)).rod(rod, tendons=[Tendon("side", lambda x: (0.0, 0.01))])
    robot = build.robot()
    q = newton(robot, np.zeros(robot.nv), [2.0])
    area, second = np.pi * 0.02**2, 0.25 * np.pi * 0.02**4
    stretch, bend = q[6], q[0]  # constant along the rod: EA (stretch) = -u, EJ (bend) = -u z
    np.testing.assert_allclose([stretch, bend], [-2.0 / (1e6 * area), -2.0 * 0.01 / (1e6 * second)], rtol=1e-12)
    np.testing.assert_allclose(q[[1, 2, 3, 4, 5, 7]], 0.0, atol=1e-14)


def test_rest_is_that_of_a_cosserat_beam():
    robot = cable_arm(10, torsion=None, bending=(7, None), stretch=5, shear=(None, 5))
    flat = Assembly("flat").rod(robot.rods[0]).robot()
    q = newton(flat, np.zeros(flat.nv), [])
    silicone, weight = SILICONE, SILICONE.density * 9.81

    def area(s):
        return np.pi * (0.03 - 0.03 * s) ** 2

    def sections(s, y):
        """x, z, angle of the section (about y), force and couple in the world's axes."""
        x, _, angle, fx, fz, couple = y
        along = fx * np.cos(angle) - fz * np.sin(angle)
        across = fx * np.sin(angle) + fz * np.cos(angle)
        stretch = 1.0 + along / (silicone.young * area(s))
        shear = across / (silicone.shear_modulus * area(s))
        dx, dz = stretch * np.cos(angle) + shear * np.sin(angle), -stretch * np.sin(angle) + shear * np.cos(angle)
        bend = couple / (silicone.young * area(s) ** 2 / (4.0 * np.pi))
        return np.array([dx, dz, bend, 0 * x, weight * area(s), -(dz * fx - dx * fz)])

    def ends(a, b):
        return np.concatenate([a[:3], b[3:]])

    s = np.linspace(0.0, 0.5, 41)
    beam = solve_bvp(sections, ends, s, np.array([s, 0 * s, 0 * s, 0 * s, 0 * s, 0 * s]), tol=1e-10, max_nodes=100000)
    assert beam.success
    x, y, z = tip(flat, q).translation
    np.testing.assert_allclose([x, y, z], [beam.y[0, -1], 0.0, beam.y[1, -1]], atol=1e-5)
    np.testing.assert_allclose([x, z], [0.450245011, -0.198478293], atol=1e-5)


def test_forces_of_rods_want_rods():
    robot = dynamics.load("ur5")
    with pytest.raises(ModelError, match="expected one with rods"):
        dynamics.internal_forces(robot, robot.q0, np.zeros(6))
    with pytest.raises(ModelError, match="path"):
        Tendon("t", 3.0)
    rod = Rod("r", 0.5, Circle(0.1), SILICONE, bending=1)
    with pytest.raises(ModelError, match="tendons"):
        Assembly().rod(rod, placement=HANGING, tendons=["t"])
    with pytest.raises(ModelError, match=r"tendons\[1\]: r has a tendon 't' already"):
        Assembly().rod(rod, tendons=2 * [Tendon("t", lambda x: (0.0, 0.01))])
