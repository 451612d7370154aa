"""Stores of many solves opened again: with problems that differ in numbers that vary, by other programs."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import xarray
from scipy.spatial.distance import pdist
from scipy.stats import gaussian_kde, norm, qmc

import ddp
from ddp.many.identity import digest, identity_of
from dynamics import augment
from problems import arm, lifted, pendulum


@pytest.mark.parametrize("change", ["masses", "x0", "both"])
def test_a_store_is_opened_with_a_problem_of_other_numbers_where_these_vary(change, problem, serial):
    numbers = {"masses": 1.37 * problem.dynamics.masses, "x0": problem.x0 + 0.3}
    other = problem.varying(numbers if change == "both" else {change: numbers[change]})
    opened = ddp.Solutions.open(serial._source.store.root, other)
    assert np.array_equal(opened.solution(17).X, serial.X[17])
    assert opened.solution(17).stationarity() < 1e-6
    assert opened.consistency() == serial.consistency()


def test_a_store_is_opened_with_no_problem_that_differs_in_anything_else(problem, serial, tmp_path):
    path = serial._source.store.root
    heavier = pendulum.swing_up(horizon=60, control_weight=0.2).varying(masses=2.0 * problem.dynamics.masses)
    with pytest.raises(ddp.ProblemError, match=r"another problem, which differs in running\[0\] \(ControlCost\)$"):
        ddp.Solutions.open(path, heavier)
    with pytest.raises(ddp.ProblemError, match="another problem, which differs in dynamics,"):
        ddp.Solutions.open(path, arm.reach("ur5", horizon=60))
    reach = arm.reach("ur5", horizon=10)
    poses = np.stack([reach.terminal[0].target.homogeneous] * 2)
    few = ddp.solve_many(reach, {"target": poses}, ddp.DDP(max_iterations=1), executor=1, into=tmp_path / "a.zarr")
    turned = poses[0] @ np.diag([-1.0, -1.0, 1.0, 1.0])
    opened = ddp.Solutions.open(tmp_path / "a.zarr", reach.varying(target=turned))
    assert np.array_equal(opened.solution(1).X, few.X[1])
    with pytest.raises(ddp.ProblemError, match=r"another problem, which differs in terminal\[0\]"):
        ddp.Solutions.open(tmp_path / "a.zarr", reach.varying({"terminal[0].weights": np.ones(6)}))


def test_solutions_are_a_table_with_a_row_for_each_sample_that_is_there(problem, over, serial, tmp_path):
    table = serial.to_pandas()
    assert len(table) == len(serial)
    assert table["cost"].to_numpy() == pytest.approx(serial.cost, abs=0.0)
    assert table["start"].tolist() == [serial.starts[i] for i in serial.start]
    columns = {f"{name}{list(at) or ''}": (name, at) for name in over for at in np.ndindex(over[name].shape[1:])}
    assert set(columns) < set(table)
    for column, (name, at) in columns.items():
        assert np.array_equal(table[column], over[name][:, *at])
    share = {"executor": 1, "start": "neighbours", "shard": (3, 3), "verify": False}
    part = ddp.solve_many(problem, over, into=tmp_path / "a.zarr", **share)
    assert len(part.to_pandas()) == part.done.sum() < len(part)


def test_inertias_do_not_depend_on_the_masses_before():
    robot, rng = arm.reach("ur5").dynamics.robot, np.random.default_rng(0)
    masses = robot.masses
    for factors in rng.uniform(0.5, 2.0, (20, len(masses))):
        assert np.array_equal(robot.with_masses(factors * masses).with_masses(masses).tree.inertia, robot.tree.inertia)


def test_a_store_of_another_start_is_refused_in_words(problem, over, tmp_path):
    few = {name: values[:2] for name, values in over.items()}
    starts = [ddp.solve(problem, ddp.DDP(max_iterations=count), throw=False) for count in (1, 2)]
    ddp.solve_many(problem, few, executor=1, start=starts[0], into=tmp_path / "a.zarr")
    with pytest.raises(ddp.ProblemError, match="is of another plan: the solution that solves start from differs;"):
        ddp.solve_many(problem, few, executor=1, start=starts[1], into=tmp_path / "a.zarr")


def test_a_store_is_read_from_whatever_folder_a_program_turns_to(problem, over, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = {name: values[:2] for name, values in over.items()}
    made = ddp.solve_many(problem, few, executor=1, into="a.zarr")
    opened, states = ddp.Solutions.open("a.zarr", problem), made.X
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    for one in (made, opened):
        assert np.array_equal(one.solution(1).X, states[1])
        assert np.isfinite(one.U[:]).all()


def test_arrays_of_a_store_take_masks_of_samples_as_those_in_memory_do(serial):
    dear = serial.cost > np.median(serial.cost)
    assert np.array_equal(serial.X[dear], serial.X[:][dear])
    with pytest.raises(IndexError):
        serial.X[dear[1:]]


def test_arrays_of_a_store_are_sent_to_other_processes(serial):
    for sent in (pickle.loads(pickle.dumps(serial.X)), copy.deepcopy(serial.X)):
        np.testing.assert_array_equal(sent[3:5], serial.X[3:5])
        assert repr(sent) == repr(serial._source["X"])


def test_a_store_becomes_a_file_of_netcdf(serial, tmp_path):
    with xarray.open_zarr(serial._source.store.root, consolidated=False) as data:
        data.load().to_netcdf(tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc") as data:
        assert np.array_equal(data["X"].values, serial.X[:])
        assert data.starts.split("; ") == list(serial.starts)


def test_distributions_of_scipy_are_the_same_whatever_numpys_random_numbers_are():
    same = digest(norm(0.5, 2.0)), digest(gaussian_kde(np.arange(5.0)))
    np.random.seed(3)  # noqa: NPY002
    assert (digest(norm(0.5, 2.0)), digest(gaussian_kde(np.arange(5.0)))) == same
    assert digest(norm(0.5, 3.0)) != same[0]


def test_functions_and_samplers_of_scipy_are_the_same_in_every_process():
    code = (
        "from scipy.spatial.distance import pdist\nfrom scipy.stats import qmc\nfrom ddp.many.identity import digest\n"
        "print(digest(pdist), digest(qmc.Sobol(2, seed=1)))"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert there == [digest(pdist), digest(qmc.Sobol(2, seed=1))]


class Slow:
    """A cost with a gradient, which its term differences."""

    weight = 1.0

    def value(self, x, u):
        return 0.25 * self.weight * (x @ x) ** 2

    def gradient(self, x, u):
        return self.weight * np.append((x @ x) * x, 0.0 * u)


def test_problems_that_were_solved_are_the_problems_that_they_were(problem):
    plain = replace(problem, running=[*problem.running, Slow()])
    made = lifted(plain, augment.rates(plain.dynamics), [0.0])
    before = identity_of(made, None)
    ddp.solve(made, ddp.DDP(max_iterations=2), throw=False)
    assert identity_of(made, None) == before


def test_attributes_of_classes_are_part_of_what_their_objects_do(monkeypatch):
    cost, paid = Slow(), lambda x, u: Slow.weight * (u @ u)
    before = digest(cost), digest(paid)
    monkeypatch.setattr(Slow, "weight", 2.0)
    assert digest(cost) != before[0]
    assert digest(paid) != before[1]


class Inner:
    gain = 1.0


class Outer:
    kinds = (Inner,)

    @staticmethod
    def gain():
        return Inner.gain


def named(u):
    return Inner.gain * u


def doubled(u):
    return 2.0 * named(u)


@pytest.mark.parametrize(
    "function", [lambda x, u: Outer.kinds[0].gain * u, lambda x, u: Outer.gain() * u, lambda x, u: doubled(u)]
)
def test_attributes_of_classes_count_however_functions_come_to_them(function, monkeypatch):
    before = digest(function)
    monkeypatch.setattr(Inner, "gain", 2.0)
    assert digest(function) != before


def test_attributes_of_functions_are_part_of_what_they_do():
    def made(weight):
        def paid(x, u):
            return paid.weight * (u @ u)

        paid.weight = weight
        return paid

    assert digest(made(1.0)) == digest(made(1.0)) != digest(made(2.0))


def test_a_store_that_is_opened_without_zarr_names_its_path(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ddp.ProblemError, match=r"^path: expected zarr, got none: .*mayne\[batch\]"):
        ddp.Solutions.open(tmp_path)
