"""Data sets of motions for learning: episodes as Gymnasium's, and tables as LeRobot's."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ddp.errors import ProblemError, items, said, suggesting, text
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from problems.interop.motion import optional


@suggesting
def episodes(solutions: Iterable[Solution]) -> list[dict[str, Array]]:
    """Each solution as an episode with Gymnasium's names, as Minari's data sets have them.

    observations (N+1, nx): states.   actions (N, nu): controls.   rewards (N,): costs of the knots, with those of
    violated `Soft` constraints, negative; the last one with that of the end.
    terminations, truncations (N,): the last knot is a truncation, a horizon that ended.
    """
    found = []
    for solution in _checked(solutions):
        problem = solution.problem
        assert problem is not None
        costs = problem.values(solution.X, solution.U) + problem.rows.paid(solution.X, solution.U)
        rewards = -costs[:-1]
        rewards[-1] -= costs[-1]
        ends = np.zeros(len(solution.U), dtype=bool)
        truncated = ends.copy()
        truncated[-1] = True
        found.append({
            "observations": solution.X.copy(), "actions": solution.U.copy(), "rewards": rewards,
            "terminations": ends, "truncations": truncated,
        })  # fmt: skip
    return found


@suggesting
def lerobot_table(solutions: Iterable[Solution], task: str = "") -> Any:
    """Frames of all solutions as a pandas.DataFrame with LeRobot's columns, a row for each knot.

    observation.state (nx,), action (nu,): lists of float32.   timestamp [s], frame_index, episode_index, index,
    task_index, next.reward, next.done.   task: what is done, kept in ``table.attrs["tasks"]``.
    """
    pandas = optional("pandas", "lerobot_table")
    text("task", task)
    rows: list[dict[str, Any]] = []
    given = _checked(solutions)
    for number, (solution, episode) in enumerate(zip(given, episodes(given), strict=True)):
        for k in range(len(solution.U)):
            rows.append({
                "observation.state": solution.X[k].astype(np.float32).tolist(),
                "action": solution.U[k].astype(np.float32).tolist(),
                "timestamp": float(solution.t[k]), "frame_index": k, "episode_index": number, "index": len(rows),
                "task_index": 0, "next.reward": float(episode["rewards"][k]),
                "next.done": bool(episode["truncations"][k]),
            })  # fmt: skip
    table = pandas.DataFrame(rows)
    table.attrs["tasks"] = [task]
    return table


def _checked(solutions: Iterable[Solution]) -> list[Solution]:
    """Solutions with their problems, of one size."""
    given = items("solutions", solutions, "Solutions", some=True)
    for i, solution in enumerate(given):
        if not isinstance(solution, Solution) or solution.problem is None:
            raise ProblemError(f"solutions[{i}]: expected a Solution with its problem, got {said(solution)}")
        if solution.X.shape[1:] != given[0].X.shape[1:] or solution.U.shape[1:] != given[0].U.shape[1:]:
            raise ProblemError(f"solutions[{i}]: expected states and controls of the sizes of the first")
    return list(given)
