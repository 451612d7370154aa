"""Limits of controls that a composition does not keep are told of, and hold where the advice is followed."""

import dataclasses

import numpy as np
import pytest

import ddp
from ddp import doubts
from dynamics import augment
from problems import arm
from problems.costs import ControlCost
from problems.lifted import lifted

MOST = np.array([150.0, 40.0, 150.0, 28.0, 28.0, 28.0])


@pytest.fixture(scope="module")
def limited():
    return dataclasses.replace(arm.reach("ur5", horizon=30), control_limits=(-MOST, MOST))


def test_torque_limits_that_rates_leave_out_are_told_and_kept_by_a_constraint(limited, caplog, monkeypatch):
    monkeypatch.setattr(doubts, "_told", set())
    hold, smooth = limited.dynamics.nominal_control(limited.x0), ControlCost(np.zeros(6), np.full(6, 1e-6))
    system = augment.rates(limited.dynamics)
    loose = lifted(limited, system, hold, running=[smooth])
    assert caplog.messages == [
        "control_limits: those of the problem are left out by rates of controls: have"
        " constraints=[Inequality(lambda x, u: u, lower=..., upper=...)] of the problem hold them"
    ]
    held = ddp.Inequality(lambda x, u: u, lower=-MOST, upper=MOST)
    plain = dataclasses.replace(limited, control_limits=None, constraints=[held])
    kept = ddp.solve(lifted(plain, system, hold, running=[smooth]))
    assert np.abs(ddp.solve(loose).X[:, 12:]).max(axis=0)[1] > 45.0
    assert (np.abs(kept.X[:-1, 12:]) <= MOST + 1e-8).all()
    assert len(caplog.messages) == 1


def test_nothing_is_told_where_limits_are_the_compositions_or_there_are_none(limited, caplog, monkeypatch):
    monkeypatch.setattr(doubts, "_told", set())
    lifted(limited, augment.delays(limited.dynamics, 2, np.stack([-MOST, MOST], axis=1)), np.zeros(12))
    plain = dataclasses.replace(limited, control_limits=None)
    lifted(plain, augment.rates(plain.dynamics, np.tile([-9.0, 9.0], (6, 1))), np.zeros(6))
    assert not caplog.messages
