"""The printed path of an iteration: one can follow the trajectory and V_x through it."""

from call_path import call_path

import problems


def test_the_path_of_an_iteration_follows_the_trajectory_and_v_x():
    lines = call_path(problems.find("arm/reach").build())
    text = "\n".join(lines)
    stations = (
        "Model.iterate()", "Problem.expand(X, U)", "* dynamics.steps.knots._expand: ", "Backward.__call__",
        "contract_with(record, V_x", "* ddp.sweeps.sweeping.recur:", "Problem.track(X, U, k, K, alphas, gaps)",
        "Objective.total(X', U')", "Iterate.accept()",
    )  # fmt: skip
    at = [text.index(station) for station in stations]
    assert at == sorted(at)
    assert len(lines) < 80
    assert lines[0][0] != " "
