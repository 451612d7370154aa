"""Many solves: what they cost beside a loop, how good their optima are, and what kills leave.

    python tests/benchmarks/batches.py overhead quality kills soak twins --samples 1000

CPU times are of this process and all its children; every comparison is made in one run.
"""

import argparse
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pinocchio as pin

import ddp
from problems import arm, cartpole, gaits, pendulum, quadrotor, quadruped


def cpu():
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(call):
    """A result, with CPU and wall seconds."""
    begin, wall = cpu(), time.perf_counter()
    result = call()
    return result, cpu() - begin, time.perf_counter() - wall


def near(problem, spread, count, seed=5):
    """Initial states about the problem's own."""
    d, rng = problem.dynamics, np.random.default_rng(seed)
    return np.array([d.integrate(problem.x0, spread * dx) for dx in rng.normal(size=(count, d.n))])


def warmed(problem, X0):
    return [ddp.solve(problem.starting_at(x), throw=False) for x in X0[:2]]


def overhead(samples):
    """CPU of a batch over that of a loop; of pools, without what it costs to start them, measured with few samples."""
    problem = arm.reach("ur5")
    X0 = near(problem, 0.1, samples)
    warmed(problem, X0)
    few = 2 * 64
    for name in ("this process", "threads", "2 processes", "ProcessPoolExecutor", "Dask"):
        loop = min(timed(lambda: [ddp.solve(problem.starting_at(x), throw=False) for x in X0])[1] for _ in range(2))

        def batch(X, name=name):
            if name == "Dask":
                import distributed

                cluster = distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None)
                with cluster, distributed.Client(cluster) as client, client.get_executor() as executor:
                    return ddp.solve_many(problem, {"x0": X}, executor=executor)
            if name == "threads":
                with ThreadPoolExecutor(2) as executor:
                    return ddp.solve_many(problem, {"x0": X}, executor=executor)
            if name == "ProcessPoolExecutor":
                with ProcessPoolExecutor(2, get_context("spawn")) as executor:
                    return ddp.solve_many(problem, {"x0": X}, executor=executor)
            return ddp.solve_many(problem, {"x0": X}, executor=1 if name == "this process" else 2)

        small = min(timed(lambda: batch(X0[:few]))[1] for _ in range(2))
        (_, whole, wall) = timed(lambda: batch(X0))
        each = (whole - small) / (samples - few)
        print(f"{name}: loop {1e3 * loop / samples:.3f} ms a solve, batch {1e3 * each:.3f} ms, overhead", end=" ")
        print(f"{1e6 * (each - loop / samples):+.0f} us; wall {wall:.1f} s, CPU {whole:.1f} s", flush=True)


def quality(samples):
    """Share of samples at the best optimum known, iterations and time, from own guesses and from neighbours."""
    problem = arm.reach("ur5")
    target, rng = problem.terminal[0].target, np.random.default_rng(5)
    box = rng.uniform(-0.2, 0.2, (samples, 3))
    cases = {f"UR5, x0 of spread {s}": (problem, {"x0": near(problem, s, samples)}) for s in (0.1, 0.3)}
    cases["UR5, targets in a box of 40 cm"] = problem, {
        "target": np.array([pin.SE3(target.rotation, target.translation + d).homogeneous for d in box])
    }
    hyq = quadruped.reorientation()
    cases["HyQ reorientation, x0 of spread 0.05"] = hyq, {"x0": near(hyq, 0.05, max(20, samples // 5))}
    for title, (own, over) in cases.items():
        warmed(own, [own.x0])
        count = len(next(iter(over.values())))
        varied = [own.varying({name: values[i] for name, values in over.items()}) for i in range(count)]
        _, a, _ = timed(lambda varied=varied: [ddp.solve(one, throw=False) for one in varied])
        cold = ddp.solve_many(own, over, executor=1)
        ddp.solve_many(own, {name: values[:80] for name, values in over.items()}, executor=1, start="neighbours")
        tree, b, _ = timed(lambda own=own, over=over: ddp.solve_many(own, over, executor=1, start="neighbours"))
        best = np.fmin(cold.cost, tree.cost)
        share = [float((one.cost <= best * (1.0 + 1e-6)).mean()) for one in (cold, tree)]
        worse, starts = tree.cost > cold.cost * (1.0 + 1e-6), np.bincount(tree.start, minlength=len(tree.starts))
        print(f"{title}: at the best optimum {share[0]:.3f} cold, {share[1]:.3f} by neighbours; iterations"
              f" {cold.iterations.mean():.1f}, {tree.iterations.mean():.1f}, all {tree.work.mean():.1f}; time"
              f" {b / a:.2f}; worse than cold {int(worse.sum())}; starts {starts.tolist()}; jumps"
              f" {len(tree.consistency())}", flush=True)


def native(samples):
    """The compiled loop beside `solve`, problem by problem, and receding horizons of many arms."""
    for build in (pendulum.swing_up, cartpole.swing_up, arm.reach, quadrotor.loop):
        problem = build()
        X0 = near(problem, 0.1, samples, 1)
        batch = ddp.Batch(problem, samples)
        batch.solve({"x0": X0})
        loop, own, alone = [], [], []
        for part in np.array_split(X0, 5):
            found, a, _ = timed(lambda batch=batch, X0=X0: batch.solve({"x0": X0}))
            own.append(a / samples)
            twins = [problem.starting_at(x) for x in part]
            solved, b, _ = timed(lambda twins=twins: [ddp.solve(twin, throw=False) for twin in twins])
            loop.append(b / len(part))
            alone += solved
        same = sum(int(found.iterations[i]) == one.iterations for i, one in enumerate(alone))
        apart = max(np.abs(found.X[i] - one.X).max() for i, one in enumerate(alone))
        print(f"{build.__module__}: {min(loop) / min(own):.2f} solves for one of a loop (medians"
              f" {np.median(loop) / np.median(own):.2f}); {1e6 * min(own):.0f} us; the same iterations of {same} of"
              f" {samples}, states {apart:.1g} apart, {batch.left} left to solve", flush=True)
    problem, count = arm.reach(horizon=50), 1000
    batch, X = ddp.Batch(problem, count, ddp.DDP(max_iterations=1, last_sweep=False)), near(arm.reach(), 0.1, count)
    rates = []
    for _ in range(20):
        U, seconds, _ = timed(lambda X=X: batch.step(X))
        rates.append(count / seconds)
        X = problem.dynamics.step(X, U)
    print(f"1000 UR5 with horizons of 50 knots: {np.median(rates[5:]):.0f} robot-steps a second, least"
          f" {min(rates[5:]):.0f}", flush=True)  # fmt: skip


SCRIPT = """
import sys, numpy as np, ddp
from problems import pendulum
if __name__ == "__main__":
    over = {"x0": 0.2 * np.random.default_rng(4).normal(size=(int(sys.argv[2]), 2))}
    ddp.solve_many(pendulum.swing_up(), over, executor=2, start=sys.argv[3] or None, into=sys.argv[1], retries=3)
"""


def kills(samples):
    """Driver and workers killed at random moments until the store is whole; compared with one that was left alone."""
    folder, rng = Path(tempfile.mkdtemp(prefix="mayne-kills-")), np.random.default_rng()
    script = folder / "script.py"
    script.write_text(SCRIPT)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    for start in ("", "neighbours"):
        path, driver, workers, orphans, runs, before = folder / f"a{start}.zarr", 0, 0, 0, 0, -1
        lost = False
        while True:
            command = [sys.executable, str(script), str(path), str(samples), start]
            run = subprocess.Popen(command, env=env, start_new_session=True, stderr=subprocess.DEVNULL)
            runs += 1
            while run.poll() is None:
                time.sleep(rng.uniform(1.0, 6.0))
                alive = [pid for pid in session(run.pid) if pid != run.pid]
                if rng.random() < 0.7 and alive and workers < 50:
                    os.kill(int(rng.choice(alive)), signal.SIGKILL)
                    workers += 1
                elif driver < 20 and run.poll() is None:
                    run.kill()
                    driver += 1
            run.wait()
            time.sleep(1.0)
            orphans += len(session(run.pid))
            done = int(ddp.Solutions.open(path).done.sum()) if path.exists() else 0
            lost, before = lost or done < before, done
            if run.returncode == 0:
                break
        over = {"x0": 0.2 * np.random.default_rng(4).normal(size=(samples, 2))}
        ddp.solve_many(pendulum.swing_up(), over, executor=1, start=start or None, into=folder / f"b{start}.zarr")
        same = files(path) == files(folder / f"b{start}.zarr")
        left = {one.name for one in folder.iterdir()} - {f"a{start}.zarr", f"b{start}.zarr", "script.py"}
        print(f"start {start or 'cold'}: {runs} runs, driver killed {driver} times, workers {workers}; same bits"
              f" {same}, rows lost {lost}, orphans {orphans}, files left {sorted(left)}", flush=True)
        for name in ("a", "b"):
            shutil.rmtree(folder / f"{name}{start}.zarr")
    shutil.rmtree(folder)


def session(leader):
    """Processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def soak(samples):
    """Memory and open files while many samples are solved in this process, and over many batches."""
    problem = pendulum.swing_up(horizon=20)
    own = Path("/proc/self")
    for part in range(5):
        X0 = 0.1 * np.random.default_rng(part).normal(size=(samples, 2))
        ddp.solve_many(problem, {"x0": X0}, executor=1, start="neighbours" if part % 2 else None, keep=("U",))
        memory = int((own / "statm").read_text().split()[1]) * resource.getpagesize() / 1e6
        print(f"{(part + 1) * samples} solves: {memory:.1f} MB, {len(os.listdir(own / 'fd'))} files", flush=True)


def twins(samples):
    """Least CPU times of what travels and what varies [us]."""
    def least(call, repeat=300):
        best = float("inf")
        for _ in range(repeat):
            begin = time.process_time_ns()
            call()
            best = min(best, time.process_time_ns() - begin)
        return best / 1e3

    reach = arm.reach("ur5")
    solution, aim = ddp.solve(reach), reach.terminal[0].target
    print(f"twin of UR5: target {least(lambda: reach.varying(target=aim)):.1f}, x0"
          f" {least(lambda: reach.varying(x0=reach.x0)):.1f}, masses"
          f" {least(lambda: reach.varying(masses=reach.dynamics.masses), 20):.0f} us")  # fmt: skip
    for name, problem in (("UR5", reach), ("trot", gaits.trot("go2"))):
        ddp.solve(problem)
        there = pickle.dumps(problem)
        first, second = [], []
        for _ in range(5):
            again = pickle.loads(there)
            first.append(timed(lambda again=again: ddp.solve(again))[1])
            second.append(timed(lambda again=again: ddp.solve(again))[1])
        print(f"{name}: {len(there)} bytes, unpickled in {least(lambda there=there: pickle.loads(there), 50):.0f} us,"
              f" first solve {min(first) / min(second):.3f} of the second")  # fmt: skip
    arrays = sum(getattr(solution, one).nbytes for one in ("X", "U", "k", "K"))
    print(f"solution: arrays and {len(pickle.dumps(solution)) - arrays} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["twins", "overhead", "quality", "native"])
    parser.add_argument("--samples", type=int, default=1000)
    arguments = parser.parse_args()
    known = {"overhead": overhead, "quality": quality, "kills": kills, "soak": soak, "twins": twins,
             "native": native}  # fmt: skip
    for one in arguments.what:
        known[one](arguments.samples)
