"""One side of the comparison: answers the requests of compare.py in one source tree, a JSON document on each line.

Use only what both sides have: the public functions, and of kernels what `ddp.compiling.kernel.registered` lists.
"""

import inspect
import json
import re
import resource
import sys
import time

import numpy as np
import pinocchio as pin

import ddp
import dynamics
import problems

NOISE = {
    "pendulum/swing-up": 1.0, "cartpole/swing-up": 3.0, "arm/reach": 5.0, "arm/out-of-reach": 5.0, "arm/throw": 5.0,
    "quadruped/reorientation": 5.0, "quadrotor/loop": 0.5,
}  # fmt: skip
"""Standard deviation of the noise on the controls of random starts."""

JOINTS = (
    pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ, pin.JointModelPX, pin.JointModelPZ, pin.JointModelSpherical,
    pin.JointModelPlanar, pin.JointModelTranslation, pin.JointModelRUBZ, pin.JointModelFreeFlyer,
)  # fmt: skip


def random_tree(seed):
    """A robot of two to eight joints of random kinds, inertias and placements."""
    rng = np.random.default_rng(seed)
    model = pin.Model()
    for j in range(rng.integers(2, 9)):
        place = pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(size=3))
        joint = model.addJoint(int(rng.integers(0, j + 1)), JOINTS[rng.integers(len(JOINTS))](), place, f"joint{j}")
        root = rng.normal(size=(3, 3))
        inertia = pin.Inertia(float(rng.uniform(0.5, 2.0)), rng.normal(size=3), root @ root.T + np.eye(3))
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    return dynamics.load(model), rng


def golden(trees, file, **_):
    """Save what the public functions of rigid bodies return on random trees, eleven samples each."""
    found = {}
    for seed in range(trees):
        robot, rng = random_tree(seed)
        q = np.array([robot.random_configuration(rng) for _ in range(11)])
        v, a, mu = rng.normal(size=(3, 11, robot.nv))
        results = {
            "id": dynamics.inverse_dynamics(robot, q, v, a),
            "fd": dynamics.forward_dynamics(robot, q, v, a),
            "id1": dynamics.inverse_dynamics_derivatives(robot, q, v, a),
            "fd1": dynamics.forward_dynamics_derivatives(robot, q, v, a),
            "id2": dynamics.inverse_dynamics_hessian(robot, q, v, a, mu),
            "fd2": dynamics.forward_dynamics_hessian(robot, q, v, a, mu),
            "one": dynamics.inverse_dynamics_hessian(robot, q[0], v[0], a[0], mu[0]),
        }
        for name, value in results.items():
            parts = {"": value} if isinstance(value, np.ndarray) else value._asdict()
            found |= {f"{seed}/{name}/{part}": array for part, array in parts.items()}
    np.savez(file, **found)
    return {"arrays": len(found)}


EARLIER = {"effort": None, "grip": 1.0}
"""Values of parameters with which gaits plan as they did before they had these."""


def built(entry):
    """The problem of an entry of the registry, the same one in both trees."""
    known = inspect.signature(entry.build).parameters
    return entry.build(**{name: value for name, value in EARLIER.items() if name in known})


def solver_of(kind):
    """The solver of a name."""
    return {"DDP": ddp.DDP, "iLQR": ddp.ILQR}[kind](max_iterations=1000)


def outcome(solution):
    """Numbers that two solves are compared by."""
    return {"iterations": solution.iterations, "cost": solution.cost, "converged": solution.converged}


def solve(name, kind, repeat, **_):
    """Solve a problem of the registry from its guess; CPU seconds of each repetition, in this thread."""
    entry = problems.find(name)
    problem = built(entry)
    guess, solver = entry.guess(problem), solver_of(kind)
    spent = []
    for _ in range(repeat):
        before = time.thread_time()
        solution = ddp.solve(problem, solver, guess, throw=False)
        spent.append(time.thread_time() - before)
    return {**outcome(solution), "cpu": spent}


def starts(name, seeds, **_):
    """Solve a problem from controls with noise, once for each seed."""
    entry = problems.find(name)
    problem = built(entry)
    guess = entry.guess(problem)
    if guess is None:
        guess = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    rows = []
    for seed in range(seeds):
        U = guess + NOISE[name] * np.random.default_rng(1000 + seed).normal(size=guess.shape)
        rows.append(outcome(ddp.solve(problem, guess=U, throw=False)))
    return {"rows": rows}


def compiled(name, **_):
    """Solve a problem once, from an empty cache: CPU seconds, memory, and the machine code of every kernel."""
    from ddp.compiling import kernel

    before = time.process_time()
    solve(name, "DDP", 1)
    spent = time.process_time() - before
    code = {}
    for one in kernel.registered():
        for args, made in one.overloads.items():
            code[f"{one.py_func.__module__}.{one.py_func.__qualname__}{args}"] = counts(made.library.get_asm_str())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu": spent, "process": time.process_time(), "memory": memory, "kernels": code}


_INSTRUCTION = re.compile(r"^\t([a-z]\w*)\s*(.*)")


def counts(assembly):
    """Numbers of instructions of a kernel: all, within innermost loops, fused multiply-adds, on the stack."""
    labels, jumps, found = {}, [], []
    for line in assembly.splitlines():
        if line.startswith(".L") and ":" in line:
            labels[line.partition(":")[0]] = len(found)
        elif parts := _INSTRUCTION.match(line):
            operation, operands = parts.groups()
            if operation.startswith("j"):
                jumps.append((len(found), operands.split()[0] if operands else ""))
            found.append((operation, operands))
    loops = {(labels[target], at) for at, target in jumps if labels.get(target, at + 1) <= at}
    outer = {one for one in loops for other in loops if other != one and one[0] <= other[0] and other[1] <= one[1]}
    return {
        "instructions": len(found),
        "innermost": sum(end - begin + 1 for begin, end in loops - outer),
        "fma": sum(operation.startswith("vfm") or operation.startswith("vfn") for operation, _ in found),
        "stack": sum("(%rsp)" in operands or "(%rbp)" in operands for _, operands in found),
    }


REQUESTS = {"golden": golden, "solve": solve, "starts": starts, "compiled": compiled}

if __name__ == "__main__":
    print(json.dumps({"tree": ddp.__file__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(REQUESTS[request["do"]](**request)), flush=True)
