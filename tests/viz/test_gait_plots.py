"""Gait diagrams and plots of forces show what was given, in the colours of the feet."""

from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest

import ddp
import viz
from ddp.errors import ProblemError
from dynamics.phases.reaction import friction, ground_forces, standing
from dynamics.steps.free_start import inside
from problems import gaits, pendulum
from problems.contact_costs import friction_cone
from problems.costs import ControlCost
from problems.systems import periodic
from viz.gaits import share, spans
from viz.shapes import COLORS

N, DT = 40, 0.05
PHASE = np.arange(N) % 20
SCHEDULE = {"lf": PHASE < 10, "rf": PHASE >= 10, "lh": PHASE >= 10, "rh": PHASE < 10}
FORCES = {
    name: np.where(stands[:, None], [20.0 + 10.0 * k, 0.0, 100.0], np.nan)
    for k, (name, stands) in enumerate(SCHEDULE.items())
}


def painted(path, foot):
    """Number of pixels that have a foot's colour."""
    image = matplotlib.image.imread(path)[:, :, :3]
    return int((np.abs(image - np.array(COLORS[foot][:3])).max(axis=2) < 0.01).sum())


def test_bars_are_the_stances(tmp_path):
    times = 0.5 * np.arange(9)
    assert spans(np.array([1, 1, 0, 0, 1, 0, 1, 1], dtype=bool), times) == [(0.0, 1.0), (2.0, 0.5), (3.0, 1.0)]
    assert spans(np.zeros(8, dtype=bool), times) == []


def test_the_longer_a_foot_stands_the_longer_its_bars(tmp_path):
    area = []
    for duty in (5, 10, 15, 20):
        path = viz.plot_schedule(SCHEDULE | {"lh": duty > PHASE}, DT, tmp_path / f"{duty}.png", title="a trot")
        assert path == tmp_path / f"{duty}.png"
        area.append(painted(path, 2) / painted(path, 0))
    assert np.allclose(area, [0.5, 1.0, 1.5, 2.0], rtol=0.02)


def test_time_in_the_air_is_grey(tmp_path):
    def grey(path):
        image = matplotlib.image.imread(path)[:, :, :3]
        return int((np.abs(image - 0xE4 / 255).max(axis=2) < 0.01).sum())

    flying = {name: stands & (PHASE != 5) & (PHASE != 15) for name, stands in SCHEDULE.items()}
    trot = grey(viz.plot_schedule(SCHEDULE, DT, tmp_path / "trot.png"))
    assert grey(viz.plot_schedule(flying, DT, tmp_path / "flying.png")) > 5 * trot


def test_durations_may_differ(tmp_path):
    steps = np.where(PHASE < 10, 0.1, 0.05)
    path = viz.plot_schedule(SCHEDULE, steps, tmp_path / "uneven.png")
    assert painted(path, 0) == pytest.approx(2.0 * painted(path, 1), rel=0.02)
    assert viz.plot_forces(FORCES, steps, tmp_path / "forces.png").exists()


@pytest.fixture(scope="module")
def stood():
    return ddp.solve(gaits.stand("solo12"), ddp.DDP(max_iterations=1), throw=False)


def test_a_solution_is_drawn_as_what_it_tells(stood, tmp_path):
    system, mu = stood.problem.dynamics, friction(stood.problem)
    assert mu is not None
    forces = ground_forces(system, stood.X, stood.U)
    told = viz.plot_schedule(stood, tmp_path / "a.png"), viz.plot_forces(stood, path=tmp_path / "b.png")
    given = (
        viz.plot_schedule(standing(system), system.durations, tmp_path / "c.png"),
        viz.plot_forces(forces, system.durations, tmp_path / "d.png", mu),
    )
    for one, other in zip(told, given, strict=True):
        assert np.array_equal(matplotlib.image.imread(one), matplotlib.image.imread(other))


def test_a_composition_around_a_robot_on_feet_is_drawn_as_the_robot(tmp_path):
    free = ddp.solve(periodic.trot("solo12"), ddp.DDP(max_iterations=1), throw=False)
    system, X, U = inside(free.problem.dynamics, free.X, free.U)
    known = viz.plot_forces(ground_forces(system, X, U), system.durations, tmp_path / "a.png", friction(free.problem))
    told = viz.plot_forces(free, path=tmp_path / "b.png"), viz.plot_schedule(free, tmp_path / "c.png")
    given = known, viz.plot_schedule(standing(system), system.durations, tmp_path / "d.png")
    for one, other in zip(told, given, strict=True):
        assert np.array_equal(matplotlib.image.imread(one), matplotlib.image.imread(other))


def test_each_foot_has_its_own_friction_about_its_own_normal(stood, tmp_path):
    plain, system = stood.problem, stood.problem.dynamics
    contacts, N = system.phases[0].contacts, plain.horizon
    slanted = friction_cone(system, contacts[:1], 0.4, 1.0, normal=[0.6, 0.0, 0.8])
    cones = [slanted, friction_cone(system, contacts[1:], 0.9, 1.0)]
    problem = ddp.Problem(system, [ControlCost(np.zeros(system.nu), 1.0)], [], plain.x0, N, during={range(N): cones})
    own = viz.plot_forces(replace(stood, problem=problem), path=tmp_path / "own.png")
    forces = ground_forces(system, stood.X, stood.U)
    first, *others = (contact.frame for contact in contacts)
    x, z = np.array([0.8, 0.0, -0.6]), np.array([0.6, 0.0, 0.8])
    forces[first] = forces[first] @ np.stack([x, [0.0, 1.0, 0.0], z], axis=1)
    mu = {first: 0.4} | dict.fromkeys(others, 0.9)
    given = viz.plot_forces(forces, system.durations, tmp_path / "given.png", mu)
    assert np.array_equal(matplotlib.image.imread(own), matplotlib.image.imread(given))


@pytest.mark.parametrize("plot", [viz.plot_schedule, viz.plot_forces])
def test_a_solution_without_contacts_or_with_durations_is_refused(plot, stood, tmp_path):
    with pytest.raises(ProblemError, match="dt: expected none beside a solution"):
        plot(stood, 0.1, tmp_path / "a.png")
    with pytest.raises(ProblemError, match="solution: expected one of a problem with contacts, got one of"):
        plot(ddp.solve(pendulum.swing_up(), ddp.DDP(max_iterations=1), throw=False), tmp_path / "a.png")
    with pytest.raises(ProblemError, match=r"^path: expected .*, got None"):
        plot(stood)


def test_the_share_of_friction_is_that_of_coulombs_law(rng):
    force = rng.normal(size=(50, 3)) * [30.0, 30.0, 100.0]
    force[:3] = [[0.0, 0.0, 0.0], [3.0, 4.0, 10.0], [1.0, 0.0, -10.0]]
    used = share(force, 0.5)
    assert np.isnan(used[0])
    assert used[1] == pytest.approx(1.0)
    assert np.isposinf(used[2])
    inside = np.linalg.norm(force[:, :2], axis=1) <= 0.5 * force[:, 2]
    assert np.array_equal((used <= 1.0)[1:], inside[1:])


@pytest.mark.parametrize("mu", [None, 0.6, dict.fromkeys(FORCES, 0.4)])
def test_every_foot_is_seen_among_the_forces(tmp_path, mu):
    path = viz.plot_forces(FORCES, DT, tmp_path / "forces.png", mu=mu, title="a trot")
    assert all(painted(path, foot) > 500 for foot in range(4))


def test_forces_that_pull_or_slip_are_drawn(tmp_path):
    wild = {"lf": np.tile([500.0, 0.0, 1.0], (N, 1)), "rf": np.tile([0.0, 0.0, -50.0], (N, 1))}
    path = viz.plot_forces(wild, DT, tmp_path / "wild.png", mu=0.5)
    assert min(painted(path, 0), painted(path, 1)) > 500


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_other_formats_are_by_suffix(tmp_path, suffix):
    assert viz.plot_schedule(SCHEDULE, DT, tmp_path / f"s{suffix}").stat().st_size > 1000
    assert viz.plot_forces(FORCES, DT, tmp_path / f"f{suffix}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("schedule", "dt", "name", "message"),
    [
        ({}, DT, "s.png", "schedule: expected at least one foot"),
        ([[True]], DT, "s.png", "schedule: expected a mapping"),
        ({"lf": []}, DT, "s.png", r"schedule\['lf'\]: expected at least one flag"),
        ({"lf": [0, 2]}, DT, "s.png", r"schedule\['lf'\]: expected at least one flag, true or false"),
        ({"lf": [0, 1], "rf": [0]}, DT, "s.png", r"schedule\['rf'\]: expected shape \(2,\), got \(1,\)"),
        (SCHEDULE, 0.0, "s.png", "dt: expected a positive number"),
        (SCHEDULE, [0.1], "s.png", r"dt: expected shape \(40,\)"),
        (SCHEDULE, DT, "s.bmp", r"expected \.png"),
        (SCHEDULE, DT, "no/s.png", "existing folder"),
    ],
)
def test_a_bad_schedule_is_named(tmp_path, schedule, dt, name, message):
    with pytest.raises(ProblemError, match=message):
        viz.plot_schedule(schedule, dt, tmp_path / name)


@pytest.mark.parametrize(
    ("forces", "mu", "message"),
    [
        ({}, None, "forces: expected at least one foot"),
        ({"lf": np.ones((4, 3)), "rf": np.ones((5, 3))}, None, r"forces\['rf'\]: expected 4 rows, got 5"),
        ({"lf": np.ones((0, 3))}, None, r"forces\['lf'\]: expected at least 1 rows, got 0"),
        (FORCES, 0.0, "mu: expected a positive number"),
        (FORCES, {"lf": 0.5}, "mu: expected a coefficient for each foot, got none for 'rf'"),
        (FORCES, {"head": 0.5}, "mu: expected names of frames with forces, got 'head'"),
    ],
)
def test_bad_forces_are_named(tmp_path, forces, mu, message):
    with pytest.raises(ProblemError, match=message):
        viz.plot_forces(forces, DT, tmp_path / "f.png", mu=mu)
