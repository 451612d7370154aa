"""Lanes move knots in and out unharmed; results are the caller's alone; nothing compiles or allocates twice."""

import threading
from fractions import Fraction
from math import factorial

import numpy as np
import pinocchio as pin
import pytest
from numba.core.runtime import _nrt_python, rtsys
from oracles import as_matrices, contract_rows, random_state, random_tree, relative_error

import dynamics
from ddp.compiling.kernel import compilations, kernel
from ddp.errors import ProblemError
from ddp.machine.aligned import aligned_zeros
from ddp.machine.coefficients import stumpff
from ddp.machine.memory import memory_of, rows_of
from ddp.machine.number import WIDTH
from ddp.machine.packing import pack, unpack_columns
from ddp.machine.recycled import recycled
from ddp.systems.structure import numbers_of_blocks
from ddp.systems.system import Expansion

SYSTEMS = [("ur5", "semi-implicit-euler"), ("hyq", "semi-implicit-euler"), ("ur5", "rk4"), (5, "semi-implicit-euler"),
           (5, "sdirk2"), ("hyq", "implicit-midpoint")]  # fmt: skip


@pytest.fixture
def allocations():
    """Number of pieces of memory that kernels have allocated so far."""
    _nrt_python.memsys_enable_stats()
    yield lambda: rtsys.get_allocation_stats().alloc
    _nrt_python.memsys_disable_stats()


@pytest.fixture
def nothing_kept(monkeypatch):
    """Forget the memory of earlier tests, which becomes free whenever Python collects garbage."""
    monkeypatch.setattr("ddp.machine.recycled._local", threading.local())


def system_of(key, integrator):
    robot = dynamics.load(key) if isinstance(key, str) else random_tree(key)
    return dynamics.RobotDynamics(robot, 0.02, integrator=integrator)


def knots(robot, rng, N):
    samples = [random_state(robot, rng) for _ in range(N)]
    return (np.stack(part) for part in zip(*samples, strict=True))


def expansion(system, rng, N):
    q, v, _ = knots(system.robot, rng, N)
    n, nu = system.n, system.nu
    out = Expansion(np.empty((N, n, n)), np.empty((N, n, nu)), np.empty((N, system.record_size)))
    X, U = np.hstack([q, v]), rng.normal(size=(N, nu))
    system.expand(X, U, out)
    system.expand_second(X, U, out)
    return out


@kernel
def stumpff_of(t, out):
    """out (8, ...) := c_0, ..., c_7 of t (...) of one number or of lanes."""
    for k, c in enumerate(stumpff(t[0])):
        out[k] = c


@kernel
def stumpff_of_lanes(t, out):
    stumpff_of(memory_of(t), memory_of(out))


@pytest.mark.parametrize("t", [(0.0, 1e-14, 0.49, 0.51, 3.0, 9.9, 10.1, 60.0), (30.0,) * 7 + (1e-3,)])
def test_stumpff_functions_are_their_series_in_lanes_and_alone(t):
    exact = [[float(series(Fraction(x), k)) for x in t] for k in range(8)]
    lanes, alone = np.empty((8, WIDTH)), np.empty((8, WIDTH))
    stumpff_of_lanes(np.array([t]), lanes)
    for i, x in enumerate(t):
        stumpff_of(np.array([x]), alone[:, i])
    assert np.allclose(lanes, exact, rtol=1e-12, atol=1e-15)
    assert np.allclose(alone, exact, rtol=1e-12, atol=1e-15)


def series(t, k):
    """The first eighty terms of ``Σ_j (-t)^j / (2j + k)!``."""
    return sum((-t) ** j / factorial(2 * j + k) for j in range(80))


@kernel
def pack_lanes(X, t, x):
    pack(rows_of(X), t, memory_of(x), len(x))


@kernel
def unpack_lanes(x, X, t, begin):
    unpack_columns(memory_of(x), len(x), rows_of(X), t, begin)


@pytest.mark.parametrize("m", [1, 7, 8, 9, 16, 23])
@pytest.mark.parametrize("N", [1, 7, 8, 9, 20])
def test_packing_is_transposing_and_unpacking_undoes_it(m, N, rng):
    rows, out, wider = rng.normal(size=(N, m)), np.zeros((N, m)), np.zeros((N, m + 5))
    lanes = np.empty((m, WIDTH))
    for t in range(0, N, WIDTH):
        pack_lanes(rows, t, lanes)
        count = min(WIDTH, N - t)
        assert np.array_equal(lanes.T[:count], rows[t : t + WIDTH])
        assert (lanes.T[count:] == rows[-1]).all()
        unpack_lanes(lanes, out, t, 0)
        unpack_lanes(lanes, wider, t, 3)
    assert np.array_equal(out, rows)
    assert np.array_equal(wider, np.pad(rows, ((0, 0), (3, 2))))


@pytest.mark.parametrize(("key", "N"), [("ur5", 1), ("hyq", 11), (5, 3), (6, 8), (7, 9)])
def test_blocks_of_many_knots_are_the_hessian_of_each_in_q_v_and_the_next_v(key, N, rng):
    system = system_of(key, "semi-implicit-euler")
    out, weight, m = expansion(system, rng, N), rng.normal(size=(N, system.n)), system.robot.nv
    flat = np.zeros((N, numbers_of_blocks(m, system.semi_implicit[1])))
    system.contract_batch(out.record, weight, flat)
    exact = np.empty((N, system.n + system.nu, system.n + system.nu))
    system.contract(out.record, weight, exact)
    for t in range(N):
        qq, qv, vv, nq, nn = as_matrices(flat[t], m, system.semi_implicit[1])
        to = np.zeros((3, m, system.n + system.nu))
        to[0, :, :m], to[1, :, m : 2 * m], to[2] = np.eye(m), np.eye(m), np.hstack([out.A[t, m:], out.B[t, m:]])
        table = [[qq, qv, nq.T], [qv.T, vv, 0.0 * vv], [nq, 0.0 * vv, nn]]
        total = sum(to[i].T @ table[i][k] @ to[k] for i in range(3) for k in range(3))
        assert relative_error(total, exact[t]) < 1e-10


@pytest.mark.parametrize(("key", "integrator"), SYSTEMS)
@pytest.mark.parametrize("N", [1, 8, 11])
def test_contractions_of_many_knots_are_those_of_each(key, integrator, N, rng):
    system = system_of(key, integrator)
    record, weight = expansion(system, rng, N).record, rng.normal(size=(N, system.n))
    nz = system.n + system.nu
    many, one = np.full((N, nz, nz), np.nan), np.empty((nz, nz))
    system.contract(record, weight, many)
    address, context, _ = system.contraction()
    for t in range(N):
        contract_rows(address, context, record[t : t + 1], weight[t : t + 1], one[None])
        assert relative_error(many[t], one) < 1e-11
        assert np.array_equal(many[t], many[t].T)


def test_what_a_batch_allocates_does_not_depend_on_its_length(rng, allocations):
    system = system_of("hyq", "semi-implicit-euler")
    made = []
    for N in (8, 80):
        record, weight = expansion(system, rng, N).record, rng.normal(size=(N, system.n))
        out = np.empty((N, *[system.n + system.nu] * 2))
        q, v, tau = knots(system.robot, rng, N)
        before = allocations()
        system.contract(record, weight, out)
        dynamics.forward_dynamics_hessian(system.robot, q, v, tau, weight[:, : system.robot.nv])
        made.append(allocations() - before)
    assert made[0] == made[1]


@pytest.mark.parametrize("N", [1, 8])
def test_both_orders_at_once_are_each_alone(N, rng):
    robot = dynamics.load("hyq")
    q, v, tau = knots(robot, rng, N)
    weight = rng.normal(size=(N, robot.nv))
    first, second = dynamics.forward_dynamics_both_derivatives(robot, q, v, tau, weight)
    for mine, alone in zip(first, dynamics.forward_dynamics_derivatives(robot, q, v, tau), strict=True):
        assert np.array_equal(mine, alone)
    for mine, alone in zip(second, dynamics.forward_dynamics_hessian(robot, q, v, tau, weight), strict=True):
        assert np.array_equal(mine, alone)


def broad_tree(root):
    """A robot whose bodies are numbered breadth first: those of a subtree are not neighbours."""
    model = pin.Model()
    made = [model.addJoint(0, root, pin.SE3.Identity(), "root")]
    model.appendBodyToJoint(made[0], pin.Inertia(3.0, np.zeros(3), np.diag([0.2, 0.3, 0.4])), pin.SE3.Identity())
    kinds = (pin.JointModelRX, pin.JointModelSpherical, pin.JointModelPZ)
    for k, parent in enumerate((0, 0, 0, 1, 2, 3, 4, 5, 1)):
        place = pin.SE3(pin.rpy.rpyToMatrix(0.3 * k, 0.2, -0.1), np.array([0.1, 0.2, -0.3]))
        made.append(model.addJoint(made[parent], kinds[k % 3](), place, f"joint{k}"))
        inertia = pin.Inertia(1.0 + 0.1 * k, np.array([0.1, -0.02, 0.03]), np.diag([0.02, 0.03, 0.04]))
        model.appendBodyToJoint(made[-1], inertia, pin.SE3.Identity())
    return dynamics.load(model)


@pytest.mark.parametrize("root", [pin.JointModelRY(), pin.JointModelFreeFlyer()])
def test_bodies_may_be_numbered_in_any_order(root, rng):
    robot = broad_tree(root)
    q, v, a = knots(robot, rng, 9)
    many = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    for t in range(9):
        one = dynamics.inverse_dynamics_derivatives(robot, q[t], v[t], a[t])
        for mine, truth in zip(many, one, strict=True):
            assert relative_error(mine[t], truth) < 1e-12


@pytest.mark.parametrize("key", ["ur5", "hyq", 3])
def test_one_sample_after_the_other_gives_what_the_functions_do(key, rng):
    robot = dynamics.load(key) if isinstance(key, str) else random_tree(key)
    one = dynamics.OneSample(robot)
    for _ in range(5):
        q, v, tau = random_state(robot, rng)
        expected = dynamics.forward_dynamics_derivatives(robot, q, v, tau)
        for mine, truth in zip(one.forward_dynamics_derivatives(q, v, tau), expected, strict=True):
            assert relative_error(mine, truth) < 1e-12


def test_results_keep_their_memory_for_as_long_as_anybody_looks(rng):
    robot = dynamics.load("ur5")
    q, v, a = knots(robot, rng, 9)
    found = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    view, copy = found.dv[3, 1:, ::2], found.dv[3, 1:, ::2].copy()
    del found
    for _ in range(3 * 4):
        dynamics.inverse_dynamics_derivatives(robot, q, 2.0 * v, a)
        dynamics.inverse_dynamics_derivatives(robot, q, 3.0 * v, a)
    assert np.array_equal(view, copy)


@pytest.mark.usefixtures("nothing_kept")
def test_memory_that_nobody_looks_at_is_used_again():
    where = recycled((3, 1000)).ctypes.data
    held = recycled((3, 1000))
    assert held.ctypes.data == where
    assert recycled((3, 1000)).ctypes.data != where
    assert where % 64 == 0


@pytest.mark.usefixtures("nothing_kept")
def test_memory_serves_arrays_of_nearly_as_many_numbers_and_the_smallest_that_does():
    large, small = recycled((90_001,)), recycled((50_001,))
    where = small.ctypes.data
    del large, small
    assert recycled((40_000,)).ctypes.data == where
    assert recycled((400,)).ctypes.data != where


@pytest.mark.usefixtures("nothing_kept")
def test_memory_of_large_arrays_is_kept_while_small_ones_come_and_go():
    large = recycled((2**22 + 5,))
    where, small = large.ctypes.data, [recycled((1000 + i,)) for i in range(40)]
    del large, small
    assert recycled((2**22,)).ctypes.data == where


@pytest.mark.usefixtures("nothing_kept")
def test_zeros_are_zeros_in_memory_that_others_wrote_to():
    found = aligned_zeros((200, 100))
    where = found.ctypes.data
    found[:] = 1.0
    del found
    again = aligned_zeros((200, 100))
    assert again.ctypes.data == where
    assert not again.any()


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[1:, ::-2],
        lambda x: x.reshape(-1),
        memoryview,
        lambda x: x.view(np.matrix),
        lambda x: x.flat,
        np.diagonal,
    ],
)
def test_memory_is_not_used_again_while_a_part_of_it_is_held(part):
    found = recycled((30, 40))
    where, held = found.ctypes.data, part(found)
    del found
    assert recycled((30, 40)).ctypes.data != where
    del held
    assert recycled((30, 40)).ctypes.data == where


def test_tensors_can_be_written_where_earlier_ones_were(rng):
    robot = dynamics.load("hyq")
    q, v, a = knots(robot, rng, 9)
    fresh = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a)
    earlier = dynamics.inverse_dynamics_second_derivatives(robot, q, 2.0 * v, -a)
    again = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a, out=earlier)
    for mine, truth, place in zip(again, fresh, earlier, strict=True):
        assert np.shares_memory(mine, place)
        assert np.array_equal(mine, truth)
    with pytest.raises(ProblemError, match="out: expected"):
        dynamics.inverse_dynamics_second_derivatives(robot, q[:3], v[:3], a[:3], out=earlier)


def test_another_robot_another_length_and_other_memory_compile_nothing(rng):
    def everything(robot, N, prepare):
        q, v, a = (prepare(part) for part in knots(robot, rng, N))
        weight = prepare(rng.normal(size=a.shape))
        dynamics.inverse_dynamics_derivatives(robot, q, v, a)
        dynamics.forward_dynamics_both_derivatives(robot, q, v, a, weight)
        system = dynamics.RobotDynamics(robot, 0.01)
        out = expansion(system, rng, N)
        system.contract(out.record, rng.normal(size=(N, system.n)), np.empty((N, *[system.n + system.nu] * 2)))

    def strided(x):
        wide = np.zeros((x.shape[0], 2 * x.shape[1]))
        wide[:, ::2] = x
        return wide[:, ::2]

    def locked(x):
        x = x.copy()
        x.flags.writeable = False
        return x

    everything(dynamics.load("ur5"), 8, np.array)
    compiled = []
    with compilations(compiled.append):
        for robot, N, prepare in ((dynamics.load("hyq"), 8, np.array), (random_tree(7), 13, strided)):
            everything(robot, N, prepare)
        everything(dynamics.load("ur5"), 9, locked)
    assert compiled == []
