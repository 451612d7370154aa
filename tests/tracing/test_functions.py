"""Functions as people write them are traced to their own values, with derivatives that are exact."""

import inspect

import numpy as np
import precise
import pytest
import users_functions

from ddp.compiling.content import chosen
from ddp.machine import number
from ddp.tracing import emit, machine_code
from ddp.tracing.function import TracedFunction
from ddp.tracing.trace import trace

POINTS = 4


def points():
    rng = np.random.default_rng(0)
    return [(rng.normal(size=3), rng.normal(size=2)) for _ in range(POINTS)]


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # of the arms that are not chosen
@pytest.mark.parametrize("name", users_functions.ALL)
def test_a_function_and_its_derivatives_are_exact(name):
    f = users_functions.ALL[name]
    found, outputs = TracedFunction(name, f, 3, 2), trace(f, (3, 2)).outputs
    rng = np.random.default_rng(1)
    for x, u in points():
        m, w = found.size, rng.normal(size=found.size)
        A, B, H = np.empty((1, m, 3)), np.empty((1, m, 2)), np.empty((1, 5, 5))
        found.first(x[None], u[None], A, B)
        found.second(x[None], u[None], w[None], H)
        expected = np.asarray(f(x.copy(), u.copy()), dtype=float)
        slopes, bends = precise.differences(outputs, np.concatenate([x, u]))
        J = np.concatenate([A, B], axis=2)[0]
        np.testing.assert_allclose(found.values(x[None], u[None])[0], expected, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(J, slopes, rtol=0, atol=1e-14 * max(1.0, np.abs(slopes).max()))
        bend = np.tensordot(w, bends, axes=1)
        np.testing.assert_allclose(H[0], bend, rtol=0, atol=1e-14 * max(1.0, np.abs(bends).max() * np.abs(w).sum()))
        assert np.array_equal(H[0], H[0].T)


def test_determinants_of_singular_matrices_are_smooth():
    def minors(x, u):
        return np.linalg.det(np.outer(x, x)[:2, :2] + np.diag(u))

    found, A, B = TracedFunction("minors", minors, 3, 2), np.empty((1, 1, 3)), np.empty((1, 1, 2))
    x, u = np.array([[0.0, 2.0, 5.0]]), np.zeros((1, 2))
    found.first(x, u, A, B)
    assert found.values(x, u) == 0.0
    assert A.tolist() == [[[0.0, 0.0, 0.0]]]
    assert B.tolist() == [[[4.0, 0.0]]]


def test_code_is_kept_under_all_sources_that_its_sines_are_made_of(monkeypatch):
    read = []
    monkeypatch.setattr(machine_code, "code_of", lambda *paths: read.extend(map(str, paths)) or b"")
    machine_code._key(b"")
    sines = chosen[number.sine_cosine](number.lanes).py_func
    assert {inspect.getsourcefile(sines), emit.__file__} <= set(read)
