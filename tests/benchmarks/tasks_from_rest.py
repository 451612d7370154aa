"""What people ask of an arm that stands still: iterations of the default for tasks, arms and postures.

    .venv/bin/python tests/benchmarks/tasks_from_rest.py [--robots ur5 panda] [--seeds 3] [--tasks "a pose"]

Each begins at rest with the torques that hold it, so that its costs and speeds are rounding, and takes a second of
steps of 20 ms. Some have no motion, as where joints cannot turn fast enough: brackets tell of solves that have not
converged.
"""

import argparse
import logging

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

import ddp
from dynamics import RobotDynamics, frame_placement, load
from problems.constraints import (
    FramePoseEquality,
    FramePositionEquality,
    FramePositionLimits,
    FrameVelocityLimits,
    JointLimits,
    StateEquality,
    VelocityLimits,
)
from problems.costs import ControlCost, FramePose, FramePosition, StateCost
from problems.obstacles import Sphere, SphereClearance

TOOLS = {
    "ur5": "tool0", "ur10": "tool0", "panda": "panda_hand_tcp", "xarm7": "link7", "z1": "link06",
    "talos_arm": "gripper_left_motor_single_link", "kinova": "j2s6s200_end_effector",
}  # fmt: skip
HORIZON, INSIDE, LONG = 50, 0.05, 60
"""Steps; distance of postures from limits [rad]; iterations that are many."""


def tasks(name, seed):
    """Problems by name, from a posture of an arm to another one."""
    robot, rng = load(name), np.random.default_rng(seed)
    system, ranges, n = RobotDynamics(robot, 0.02), robot.ranges, robot.nv
    tool = TOOLS.get(name, robot.model.frames[-1].name)
    inside = np.minimum(INSIDE, 0.25 * (ranges.upper - ranges.lower))
    between = ranges.lower + inside, ranges.upper - inside
    q = np.clip(robot.q0 + rng.uniform(-0.3, 0.3, n), *between)
    goal, still = np.clip(q + rng.uniform(-0.7, 0.7, n), *between), np.zeros(n)
    start, target = np.concatenate([q, still]), frame_placement(robot, goal, tool)
    place, from_here = target[:3, 3], frame_placement(robot, q, tool)[:3, 3]
    way, hold = np.linalg.norm(place - from_here), system.nominal_control(start)
    effort, slow = ControlCost(hold, np.full(n, 1e-3)), StateCost(system, start, np.repeat([0.0, 1e-2], n))

    def task(terminal=(), running=(effort, slow), ends=(), **more):
        return ddp.Problem(system, running, terminal, start, HORIZON, terminal_constraints=list(ends), **more)

    rests, pose = ddp.Equality(lambda x, u: x[n:]), FramePoseEquality(robot, tool, pin.SE3(target))
    position = FramePositionEquality(robot, tool, place)
    limits = {"constraints": [JointLimits(robot), VelocityLimits(robot)], "control_limits": robot.control_limits.T}
    ball = SphereClearance(robot, tool, 0.02, [Sphere(0.5 * (place + from_here), max(0.01, 0.3 * way))])
    still_there = StateCost(system, start, np.repeat([0.0, 10.0], n))
    reach = [FramePose(robot, tool, pin.SE3(target), np.full(6, 1e3)), still_there]
    along = [FramePosition(robot, tool, [*place[:2], from_here[2]], 1e3)]
    high, fast = np.array([np.inf, np.inf, from_here[2]]), np.repeat([0.6, np.inf], 3)
    level = FramePositionLimits(robot, tool, [-np.inf, -np.inf, from_here[2]], high)
    floor = FramePositionLimits(robot, tool, [-np.inf, -np.inf, min(place[2], from_here[2])], np.full(3, np.inf))
    clipped = np.where(rng.random(n) < 0.5, ranges.upper, goal)
    ending, home = StateEquality(system, np.concatenate([goal, still])), StateEquality(system, start)
    on_limits = StateEquality(system, np.concatenate([clipped, still]))
    return {
        "a state": task(ends=[ending]), "a state, within limits": task(ends=[ending], **limits),
        "a state, for effort alone": task(running=[effort], ends=[ending]),
        "a state on limits of joints": task(ends=[on_limits], constraints=[JointLimits(robot)]),
        "a pose": task(ends=[pose, rests]), "a pose, within limits": task(ends=[pose, rests], **limits),
        "a position, within limits": task(ends=[position, rests], **limits),
        "past a ball": task(ends=[position, rests], constraints=[ball]),
        "by a position and back": task(ends=[home], constraints_at={HORIZON // 2: [position]}),
        "at one height": task(along, ends=[rests], constraints=[level]),
        "onto a floor": task(ends=[position, rests], constraints=[floor]),
        "with a slow tool": task(ends=[position, rests], constraints=[FrameVelocityLimits(robot, tool, -fast, fast)]),
        "a pose that costs": task(reach), "a pose that costs, within limits": task(reach, **limits),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=["ur5", "ur10", "panda", "xarm7", "z1", "talos_arm"])
    parser.add_argument("--tasks", nargs="*", help="some of them alone")
    parser.add_argument("--seeds", type=int, default=3, help="postures of each arm")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    found = {}
    for robot in options.robots:
        for seed in range(options.seeds):
            for name, problem in tasks(robot, seed).items():
                if not options.tasks or name in options.tasks:
                    found.setdefault(name, {}).setdefault(robot, []).append(ddp.solve(problem, throw=False))
    table = Table("task", *options.robots, title="Iterations from rest; in brackets: not converged")
    for name, row in found.items():
        table.add_row(name, *(" ".join(map(told, row[robot])) for robot in options.robots))
    console = Console(width=180)
    console.print(table)
    every = [solution for row in found.values() for solutions in row.values() for solution in solutions]
    lasting = sum(not solution.converged or solution.iterations > LONG for solution in every)
    total = sum(solution.iterations for solution in every)
    console.print(f"{len(every)} solves: {total} iterations, {lasting} with more than {LONG} or not converged")


def told(solution):
    """Iterations, in brackets of a solve that has not converged."""
    return str(solution.iterations) if solution.converged else f"({solution.iterations})"


if __name__ == "__main__":
    main()
