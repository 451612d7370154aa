"""The state machine alone, on iterates whose models do what a test says."""

import numpy as np
import pytest

from ddp.models.attempt import EXACT, GAUSS_NEWTON, LEVENBERG_MARQUARDT, NAMES, Limits
from ddp.models.built_in import Mixed, gauss_newton, levenberg_marquardt
from ddp.search import Step
from ddp.sweeps.outcome import Sweep

NOTHING = np.zeros((1, 1))


class Scripted:
    """An iterate of cost 10 where every sweep expects 1 and steps of ``alpha`` bring ``share`` of that."""

    cost, magnitude, damping, unit, units = 10.0, 10.0, 1.0, 1.0, np.ones(2)

    def __init__(self, share, alpha=1.0, costates_fail=False):
        self.share, self.alpha, self.costates_fail = share, alpha, costates_fail
        self.swept = []

    def sweep(self, blend, mu, costates=False):
        self.swept.append((blend, costates))
        return Sweep(NOTHING, NOTHING, 2.0, 1.0, 1.0, 0 if costates and self.costates_fail else -1)

    def search(self, sweep, longest):
        return Step(self.alpha, self.cost - self.share, NOTHING, NOTHING)


@pytest.mark.parametrize("mode", [EXACT, LEVENBERG_MARQUARDT])
@pytest.mark.parametrize(
    ("share", "alpha", "costates"), [(0.99, 1.0, True), (0.9, 1.0, False), (1.2, 1.0, False), (1.0, 0.5, False)]
)
def test_costates_follow_a_full_step_that_kept_its_promise(mode, share, alpha, costates):
    model = Mixed(Limits())
    model.numbers.mode = NAMES.index(mode)
    point = Scripted(share, alpha)
    model.iterate(point)
    model.iterate(point)
    assert point.swept == [(1.0, False), (1.0, costates)]


def test_v_x_does_where_costates_fail():
    model = Mixed(Limits())
    model.numbers.mode = NAMES.index(EXACT)
    point = Scripted(1.0, costates_fail=True)
    attempts = [model.iterate(point) for _ in range(2)]
    assert point.swept == [(1.0, False), (1.0, True), (1.0, False)]
    assert [attempt.hessian for attempt in attempts] == [EXACT, EXACT]
    assert model.numbers.blend[NAMES.index(EXACT)] == 1.0


@pytest.mark.parametrize(("share", "models"), [(0.9, ["exact+lm"] * 6 + ["gauss-newton"]), (1.0, ["exact+lm"] * 7)])
def test_levenberg_marquardt_stays_only_while_its_steps_bring_what_it_promised(share, models):
    model = Mixed(Limits())
    model.numbers.mode = NAMES.index(LEVENBERG_MARQUARDT)
    point = Scripted(share)
    assert [model.iterate(point).hessian for _ in models] == models


@pytest.mark.parametrize(
    ("share", "alpha", "switch", "model"),
    [
        (0.5, 1.0, 0.06, EXACT), (0.5, 1.0, 0.04, GAUSS_NEWTON), (0.5, 0.5, 0.06, GAUSS_NEWTON),
        (2.0, 1.0, 0.11, EXACT), (2.0, 1.0, 0.09, GAUSS_NEWTON),
    ],
)  # fmt: skip
def test_gauss_newton_hands_over_where_a_full_step_brings_little_or_little_is_promised(share, alpha, switch, model):
    mixed, point = Mixed(Limits(switch=switch)), Scripted(share, alpha)
    assert [mixed.iterate(point).hessian for _ in range(3)] == [GAUSS_NEWTON, GAUSS_NEWTON, model]


@pytest.mark.parametrize(("share", "sweeps"), [(0.5, [0, 0, 1, 0]), (1.0, [0, 0, 1, 0.5, 0.25, 0.125, 0])])
def test_where_a_full_step_brings_little_indefinite_exact_hessians_are_left_at_once(share, sweeps):
    class Indefinite(Scripted):
        def sweep(self, blend, mu, costates=False):
            return super().sweep(blend, mu)._replace(failed=-1 if blend == 0.0 else 0)

    point, mixed = Indefinite(share), Mixed(Limits(switch=0.09 if share < 1.0 else 0.11))
    assert [mixed.iterate(point).hessian for _ in range(3)] == [GAUSS_NEWTON] * 3
    assert [blend for blend, _ in point.swept] == sweeps


@pytest.mark.parametrize(
    ("alpha", "switch", "shares"),
    [(1.0, 0.09, [0.25, 0.5, 1.0]), (0.5, 0.11, [0.25, 0.25, 0.5, 1.0]), (0.5, 0.09, [0.25] * 4)],
)
def test_a_share_of_the_exact_hessian_grows_after_full_steps_and_near_the_optimum(alpha, switch, shares):
    class IndefiniteAtFirst(Scripted):
        def sweep(self, blend, mu, costates=False):
            return super().sweep(blend, mu)._replace(failed=0 if len(self.swept) < 3 else -1)

    model, point = Mixed(Limits(switch=switch)), IndefiniteAtFirst(0.9, alpha)
    model.numbers.mode = NAMES.index(EXACT)
    assert [model.iterate(point).blend for _ in shares] == shares


def test_levenberg_marquardt_alone_stays():
    model = levenberg_marquardt(Limits())
    point = Scripted(0.9)
    assert {model.iterate(point).hessian for _ in range(20)} == {LEVENBERG_MARQUARDT}


def test_gauss_newton_alone_stays():
    model = gauss_newton(Limits())
    point = Scripted(0.1, 1.0 / 16.0)
    assert {model.iterate(point).hessian for _ in range(20)} == {GAUSS_NEWTON}


class Rejecting(Scripted):
    """An iterate where no step is accepted; its sweep's k is 3, so that its model's curvature along it is 2/9."""

    def sweep(self, blend, mu, costates=False):
        self.swept.append(mu)
        return Sweep(np.full((1, 1), 3.0), NOTHING, 2.0, 1.0, 1.0, -1)

    def search(self, sweep, longest):
        return Step(0.0, self.cost, NOTHING, NOTHING)


def test_mu_rises_to_what_changes_a_rejected_step():
    """At once, then tenfold: between its first 1e-9 and the curvature along the step it would change nothing."""
    model, point = gauss_newton(Limits()), Rejecting(0.0)
    for _ in range(3):
        model.iterate(point)
    assert point.swept == pytest.approx([1e-9, 2.0 / 9.0, 20.0 / 9.0])


def test_searches_begin_at_one_with_another_mu():
    model, point = gauss_newton(Limits()), Rejecting(0.0)
    model.iterate(point)
    assert model.numbers.longest[NAMES.index(GAUSS_NEWTON)] == 1.0


@pytest.mark.parametrize("alpha", [0.005, 0.1, 1.0])
def test_mu_of_accepted_steps_changes_by_its_factor_alone(alpha):
    model, point = gauss_newton(Limits()), Scripted(0.5, alpha)
    model.iterate(point)
    assert model.numbers.mu[NAMES.index(GAUSS_NEWTON)] == pytest.approx({0.005: 1e-8, 0.1: 1e-9, 1.0: 1e-10}[alpha])
