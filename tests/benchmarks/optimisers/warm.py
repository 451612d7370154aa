"""Warm starts beside cold solves, where states have moved, and receding horizons that are pushed: iterations.

`make bench-warm`. Moved: by normal numbers times a size, of the first state or of the one a knot later. Pushed: noise
of 0.003 at every step, and velocities that jump at every eighth one.
"""

from dataclasses import replace

import numpy as np

import ddp
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.model import load
from problems import cartpole
from problems.constraints import JointLimits
from problems.costs import ControlCost, StateCost
from tests.benchmarks.optimisers.limited import boxed_reach, cluttered_reach, rail

SIZES = 1e-3, 1e-2, 5e-2, 1e-1
NOISE, EVERY = 3e-3, 8


def balance():
    """A pole upright on a cart, on a rail of ±0.4 m, pushed by at most 20 N."""
    system, up = cartpole.swing_up().dynamics, np.array([0.0, np.pi, 0.0, 0.0])
    weights = np.array([1.0, 10.0, 0.1, 0.1])
    costs = ControlCost(np.zeros(1), np.array([1e-2])), StateCost(system, up, weights)
    return ddp.Problem(
        system, costs, [StateCost(system, up, 20.0 * weights)], up, 60, control_limits=(-20.0, 20.0),
        constraints=[ddp.Inequality(lambda x, u: x[0], lower=-0.4, upper=0.4)],
    )  # fmt: skip


def stand():
    """A HyQ stands, within the limits of its joints and half of its torques."""
    robot = load("hyq")
    feet = [Contact(name, "point", None, (0.0, 20.0)) for name in ("lf_foot", "rf_foot", "lh_foot", "rh_foot")]
    system = PhasedDynamics(robot, 0.02, Phase(feet, knots=25))
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    hold = system.nominal_control(x0)
    weights = np.concatenate([np.full(3, 20.0), np.full(3, 50.0), np.full(12, 0.1), np.full(6, 1.0), np.full(12, 0.02)])
    most = 0.5 * robot.model.effortLimit[6:]
    costs = ControlCost(hold, np.full(12, 1e-4)), StateCost(system, x0, weights)
    return ddp.Problem(
        system, costs, [StateCost(system, x0, 10.0 * weights)], x0, 25, guess=np.tile(hold, (25, 1)),
        control_limits=(-most, most), constraints=[JointLimits(robot)],
    )  # fmt: skip


def soft(problem, price):
    """The problem with constraints that may be violated at a price."""
    return replace(problem, constraints=[ddp.Soft(one, price) for one in problem.constraints])


def moved(problem, first, size, steps, draws):
    """Iterations of solves from moved states, warm and cold."""
    rng, found = np.random.default_rng(7), []
    guess = first.shift(steps) if steps else first
    for _ in range(draws):
        there = problem.starting_at(problem.dynamics.integrate(guess.X[0], size * rng.normal(size=problem.dynamics.n)))
        found.append([ddp.solve(there, guess=one, throw=False).iterations for one in (guess, None)])
    return np.array(found).T


def pushed(problem, push, steps=65):
    """Iterations of the solves of a receding horizon, and how many of them did not converge."""
    rng, x, found, failed, n = np.random.default_rng(0), problem.x0, [], 0, problem.dynamics.n
    with ddp.RecedingHorizon(problem, ddp.DDP(max_iterations=300)) as controller:
        for k in range(steps):
            solution = controller.solve(x)
            found.append(solution.iterations)
            failed += not solution.converged
            jump = NOISE * rng.normal(size=n)
            if k % EVERY == EVERY - 1:
                jump[n // 2 :] += push * rng.normal(size=n // 2)
            x = problem.dynamics.integrate(problem.dynamics.step(x, solution.U[0], 0), jump)
    return np.array(found), failed


def main():
    for name, problem in (("boxed", boxed_reach()), ("cluttered", cluttered_reach()), ("rail", rail())):
        first = ddp.solve(problem)
        for steps in (0, 1):
            for size in SIZES:
                warm, cold = moved(problem, first, size, steps, 12)
                where = f"{name:10} a knot later: {steps}, moved {size:5g}"
                found = f"warm {np.median(warm):3g}, {warm.max():3}, above nine {(warm > 9).sum()} of {len(warm)}"
                print(f"{where}: {found}; cold {np.median(cold):3g}, {cold.max():3}", flush=True)
    pushes = {
        "cluttered": (cluttered_reach(), 0.15), "cluttered, soft": (soft(cluttered_reach(), 100.0), 0.15),
        "balance": (balance(), 0.6), "balance, soft": (soft(balance(), 1e3), 0.6), "stand": (stand(), 0.4),
    }  # fmt: skip
    for name, (problem, push) in pushes.items():
        found, failed = pushed(problem, push)
        rest = found[1:]
        print(
            f"{name:16} pushed by {push:g}: first {found[0]:3}, then {np.median(rest):3g}, at most {rest.max():3}; "
            f"not converged {failed} of {len(found)}", flush=True
        )


if __name__ == "__main__":
    main()
