"""Functions of x (3,) and u (2,) as people write them."""

import functools
import io
import math
from dataclasses import dataclass
from math import atan2, hypot

import numba
import numpy as np
import users_bodies
from numpy import cos, sin
from numpy.linalg import norm
from users_bodies import attitude, friction, rigid_body, steps_inside, tyre

GAINS = np.array([[2.0, 0.3, -0.1], [0.1, 1.5, 0.4], [-0.2, 0.3, 1.8]])
CENTRES = np.array([[0.3, 0.2], [-0.5, 0.8], [1.0, -0.4]])
SCALE = 0.7


def car(x, u):
    return x + 0.05 * np.array([np.cos(x[2]) * u[0], np.sin(x[2]) * u[0], u[1]])


def names_without_modules(x, u):
    return [sin(x[0]) * cos(u[0]), norm(x) + hypot(x[0], u[1]), atan2(x[1], x[2])]


def loop(x, u):
    y = x.copy()
    for k in range(5):
        y = y + 0.1 * np.array([y[1], -np.sin(y[0]) + u[k % 2], y[0] * y[2]])
    return y


def static_while(x, u):
    k, y = 0, x
    while k < 3:
        y, k = y * 0.9 + 0.1 * u[0] * y[::-1], k + 1
    return y


def recursion(x, u):
    def horner(coefficients, z):
        return coefficients[0] + z * horner(coefficients[1:], z) if len(coefficients) else 0.0

    return np.array([horner([1.0, 0.5, 0.25, 0.1], z) for z in x]) * u[0]


def branch(x, u):
    if x[0] > 0.0:
        return np.array([x[0] ** 2, np.sin(x[1]), u[0]])
    elif x[1] > u[1]:
        return np.array([x[0] * x[1], np.cos(x[1]), u[1] ** 3])
    return np.array([np.exp(x[0]), x[1] * x[2], u[0] * u[1]])


def nested_branches(x, u):
    y = list(x)
    for i in range(3):
        if y[i] < 0.2:
            y[i] = y[i] * u[0]
        if not y[i] > 1.0 and (x[0] > -2.0 or u[1] > 0.0):
            y[i] += 0.1 * y[i] ** 2
    return y


def ternary(x, u):
    return np.array([a if 0.0 < a < 1.0 else a**3 for a in x]) + (u[0] if u[0] > u[1] else u[1])


def extremes(x, u):
    return np.array([max(x[0], u[0], 0.1) ** 2, min(*x) * u[1], max(abs(a) for a in u) * x[1]])


def absolute(x, u):
    return np.abs(x) ** 3 + abs(u[0]) * np.fabs(x[1])


def clipped(x, u):
    return np.clip(x, -0.5, 0.5) ** 2 + np.maximum(u[0], 0.0) * np.minimum(x, u[1]) + x.clip(0.0, 1.0)


def singular_arms(x, u):
    safe = np.where(x > 0.0, np.sqrt(x), x**2)
    return safe + np.where(u[0] > 0.0, np.log(u[0]), u[0]) * np.where(x[0] < 0.0, 1.0 / x[0], np.exp(-x[0]))


def masks(x, u):
    return (x > 0.0) * x**2 + np.where((x > -1.0) & (x < 1.0), np.cos(x), 0.0) + (~(x < u[0])) * u[1] * x


def signs(x, u):
    return np.sign(x) * x**2 + np.copysign(u[0] ** 2, x[1])


def angles(x, u):
    return np.array([np.arctan2(x[0], x[1]), np.arctan2(u[0] + 3.0, x[2]), np.arctan(u[1] * x[0])])


def inverses(x, u):
    z = np.tanh(x)
    return np.arcsin(0.9 * z) + np.arccos(0.5 * z) * u[0] + np.arctan(x) * u[1]


def hyperbolic(x, u):
    return np.sinh(x) * np.cosh(u[0]) + np.tanh(x * u[1]) + np.arcsinh(x) + np.arccosh(2.0 + x**2)


def logarithms(x, u):
    return np.log(2.0 + x**2) + np.log1p(x**2) * np.expm1(u[0]) + np.log10(3.0 + u[1] ** 2) + np.log2(1.5 + x[0] ** 2)


def powers(x, u):
    base = 1.0 + x**2
    return base**1.5 + base ** u[0] + base**-2 + np.power(base, 3) + 2.0 ** x[::-1] + np.sqrt(base) + np.cbrt(base)


def divisions(x, u):
    return x / (2.0 + np.cos(u[0])) + u[1] / (1.0 + x**2) + np.reciprocal(3.0 + x)


def remainders(x, u):
    return np.mod(3.0 * x, 2.0) * u[0] + np.floor(x) * x + (x[0] % 1.5) * u[1]


def norms(x, u):
    return np.array([np.linalg.norm(x) * u[0], np.linalg.norm(x[:2], 1), np.linalg.norm([x[0], u[1], 2.0]) ** 2])


def obstacles(x, u):
    return x * np.exp(-np.linalg.norm(CENTRES - x[:2], axis=1)) + u[0] * np.min(np.sum((CENTRES - u) ** 2, axis=1))


def solved(x, u):
    M = np.array([[2.0 + np.cos(x[0]), 0.5 * x[1], 0.1], [0.5 * x[1], 2.0, x[2]], [0.1, 0.3, 1.5 + x[0] ** 2]])
    return np.linalg.solve(M, np.array([u[0], u[1], np.sin(x[2])]))


def pivoted(x, u):
    M = np.array([[0.1 * x[0], 1.0], [2.0, u[0]]])
    return np.append(np.linalg.inv(M) @ u, np.linalg.det(M))


def determinants(x, u):
    A = np.outer(x, x) + np.diag([0.0, u[0], 0.0])
    return [np.linalg.det(A), np.linalg.det(np.diag([x[0], x[1], u[0], u[1]]) + 1.0), np.linalg.det(np.eye(5) * x[0])]


def extremes_with_another(x, u):
    return [np.max(x, initial=0.3), x.min(initial=-0.2), np.max(x, where=x > 0.0, initial=u[0]), np.sum(x, where=x < 0)]


def matrices(x, u):
    R = np.array([[np.cos(x[2]), -np.sin(x[2]), 0.0], [np.sin(x[2]), np.cos(x[2]), 0.0], [0.0, 0.0, 1.0]])
    return GAINS @ R.T @ x + np.cross(x, np.append(u, 1.0)) + np.outer(x, u).sum(axis=1) + np.dot(R, x) * (u @ u)


def in_place(x, u):
    y = np.zeros(3)
    y[0] = x[0] * u[0]
    y[1:] += x[1:] ** 2
    y *= 2.0
    y[[0, 2]] -= np.array([u[1], x[0]])
    x[1] = y[0]
    return y + x


def rows(x, u):
    M = GAINS.copy()
    M[0, 1] = x[0]
    M[2] = x * u[0]
    M[:, 0] /= 1.0 + u[1] ** 2
    return M @ x + np.trace(M) * np.diag(M) + M.sum(axis=0)


def filled(x, u):
    return np.full(3, u[0]) * np.ones(3) + np.eye(3) @ x + np.zeros_like(x) + np.concatenate([x[:2], u[:1]]) * x[0]


def filled_by_name(x, u):
    y = np.full(shape=3, fill_value=u[0]) + np.full(3, fill_value=u[1]) * np.full_like(x, fill_value=x[0])
    return y * np.ones_like(u, shape=3) + np.full_like(u, x[1], shape=(3,)) * x + np.zeros_like(x, float)


def shaped(x, u):
    M = np.stack([x, x**2, np.sin(x)])
    return np.einsum("ij,j->i", M, x) + M.reshape(9)[::4] + np.roll(x, 1) * u[0] + np.cumsum(x) + M.T.mean(axis=0)


def polynomial(x, u):
    return np.polyval([0.5, -1.0, u[0]], x) + np.diff(np.append(x, u[1])) ** 2 + np.prod(x)


def table(x, u):
    return np.interp(x, [-1.0, 0.0, 0.5, 2.0], [0.0, 1.0, -0.5, 3.0]) * u[0] + u[1]


def ordered(x, u):
    return np.sort(x) * np.array([1.0, 2.0, 3.0]) * u[0] + x[np.argmax(x)] * u[1]


def closure():
    gains, offset = np.array([1.0, 2.0, 3.0]), [0.3]

    def controlled(x, u, k=2.0):
        return gains * x + offset[0] * k * u[0] * np.array([math.sin(a) for a in x])

    return controlled


@dataclass
class Model:
    mass: float = 1.5
    length: float = 0.4

    @property
    def inertia(self):
        return self.mass * self.length**2

    def torque(self, angle, push):
        y = np.zeros(1)
        y[0] = push - self.mass * 9.81 * self.length * math.sin(angle)
        return y[0] / self.inertia

    def step(self, x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * self.torque(x[0], u[0]), x[2] + u[1] * x[0]])


class Called:
    gain = 2.0

    def __call__(self, x, u):
        y = np.empty(3)
        y[:] = self.gain * np.sin(x)
        return y * u[0]


@numba.njit
def rotated(v, angle):
    out = np.empty(2)
    out[0] = math.cos(angle) * v[0] - math.sin(angle) * v[1]
    out[1] = math.sin(angle) * v[0] + math.cos(angle) * v[1]
    return out


def of_numba(x, u):
    return np.append(rotated(u, x[0]) * SCALE, x[1] * x[2])


def scaled(factor, x, u):
    return factor * x * u[0] ** 2


def imported(x, u):
    import math as maths

    import numpy

    y = numpy.zeros(3)
    y[1] = maths.exp(float(x[0])) * u[0]
    return y + x


def tuples(x, u):
    a, b, c = x
    (d, e), squares = u, {i: v * v for i, v in enumerate(x)}
    return a * d, sum(squares.values()) * e, (lambda z: z**3)(b) + c


def raising(x, u):
    if x[0] > 100.0:
        raise RuntimeError("too far")
    return x * u[0]


def mathematics(x, u):
    return [math.sqrt(2.0 + x[0] ** 2), math.pow(1.5 + x[1] ** 2, u[0]), math.log(3.0 + x[2] ** 2, 2) * math.fsum(u)]


def masked_entries(x, u):
    y = x.copy()
    y[x > 0] = 0.5 * x[x > 0] + u[0]
    y[x <= 0] *= 2.0
    return y


def pieces(x, u):
    of_size = np.select([x < -0.5, x < 0.5], [x**2, x], default=x**3)
    return of_size + np.piecewise(x, [x < 0, x >= 0.3], [lambda z: -z, lambda z: z * z, 7.0]) * u[0]


def looked_up(x, u):
    grid, table = np.linspace(-1.0, 1.0, 5), np.array([0.3, 1.0, -2.0, 4.0, 0.5, 7.0])
    k = np.clip(np.searchsorted(grid, x, side="right"), 1, 4)
    share = (x - grid[k - 1]) / 0.5
    near = x if np.isclose(u[0], 0.5, atol=0.4) else x**2
    return (1 - share) * table[k - 1] + share * table[k] + table[int(np.digitize(u[1], grid))] * near


def generated(x, u):
    return np.fromiter((x[i] * u[i % 2] for i in range(3)), dtype=float)


def kinds(x, u):
    gain = 2.0 if isinstance(x[0], float) else 3.0
    print(f"{x[0]:.3f}", end="", file=io.StringIO())
    return gain * x


def smooth_and_not(x, u):
    return np.logaddexp(x, u[0]) + np.log(np.sum(np.exp(x))) + np.heaviside(x, 0.5) * x


def switched(x, u):
    return np.array([1.0, 2.0])[int(x[0] > 0)] * x + [u[0], u[1] ** 2][int(u[0] > u[1])]


def matched(x, u):
    match (x[0] > 0, u[0] > 0):
        case (True, True):
            return x
        case (False, _):
            return 2 * x * x
        case _:
            return 3 * x * u[0]


def statistics(x, u):
    return np.sort(x) + np.median(x) + np.ptp(x) + np.std(x) + np.average(x, weights=[1, 2, 3]) * u[0]


def einstein(x, u):
    T = np.arange(12.0).reshape(3, 2, 2)
    return np.einsum("ijk,j,k->i", T, u, u) + np.einsum("i,i", x, x) + np.tensordot(T, u, axes=([2], [0])) @ u


def guarded(x, u):
    ratio = np.divide(x, u[0], out=np.zeros(3), where=np.abs(x) > 0.5)
    return ratio + np.sqrt(x, out=-x, where=x > 0) + np.sinc(x) * u[1] + np.hypot(x, 0.1)


def of_modules(x, u):
    import users_bodies as bodies

    return users_bodies.steps_inside(x, u) + bodies.rigid_body(x, u) * users_bodies.np.pi


def counted(x, u):
    positive, large = x > 0.0, x > 1.0
    several = (positive + large) * x + np.sum(positive) * u[0] + large.any() + np.all(x) * u[1]
    return several + np.array([1.0, 3.0])[positive.astype(int)] * (positive ^ large) + math.hypot(*x)


def counted_as_floats(x, u):
    positive, less = x > 0.0, x < 0.5
    several, those = np.zeros(3), np.zeros(3)
    several[:], those[1] = positive, less[1]
    several += (positive.astype(float) + less.astype(float)) * x + np.asarray(positive, dtype=float)
    one = (x[0] > -5.0).astype(float) + (x[1] > -5.0).astype(float) + np.prod(positive) + np.prod(less)
    several += (positive * less + less * (x > -5.0)) * x
    several += 2.0 * (np.append(x[:2], 1.0) > -5.0).astype(float) + (np.append(x[:2], 1.0) > 0.0).astype(float)
    return several + those + np.array([x[0] > -5.0, u[0], 1.0]) + np.append(less[:2], 0.5) + one


def assembled(x, u):
    force = np.zeros(3)
    np.add.at(force, [0, 1, 1], x * u[0])
    return force + x[0].clip(-1.0, 1.0) + np.linalg.inv(x[:0, None] * x[:0]).sum() + np.linalg.det(np.eye(0)) * u[1]


ALL = {
    function.__name__: function
    for function in (
        car, names_without_modules, loop, static_while, recursion, branch, nested_branches, ternary, extremes, absolute,
        clipped, singular_arms, masks, signs, angles, inverses, hyperbolic, logarithms, powers, divisions, remainders,
        norms, obstacles, solved, pivoted, determinants, extremes_with_another, matrices, in_place, rows, filled,
        shaped, polynomial, table, ordered, of_numba, imported, tuples, raising, mathematics, rigid_body, attitude,
        steps_inside, friction, tyre, masked_entries, pieces, generated, kinds, smooth_and_not, switched, matched,
        statistics, einstein, guarded, counted, counted_as_floats, assembled, of_modules, filled_by_name,
    )
} | {
    "closure": closure(), "method": Model().step, "object": Called(), "partial": functools.partial(scaled, 0.3),
    "jitted": rotated.py_func and numba.njit(lambda x, u: x * u[0] + np.sin(x[1])),
}  # fmt: skip
