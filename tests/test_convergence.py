"""The benchmark problems from end to end: iterations, costs, order of convergence, gains, memory."""

import subprocess
import sys

import numpy as np
import pytest

import ddp
import problems

DDP_BARS = {
    "pendulum/swing-up": (17, 2.9008),
    "cartpole/swing-up": (20, 0.92042),
    "arm/reach": (11, 1.1798),
    "arm/out-of-reach": (30, 154.55),
    "arm/obstacles": (45, 1.2057),
    "arm/throw": (28, 0.2035),
    "quadruped/reorientation": (60, 2.7003),
    "quadrotor/loop": (14, 17.138),
    "soft/cable-arm": (12, 0.034256),
    "soft/out-of-reach": (13, 8.4951),
    "soft/serial": (18, 0.13935),
    "quadruped/walk": (14, 0.036221),
    "quadruped/trot": (5, 0.01934),
    "quadruped/pace": (12, 0.061686),
    "quadruped/bound": (14, 0.205),
    "quadruped/jump": (7, 0.13943),
    "quadruped/stand": (4, 0.011924),
    "biped/step": (7, 0.042933),
    "quadrotor/rotor-lag": (15, 20.483),
    "arm/torque-rates": (24, 1.2133),
    "arm/elastic": (14, 1.2689),
    "arm/best-start": (12, 1.0683),
    "ballbot/roll": (8, 372.69),
    "mobile/reach": (13, 0.16744),
    "mobile/drive": (17, 0.28902),
    "quadruped/periodic-trot": (6, 0.015732),
    "integrator/reach": (2, 0.26481),
    "integrator/quickest": (10, 2.1842),
    "acrobot/swing-up": (35, 44.513),
    "glider/perch": (110, 19.382),
    "rocket/landing": (45, 3.9058),
    "car/parking": (90, 1.9052),
    "car/circles": (35, 9.4355),
}
"""Iterations to an expected decrease of 1e-9, and cost: a converged solution may be better, never worse."""



FDDP = {
    "pendulum/swing-up": (59, 2.9008067),
    "cartpole/swing-up": (85, 0.9204226),
    "arm/reach": (13, 1.1798405),
    "quadrotor/loop": (41, 17.138),
}
"""Crocoddyl 3.2.1's FDDP: iterations to 1e-9, and the optimum."""


@pytest.mark.parametrize("name", problems.ALL)
def test_ddp_converges_within_the_bar(solved, name):
    iterations, cost = DDP_BARS[name]
    solution = solved(name, ddp.DDP(tolerance=1e-9))
    assert solution.converged
    assert solution.iterations <= iterations
    assert solution.cost <= cost * (1.0 + 1e-4)
    assert problems.ALL[name].cost == pytest.approx(cost, rel=3e-4)
    assert ddp.solve(solution.problem, ddp.DDP(tolerance=1e-12), guess=solution).stationarity() < 1e-6
    X = solution.problem.dynamics.rollout(solution.problem.x0, solution.U)
    assert np.array_equal(X, solution.X)
    assert solution.problem.cost(X, solution.U) == pytest.approx(solution.cost, rel=1e-12)


@pytest.mark.parametrize("name", FDDP)
def test_ilqr_reaches_fddps_optimum_in_about_its_iterations(solved, name):
    iterations, cost = FDDP[name]
    solution = solved(name, ddp.ILQR(tolerance=1e-9))
    assert solution.iterations <= max(1.1 * iterations, iterations + 2)
    assert solution.cost == pytest.approx(solved(name, ddp.DDP(tolerance=1e-9)).cost, rel=1e-6)
    assert solution.cost == pytest.approx(cost, rel=3e-5)


def order_of_convergence(solution):
    """The slope of log expected decrease (quadratic in the error) over the last four iterations above rounding."""
    e = [record.expected for record in solution.history if record.expected > 1e-25][-4:]
    return float(np.log(e[3] / e[1]) / np.log(e[2] / e[0]))


@pytest.mark.parametrize("name", ["pendulum/swing-up", "quadrotor/loop", "quadruped/reorientation"])
def test_ddp_converges_quadratically(solved, name):
    assert order_of_convergence(solved(name, ddp.DDP(tolerance=1e-14))) >= 1.8


def test_gauss_newton_converges_linearly(solved):
    assert order_of_convergence(solved("quadrotor/loop", ddp.ILQR(tolerance=1e-14))) < 1.2


@pytest.mark.parametrize("name", ["pendulum/swing-up", "arm/reach", "quadrotor/loop", "quadruped/reorientation"])
def test_exact_gains_are_the_optimal_sensitivity_and_gauss_newtons_are_not(solved, name):
    """K[0] d against the differences, of order four, of u0* along d, the problem solved again from x0 ⊕ t d."""
    solution = solved(name, ddp.DDP(tolerance=1e-14))
    problem = solution.problem
    rng = np.random.default_rng(3)
    d = rng.normal(size=problem.dynamics.n)
    d /= np.linalg.norm(d)
    h = 1e-3

    def first_control(t):
        moved = ddp.Problem(
            dynamics=problem.dynamics, running=problem.running, terminal=problem.terminal, at=problem.at,
            x0=problem.dynamics.integrate(problem.x0, t * d), horizon=problem.horizon,
        )  # fmt: skip
        return ddp.solve(moved, ddp.DDP(tolerance=1e-14), guess=solution).U[0]

    truth = (8.0 * (first_control(h) - first_control(-h)) - (first_control(2 * h) - first_control(-2 * h))) / (12 * h)
    assert np.abs(solution.K[0] @ d - truth).max() < 1e-5 * np.abs(truth).max()
    gauss_newton = ddp.solve(problem, ddp.ILQR(), guess=solution)
    assert np.abs(gauss_newton.K[0] @ d - truth).max() > 1e-4 * np.abs(truth).max()


def test_residuals_that_stay_large_on_an_unstable_arm_do_not_stop_it():
    problem = problems.find("arm/out-of-reach").build(robot="kinova", position=(1.33, -1.94, 0.11))
    rng = np.random.default_rng(0)
    starts = [problem.x0 + 1e-13 * rng.normal(size=problem.x0.size) for _ in range(7)]
    solutions = [ddp.solve(problem.starting_at(x0)) for x0 in starts]
    assert np.median([solution.iterations for solution in solutions]) <= 60  # 45 to 72, as rounding has it
    assert all(solution.kind == "minimum" for solution in solutions)


def test_controls_that_make_an_arm_diverge_are_a_guess_all_the_same(rng):
    problem = problems.find("arm/reach").build(robot="kinova")
    guess = problem.dynamics.nominal_control(problem.x0) + rng.normal(scale=3.0, size=(problem.horizon, 6))
    assert not np.isfinite(problem.dynamics.rollout(problem.x0, guess)).all()
    expected = ddp.solve(problem).cost
    assert ddp.solve(problem, guess=guess).cost == pytest.approx(expected, rel=1e-6)


def test_a_quadruped_is_solved_in_less_than_a_gigabyte():
    code = (
        "import ddp, problems\n"
        "ddp.solve(problems.find('quadruped/reorientation')())\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1_000_000  # kilobytes, the most it ever held
