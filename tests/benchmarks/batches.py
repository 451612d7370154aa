"""Many solves: what they cost beside a loop, how good their optima are, and what kills leave.

    python tests/benchmarks/batches.py overhead quality native twins memory --samples 1000
    python tests/benchmarks/batches.py predictions --samples 200
    python tests/benchmarks/batches.py kills --samples 30000      # until 20 drivers and 50 workers have been killed
    python tests/benchmarks/batches.py soak --samples 100000
    python tests/benchmarks/batches.py efficiency --samples 2000  # on a quiet machine

CPU times are of this process and all its children; every comparison is made in one run.
"""

import argparse
import contextlib
import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from processes import descendants, resident, rolled, session, spent, timed, workers_of

import ddp
from ddp.interior.solve import is_small
from ddp.systems.structure import is_underactuated
from dynamics.robots.libraries import pin  # workers import this file, and need no Pinocchio
from problems import arm, cartpole, gaits, pendulum, quadrotor, quadruped


def near(problem, spread, count, seed=5):
    """Initial states about the problem's own."""
    d, rng = problem.dynamics, np.random.default_rng(seed)
    return np.array([d.integrate(problem.x0, spread * dx) for dx in rng.normal(size=(count, d.n))])


def warmed(problem, X0):
    return [ddp.solve(problem.starting_at(x), throw=False) for x in X0[:2]]


def engines():
    """Executors that there are, as contexts, by name."""
    @contextlib.contextmanager
    def dask():
        cluster = distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster) as client, client.get_executor() as executor:
            yield executor

    found = {
        "this process": lambda: contextlib.nullcontext(1), "threads": lambda: ThreadPoolExecutor(2),
        "2 processes": lambda: contextlib.nullcontext(2),
        "ProcessPoolExecutor": lambda: ProcessPoolExecutor(2, get_context("spawn")),
    }  # fmt: skip
    with contextlib.suppress(ImportError):
        import distributed

        found["Dask"] = dask
    with contextlib.suppress(ImportError):
        import ray

        if not ray.is_initialized():
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        found["Ray"] = lambda: contextlib.nullcontext(ddp.RayExecutor())
    return found


def overhead(samples=1000):
    """CPU a solve of a batch beside a loop of `solve` and beside a bare `Batch`, without what starting workers costs.

    That is measured with 64 samples; CPU is of this process and of all that it has started.
    """
    problem, few = arm.reach("ur5"), 64
    X0 = near(problem, 0.1, samples)
    warmed(problem, X0)
    bare = ddp.Batch(problem, samples)
    bare.solve({"x0": X0})
    for name, engine in engines().items():
        loops, bares, own = [], [], {few: [], samples: []}
        with engine() as executor:
            ddp.solve_many(problem, {"x0": X0}, executor=executor)
            for _ in range(3):
                loops.append(timed(lambda: [ddp.solve(problem.starting_at(x), throw=False) for x in X0[:200]])[1] / 200)
                bares.append(timed(lambda: bare.solve({"x0": X0}))[1] / samples)
                for count, used in own.items():
                    before = spent()
                    ddp.solve_many(problem, {"x0": X0[:count]}, executor=executor)
                    used.append(spent() - before)
        each = (min(own[samples]) - min(own[few])) / (samples - few)
        loop, alone = min(loops), min(bares)
        print(f"{name}: a solve takes {1e6 * loop:.0f} us in a loop, {1e6 * alone:.0f} us in a bare Batch,"
              f" {1e6 * each:.0f} us in solve_many: {1e6 * (each - loop):+.0f} and {1e6 * (each - alone):+.0f} us,"
              f" {100 * (each / loop - 1):+.1f} % of the loop's", flush=True)  # fmt: skip


def quality(samples=1000):
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


def predictions(samples=200):
    """Iterations from the nominal policy and from predictions by `Solution.sensitivity`, and what these cost."""
    problem, rng = arm.reach("ur5"), np.random.default_rng(5)
    target, best = problem.terminal[0].target, ddp.solve(problem)
    by, seconds, _ = timed(lambda: best.sensitivity("target"))
    by, seconds, _ = timed(lambda: best.sensitivity("target"))
    print(f"sensitivity to a pose: {1e3 * seconds:.1f} ms")
    for half in (0.02, 0.05, 0.1, 0.2):
        box = rng.uniform(-half, half, (samples, 3))
        poses = [pin.SE3(target.rotation, target.translation + d).homogeneous for d in box]
        twins = [problem.varying(target=pose) for pose in poses]
        starts = {"the policy": [best] * samples, "predictions": [by.predicted(target=pose) for pose in poses]}
        for name, guesses in starts.items():
            solved, seconds, _ = timed(lambda twins=twins, guesses=guesses: [
                ddp.solve(twin, guess=guess, throw=False) for twin, guess in zip(twins, guesses, strict=True)
            ])
            iterations = np.mean([one.iterations for one in solved])
            print(f"targets within {100 * half:.0f} cm, from {name}: {iterations:.2f} iterations,"
                  f" {1e3 * seconds / samples:.2f} ms a solve", flush=True)  # fmt: skip


def native(samples=1000):
    """The compiled loop beside `solve` by rollouts, problem by problem, and by default; receding horizons of arms."""
    rollouts = ddp.DDP(step="rollout")
    for build in (pendulum.swing_up, cartpole.swing_up, arm.reach, quadrotor.loop):
        problem = build()
        X0 = near(problem, 0.1, samples, 1)
        batch = ddp.Batch(problem, samples)
        batch.solve({"x0": X0})
        warmed(problem, X0)
        loop, default, own, same, apart = [], [], [], 0, 0.0
        small = is_small(problem) and is_underactuated(problem.dynamics)
        alike = None if small else rollouts  # the steps of batches, too
        for rows in np.array_split(np.arange(samples), 5):
            found, a, _ = timed(lambda batch=batch, X0=X0: batch.solve({"x0": X0}))
            own.append(a / samples)
            for took, how in ((loop, rollouts), (default, None)):
                twins = [problem.starting_at(X0[i]) for i in rows]  # what a twin has made once serves again
                solved = partial(lambda twins, how: [ddp.solve(twin, how, throw=False) for twin in twins], twins, how)
                took.append(timed(solved)[1] / len(rows))
            for i in rows:
                one = ddp.solve(problem.starting_at(X0[i]), alike, throw=False)
                same += int(found.iterations[i]) == one.iterations
                apart = max(apart, np.abs(found.X[i] - one.X).max())
        print(f"{build.__module__}: {min(loop) / min(own):.2f} solves for one of a loop (medians"
              f" {np.median(loop) / np.median(own):.2f}), {min(default) / min(own):.2f} for one by default;"
              f" {1e6 * min(own):.0f} us; the same iterations of {same} of {samples}, states {apart:.1g} apart,"
              f" {batch.left} left to solve", flush=True)  # fmt: skip
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
from batches import killed
if __name__ == "__main__":
    killed(sys.argv[1], int(sys.argv[2]), sys.argv[3], 2)
"""


def killed(path, samples, start, executor):
    """The batch that is killed: cold pendulums, or quadrupeds that follow neighbours, both some minutes of work."""
    problem = quadruped.reorientation() if start else pendulum.swing_up()
    over = {"x0": near(problem, 0.05 if start else 0.2, samples // 20 if start else samples)}
    ddp.solve_many(problem, over, executor=executor, start=start or None, into=path, keep=("X", "U"), retries=3)


def kills(samples=30000, starts=("", "neighbours")):
    """Driver and workers killed at random moments until the store is whole; compared with one that was left alone."""
    folder, rng = Path(tempfile.mkdtemp(prefix="mayne-kills-")), np.random.default_rng()
    script = folder / "script.py"
    script.write_text(SCRIPT)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    for start in starts:
        path, driver, workers, orphans, runs, before = folder / f"a{start}.zarr", 0, 0, 0, 0, -1
        lost = False
        while True:
            command = [sys.executable, str(script), str(path), str(samples), start]
            run = subprocess.Popen(command, env=env, start_new_session=True, stderr=subprocess.DEVNULL)
            runs += 1
            while run.poll() is None:
                there = parts_of(path)
                begin = time.monotonic()
                while run.poll() is None and parts_of(path) == there:  # kills while something is solved count
                    time.sleep(0.05)
                time.sleep(rng.uniform(0.0, min(3.0, time.monotonic() - begin)))
                alive = [pid for pid in session(run.pid) if pid != run.pid]
                if run.poll() is None and rng.random() < 0.7 and alive and workers < 50:
                    os.kill(int(rng.choice(alive)), signal.SIGKILL)
                    workers += 1
                elif driver < 20 and run.poll() is None:
                    run.kill()
                    driver += 1
            run.wait()
            for _ in range(100):  # a worker that is still importing looks for its driver when it has done so
                if not session(run.pid):
                    break
                time.sleep(0.1)
            orphans += len(session(run.pid))
            done = int(ddp.Solutions.open(path).done.sum()) if path.exists() else 0
            lost, before = lost or done < before, done
            if run.returncode == 0:
                break
        killed(folder / f"b{start}.zarr", samples, start, 1)
        same = files(path) == files(folder / f"b{start}.zarr")
        left = {one.name for one in folder.iterdir()} - {f"a{start}.zarr", f"b{start}.zarr", "script.py"}
        print(f"start {start or 'cold'}: {runs} runs, driver killed {driver} times, workers {workers}; same bits"
              f" {same}, rows lost {lost}, orphans {orphans}, files left {sorted(left)}", flush=True)
        for name in ("a", "b"):
            shutil.rmtree(folder / f"{name}{start}.zarr")
    shutil.rmtree(folder)


def parts_of(path):
    """Names of what a batch has written."""
    folder = path.with_name(f"{path.name}.parts")
    return set(os.listdir(folder)) if folder.is_dir() else set()


def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def soak(samples=100000):
    """Memory, files and threads while many samples are solved in ten batches, through each way."""
    problem, rng, part = pendulum.swing_up(horizon=20), np.random.default_rng(0), max(samples // 10, 64)
    batch, folder = ddp.Batch(problem, part), Path(tempfile.mkdtemp(prefix="mayne-soak-"))
    horizons = ddp.Batch(problem, part, ddp.DDP(max_iterations=1, last_sweep=False))

    def many(X, **given):
        ddp.solve_many(problem, {"x0": X}, keep=("U",), **given)

    def stored(X):
        many(X, executor=1, into=folder / "a.zarr")
        shutil.rmtree(folder / "a.zarr")

    ways = {
        "Batch.solve": lambda X: batch.solve({"x0": X}), "Batch.step": horizons.step, "into a store": stored,
        "neighbours": lambda X: many(X, executor=1, start="neighbours"),
    }  # fmt: skip
    for name, call in ways.items():
        watched(name, call, part, rng)
    for name, engine in engines().items():
        with engine() as executor:
            watched(name, lambda X, executor=executor: many(X, executor=executor), part, rng)
    shutil.rmtree(folder)


def watched(name, call, part, rng):
    """Solve ten batches, and tell what the process has after the second and the last one."""
    told = []
    for i in range(10):
        call(0.1 * rng.normal(size=(part, 2)))
        if i in (1, 9):
            gc.collect()
            workers = sum(resident(pid) for pid in descendants(os.getpid()))
            files, threads = (len(os.listdir(f"/proc/self/{one}")) for one in ("fd", "task"))
            told.append(f"{resident('self'):.1f} + {workers:.0f} MB, {files} files, {threads} threads")
    print(f"{name}: after {2 * part} solves {told[0]}; after {10 * part} {told[1]}", flush=True)


def efficiency(samples=2000):
    """Wall and CPU times of one process and of two: for a quiet machine with two free cores."""
    problem = arm.reach("ur5")
    X0 = near(problem, 0.1, samples)
    for start in (None, "neighbours"):
        for name in ("threads", "ProcessPoolExecutor"):
            alone, shared = [], []
            with engines()[name]() as executor:
                ddp.solve_many(problem, {"x0": X0}, executor=executor, start=start)
                for _ in range(3):
                    for used, who in ((alone, 1), (shared, executor)):
                        before, begin = spent(), time.perf_counter()
                        ddp.solve_many(problem, {"x0": X0}, executor=who, start=start)
                        used.append((time.perf_counter() - begin, spent() - before))
            (wall_1, cpu_1), (wall_2, cpu_2) = (np.min(used, axis=0) for used in (alone, shared))
            print(f"{name}, start {start}: {wall_1:.2f} s alone, {wall_2:.2f} s shared: efficiency by wall"
                  f" {wall_1 / wall_2 / 2:.3f}, of CPU {cpu_1 / cpu_2:.3f}", flush=True)


def memory(samples=1000):
    """Memory of this process after its imports, and the most that workers of a batch have."""
    alone = subprocess.run([sys.executable, "-c", ROLLED], capture_output=True, text=True, check=True).stdout
    print(f"imports of ddp and dynamics: {alone}", end="", flush=True)
    problem, most = arm.reach("ur5"), {}

    def watch():
        while True:
            for pid in workers_of(os.getpid()):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    most[pid] = np.fmax(most.get(pid, 0.0), rolled(pid))
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()
    for start in (None, "neighbours"):
        most.clear()
        ddp.solve_many(problem, {"x0": near(problem, 0.1, samples)}, executor=2, start=start, keep=("U",))
        for one in list(most.values()):
            told = "{:.0f} MB resident, {:.0f} MB its share, {:.0f} MB its own".format(*one)
            print(f"a process of a batch, start {start}: {told}", flush=True)


ROLLED = """
import sys
import ddp, dynamics
sys.path.insert(0, "tests/benchmarks")
from processes import rolled
print("{:.0f} MB resident, {:.0f} MB its share, {:.0f} MB its own".format(*rolled("self")))
"""


def twins(samples=1000):
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
        for _ in range(50):
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
    parser.add_argument("--samples", type=int, help="of each; their own numbers are those above, or 1000")
    arguments = parser.parse_args()
    known = {"overhead": overhead, "quality": quality, "kills": kills, "soak": soak, "twins": twins,
             "native": native, "predictions": predictions, "efficiency": efficiency, "memory": memory}  # fmt: skip
    for one in arguments.what:
        known[one](*([arguments.samples] if arguments.samples else []))
