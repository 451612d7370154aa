"""Traces serve again where functions read the same, and never where anything that they read has changed."""

import functools
import os
import types
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import ddp
import ddp.tracing.function
from ddp.tracing.function import TracedFunction
from dynamics import FunctionDynamics

X, U = np.array([0.3, -0.7]), np.array([0.4])


class Gains(NamedTuple):
    a: float
    b: float


class Shared:
    gain = 2.0


class Base:
    gain = 2.0

    def scale(self):
        return self.gain


@dataclass
class Circle(Base):
    radius: float = 1.0
    gain: float = 2.0

    @property
    def area(self):
        return CHANGING["pi"] * self.radius**2

    def value(self, x, u):
        return self.scale() * x * self.radius


class Odd:
    def __matmul__(self, other):
        return CHANGING["pi"] * other


CHANGING = {"pi": 3.0}
RADII = {}


def of_code(text, **names):
    exec(text, names)
    return names["f"], names


def a_global():
    f, names = of_code("def f(x, u): return gain * x", gain=2.0)
    return f, lambda: names.update(gain=3.0)


def a_global_that_was_not_there():
    f, names = of_code("def f(x, u): return abs(x)")
    return f, lambda: names.update(abs=lambda x: x)


def the_sign_of_zero():
    f, names = of_code("import numpy as np\ndef f(x, u): return x + np.arctan2(zero, -1.0)", zero=0.0)
    return f, lambda: names.update(zero=-0.0)


def a_kind_of_number():
    f, names = of_code("def f(x, u): return x * (7 // 2 if isinstance(n, int) else n)", n=3)
    return f, lambda: names.update(n=3.5)


def a_function_of_a_function():
    f, names = of_code("def g(x): return gain * x\ndef f(x, u): return g(x)", gain=2.0)
    return f, lambda: names.update(gain=3.0)


def another_function():
    f, names = of_code("def g(x): return 2.0 * x\ndef f(x, u): return g(x)")
    return f, lambda: names.update(g=lambda x: 3.0 * x)


def a_closure():
    gain = 2.0

    def change():
        nonlocal gain
        gain = 3.0

    return lambda x, u: gain * x, change


def its_own_code():
    """Code that is put in place of a function's, as IPython's autoreload does after a file was edited."""
    f, _ = of_code("def f(x, u): return 2.0 * x")
    edited, _ = of_code("def f(x, u): return 3.0 * x")
    return f, lambda: setattr(f, "__code__", edited.__code__)


def a_default():
    def f(x, u, gain=2.0):
        return gain * x

    return f, lambda: setattr(f, "__defaults__", (3.0,))


def a_default_by_name():
    def f(x, u, *, gain=2.0):
        return gain * x

    return f, lambda: f.__kwdefaults__.update(gain=3.0)


def an_array():
    W = np.eye(2)
    return lambda x, u: W @ x, lambda: W.__setitem__((0, 1), 0.5)


def an_array_of_integers():
    n = np.array([1, 2])
    return lambda x, u: n * x, lambda: n.__setitem__(0, 5)


def a_list():
    gains = [2.0, [1.0]]
    return lambda x, u: gains[1][0] * x, lambda: gains[1].__setitem__(0, 3.0)


def a_dictionary():
    gains = {"a": {"b": 2.0}}
    return lambda x, u: gains["a"]["b"] * x, lambda: gains["a"].update(b=3.0)


def a_new_name_of_a_dictionary():
    gains = {"a": 2.0}
    return lambda x, u: sum(gains.values()) * x, lambda: gains.update(b=3.0)


def objects_in_a_list():
    circles = [Circle(1.0), Circle(2.0)]
    return lambda x, u: sum(c.radius for c in circles) * x, lambda: setattr(circles[1], "radius", 3.0)


def functions_in_a_tuple():
    gains = [2.0]
    both = (lambda x: gains[0] * x, 1.0)
    return lambda x, u: both[0](x), lambda: gains.__setitem__(0, 3.0)


def a_named_tuple():
    where = types.SimpleNamespace(gains=Gains(2.0, 1.0))
    return lambda x, u: where.gains.a * x, lambda: setattr(where, "gains", Gains(3.0, 1.0))


def an_attribute():
    circle = Circle()
    return circle.value, lambda: setattr(circle, "radius", 3.0)


def an_attribute_that_was_not_there():
    circle = Circle()
    return lambda x, u: getattr(circle, "more", 1.0) * x, lambda: setattr(circle, "more", 3.0)


def an_attribute_in_place_of_that_of_a_class():
    circle = Base()
    return lambda x, u: circle.gain * x, lambda: setattr(circle, "gain", 3.0)


def an_attribute_of_a_class():
    return lambda x, u: Shared.gain * x, lambda: setattr(Shared, "gain", Shared.gain + 1.0)


def an_attribute_of_an_objects_class():
    one = Shared()
    return lambda x, u: one.gain * x, lambda: setattr(Shared, "gain", Shared.gain + 1.0)


def an_attribute_by_its_class():
    one = Shared()
    return lambda x, u: type(one).gain * x, lambda: setattr(Shared, "gain", Shared.gain + 1.0)


def an_attribute_by_its_dictionary():
    one = Circle()
    return lambda x, u: vars(one)["radius"] * x, lambda: setattr(one, "radius", 3.0)


def a_method():
    class Own:
        def scale(self):
            return 2.0

    one = Own()
    return lambda x, u: one.scale() * x, lambda: setattr(Own, "scale", lambda self: 3.0)


def a_method_of_the_class_above():
    class Above:
        gain = 2.0

        def scale(self):
            return CHANGING["pi"]

    class Own(Above):
        def value(self, x, u):
            return super().scale() * x

    return Own().value, lambda: CHANGING.update(pi=CHANGING["pi"] + 1.0)


def a_property():
    circle = Circle()
    return lambda x, u: circle.area * x, lambda: CHANGING.update(pi=CHANGING["pi"] + 1.0)


def an_operator():
    return functools.partial(lambda odd, x, u: odd @ x, Odd()), lambda: CHANGING.update(pi=CHANGING["pi"] + 1.0)


def what_a_partial_function_is_given():
    gains = [2.0]
    return functools.partial(lambda g, x, u: g[0] * x, gains), lambda: gains.__setitem__(0, 3.0)


def a_module():
    module = types.ModuleType("gains_of_a_test")
    module.gain = 2.0
    f, _ = of_code("def f(x, u): return module.gain * x", module=module)
    return f, lambda: setattr(module, "gain", 3.0)


def the_environment():
    os.environ["GAIN_OF_A_TEST"] = "2.0"
    return lambda x, u: float(os.environ["GAIN_OF_A_TEST"]) * x, lambda: os.environ.update(GAIN_OF_A_TEST="3.0")


def all_globals():
    f, names = of_code("def f(x, u): return globals()['gain'] * x", gain=2.0)
    return f, lambda: names.update(gain=3.0)


def what_is_the_same_object():
    a = types.SimpleNamespace(rows=np.zeros(2))
    a.same = a.rows

    def f(x, u):
        a.rows[:] = 0.0
        a.rows[0] = 1.0
        value = a.same[0] * x
        a.rows[0] = 0.0
        return value

    return f, lambda: setattr(a, "same", np.zeros(2))


def what_becomes_the_same_object():
    a, b = [1.0], [1.0]
    both = types.SimpleNamespace(a=a, b=b)

    def f(x, u):
        both.a[0] = 5.0
        value = both.b[0] * x
        both.a[0] = 1.0
        return value

    return f, lambda: setattr(both, "b", both.a)


def what_a_universal_function_calls():
    gains = [2.0]
    scaled = np.frompyfunc(lambda x: gains[0] * x, 1, 1)
    return lambda x, u: scaled(x), lambda: gains.__setitem__(0, 3.0)


def what_is_imported_inside():
    f, _ = of_code(f"def f(x, u):\n    from {__name__} import RADII\n    return RADII['r'] * x")
    RADII["r"] = 2.0
    return f, lambda: RADII.update(r=3.0)


def what_is_evaluated():
    f, names = of_code("def f(x, u): return eval('gain') * x", gain=2.0)
    return f, lambda: names.update(gain=3.0)


CHANGES = [
    a_global, a_global_that_was_not_there, the_sign_of_zero, a_kind_of_number, a_function_of_a_function,
    another_function, its_own_code, a_closure, a_default, a_default_by_name, an_array, an_array_of_integers, a_list,
    a_dictionary, a_new_name_of_a_dictionary, objects_in_a_list, functions_in_a_tuple, a_named_tuple, an_attribute,
    an_attribute_that_was_not_there, an_attribute_in_place_of_that_of_a_class, an_attribute_of_a_class,
    an_attribute_of_an_objects_class, an_attribute_by_its_class, an_attribute_by_its_dictionary, a_method,
    a_method_of_the_class_above, a_property, an_operator, what_a_partial_function_is_given, a_module, the_environment,
    all_globals, what_is_the_same_object, what_becomes_the_same_object, what_a_universal_function_calls,
    what_is_imported_inside, what_is_evaluated,
]  # fmt: skip


def traced(f):
    return TracedFunction("f", f, 2, 1)


@pytest.mark.parametrize("make", CHANGES)
def test_what_a_function_reads_is_never_what_it_was(make):
    f, change = make()
    before = np.array(f(X.copy(), U.copy()), dtype=float)
    first = traced(f)
    np.testing.assert_allclose(first._called(X, U), before, rtol=1e-14)
    change()
    after = np.array(f(X.copy(), U.copy()), dtype=float)
    assert np.abs(after - before).max() > 1e-3
    for found in (first.renewed(), traced(f)):
        np.testing.assert_allclose(found._called(X, U), after, rtol=1e-14)


class Distance:
    def __init__(self, target):
        self.target, self.parts = np.asarray(target), [(1.0, "x"), {"y": np.ones(2)}]

    def size(self, d):
        return np.sqrt(d @ d)

    def value(self, x, u):
        return self.size(x - self.target) + self.parts[1]["y"] @ x


def closing_over(gain, circles):
    def f(x, u):
        return gain * x + sum(c.radius for c in circles) * np.array([u[0], math_free(u[0])])

    return f


def math_free(y, scale=2.0):
    return scale * np.sin(y)


def math_free_of_two(x, u):
    return math_free(x)


SAME = {
    "closures": lambda: closing_over(2.0, [Circle(1.0), Circle(2.0)]),
    "methods": lambda: Distance([1.0, 2.0]).value,
    "functions": lambda: math_free_of_two,
    "partial functions in closures": lambda: (lambda g: lambda x, u: g(x))(functools.partial(math_free, scale=3.0)),
}


@pytest.mark.parametrize("name", SAME)
def test_functions_that_read_the_same_are_followed_once(name, monkeypatch):
    first = traced(SAME[name]())

    def refused(*args):
        raise AssertionError("followed again")

    monkeypatch.setattr(ddp.tracing.function, "trace", refused)
    again = SAME[name]()
    found = traced(again)
    assert found.code is first.code
    np.testing.assert_allclose(found._called(X, U), np.atleast_1d(again(X, U)), rtol=1e-14)
    assert first.renewed() is first


def test_code_of_numbers_that_change_between_solves_is_not_kept(monkeypatch):
    kept = []
    monkeypatch.setattr(ddp.tracing.machine_code.store, "save", lambda name, key, content: kept.append(key))
    target = np.array([1.0, np.random.default_rng().normal()])  # of code that no cache has yet
    first = traced(Distance(target).value)
    assert len(kept) == 1
    target[0] = 2.0
    later = first.renewed()
    assert later is not first
    assert len(kept) == 1


class Spring:
    """Unstable point mass and where it is to go, of numbers that change."""

    stiffness, target = 1.0, 1.0

    def f(self, x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + self.stiffness * x[0])])

    def value(self, x, u):
        return 100.0 * (x[0] - self.target) ** 2 + x[1] ** 2

    def follows(self, X, U):
        """Whether X is the motion under U by Python's arithmetic, and ends near the target."""
        ends = [self.f(x, u) for x, u in zip(X, U, strict=False)]
        return np.allclose(X[1:], ends, atol=1e-12) and abs(X[-1, 0] - self.target) < 0.1


def test_all_who_share_a_problem_solve_what_its_functions_are_now():
    spring = Spring()
    problem = ddp.Problem(
        dynamics=FunctionDynamics(spring.f, 2, 1, dt=0.1), running=[lambda x, u: 1e-2 * u[0] ** 2], terminal=[spring],
        x0=np.zeros(2), horizon=20,
    )  # fmt: skip
    controller, batch, states = ddp.RecedingHorizon(problem), ddp.Batch(problem, 2), np.zeros((2, 2))
    for spring.stiffness, spring.target in ((1.0, 1.0), (0.5, 2.0), (0.3, 2.0), (0.3, -1.0)):
        twins = [problem.starting_at(problem.x0), problem.varying(x0=states[0]), problem.with_guess(None), problem]
        found = [*map(ddp.solve, (*twins, problem.starting_at(problem.x0))), controller.solve(problem.x0)]
        assert all(spring.follows(one.X, one.U) for one in found)
        assert ddp.check_derivatives(problem).ok
        batch.step(states)
        assert spring.follows(batch.X[1], batch.U[1])
        many = batch.solve({"x0": states})
        assert spring.follows(many.X[1], many.U[1])


def test_files_that_numpy_reads_are_read_again(tmp_path):
    path = tmp_path / "gains.txt"
    np.savetxt(path, [1.0, 2.0])
    system = FunctionDynamics(lambda x, u: np.loadtxt(path) * x, 2, 1)
    np.savetxt(path, [3.0, 4.0])
    assert system.renew()
    np.testing.assert_array_equal(system.step(X, U), [3.0, 4.0] * X)
