"""Engines of clusters: the same bits from Dask and Ray, workers that die, tasks called off, errors in words."""

import importlib.util
import os
import pickle
import sys
from concurrent.futures import wait

import many_systems
import numpy as np
import pytest
from many_systems import DEADLY, Deadly, asleep, drift, of, straight

import ddp
from ddp.many import work
from ddp.many.executors import is_killed
from ddp.many.rows import policy_type, row_type


@pytest.mark.filterwarnings("ignore")  # those of Dask's own
def test_a_store_that_dask_makes_is_the_same_to_the_last_bit(problem, over, serial, tmp_path):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, client.get_executor() as executor:
        again = ddp.solve_many(problem, over, executor=executor, start="neighbours", into=tmp_path / "a.zarr")
    assert of(again) == of(serial)


def test_workers_that_lack_a_part_of_the_problem_say_which(monkeypatch):
    problem = ddp.Problem(drift, [straight()], [many_systems.gained], np.ones(2), 5)
    types = row_type(problem, ("U",), "float64"), policy_type(problem, 0)
    pickled = pickle.dumps(work.Work(problem, ddp.DDP(), *types))
    monkeypatch.delattr(many_systems, "gained")
    with pytest.raises(ddp.ProblemError, match=r"executor: a worker cannot find a part of the problem \(.*'gained'.*"):
        work.run("digest", pickled, None)


@pytest.mark.parametrize(("module", "name", "expected"), [
    ("distributed.scheduler", "KilledWorker", True), ("ray.exceptions", "WorkerCrashedError", True),
    ("ray.exceptions", "OutOfMemoryError", True), ("ray.exceptions", "RayTaskError", False),
    ("torch", "OutOfMemoryError", False),
])  # fmt: skip
def test_lost_workers_are_no_errors_of_the_function(module, name, expected):
    loss = type(name, (Exception,), {"__module__": module})
    assert is_killed(type("Narrower", (loss,), {})()) is expected


if importlib.util.find_spec("ray"):  # wherever somebody has installed it
    pytestmark = pytest.mark.filterwarnings("ignore")  # those of Ray's own

    @pytest.fixture(scope="module")
    def executor():
        """Ray on this machine, with two workers."""
        import ray

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield ddp.RayExecutor()
        ray.shutdown()

    @pytest.mark.parametrize("start", [None, "neighbours"])
    def test_what_ray_solves_is_the_same_to_the_last_bit(start, executor, problem, over, serial, tmp_path):
        alone = serial if start else ddp.solve_many(problem, over, executor=1, into=tmp_path / "b.zarr")
        again = ddp.solve_many(problem, over, executor=executor, start=start, into=tmp_path / "a.zarr")
        assert of(again) == of(alone)

    def test_samples_that_kill_a_worker_of_ray_are_marked_and_nothing_else_is_lost(executor):
        problem = ddp.Problem(drift, [straight()], [Deadly()], np.zeros(2), 5)
        X0 = 0.1 * np.random.default_rng(0).normal(size=(100, 2))
        X0[70] = DEADLY
        many = ddp.solve_many(problem, {"x0": X0}, executor=executor, retries=1)
        marked = [one.sample for one in many.failures()]
        assert 70 in marked
        assert set(marked) <= set(range(64, 96))  # its block
        assert many.failures()[0].status == "its worker died, 2 times"
        assert many.converged.sum() == 100 - len(marked)

    def test_tasks_of_ray_that_are_called_off_leave_its_workers_free(executor):
        sleeping = [executor.submit(asleep, 300.0) for _ in range(4)]
        assert all([one.cancel() for one in sleeping])
        assert wait(sleeping, 60.0).not_done == set()
        assert executor.submit(asleep, 0.0).result(timeout=60.0) > 0

    def test_errors_of_functions_that_ray_runs_are_those_of_the_functions(executor, monkeypatch):
        monkeypatch.setattr(many_systems, "GAIN", 3.0)
        problem = ddp.Problem(drift, [straight()], [many_systems.gained], np.ones(2), 5)
        with pytest.raises(ddp.ProblemError, match=r"^terminal\[0\].*: reads other values in another process"):
            ddp.solve_many(problem, {"x0": np.ones((3, 2))}, executor=executor)
        with pytest.raises(TypeError, match=r"^'str' object cannot be"):
            executor.submit(asleep, "long").result(timeout=60.0)
