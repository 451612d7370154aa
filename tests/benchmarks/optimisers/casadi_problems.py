"""Problems of `cases.py` whose dynamics take a few lines, for CasADi; imports nothing of ours.

Each is discretised as ours: semi-implicit Euler steps of robots, Runge-Kutta steps of order four of Altro's.
"""

import casadi as ca
import numpy as np


class Case:
    """``x' = f(x, u)``, costs, bounds on controls, ``lower <= c <= upper`` at some knots, and the end's state.

    f(x, u), running(x, u), terminal(x): of CasADi's numbers; running costs with dt in them.
    rows: [(first knot, last knot, c(x, u), lower, upper)].   end: None, or the state (nx,) at the end.
    """

    def __init__(self, f, running, terminal, x0, N, U, limits, rows=(), end=None, X=None):
        self.f, self.running, self.terminal, self.x0, self.N = f, running, terminal, np.array(x0, float), N
        self.U, self.limits, self.rows, self.end = np.array(U, float), limits, rows, end
        self.X = np.tile(self.x0, (N + 1, 1)) if X is None else X


def semi_implicit(accelerations, h):
    def step(x, u):
        n = x.numel() // 2
        v = x[n:] + h * accelerations(x[:n], x[n:], u)
        return ca.vertcat(x[:n] + h * v, v)

    return step


def rk4(flow, h):
    def step(x, u):
        k1 = flow(x, u)
        k2 = flow(x + h / 2 * k1, u)
        k3 = flow(x + h / 2 * k2, u)
        k4 = flow(x + h * k3, u)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return step


def squares(weights, x, target=0.0):
    d = x - target
    return 0.5 * ca.dot(ca.DM(weights) * d, d)


def limited_pendulum():
    h, up = 0.03, [np.pi, 0.0]

    def turning(q, v, u):
        return u - 9.81 * ca.sin(q)

    def running(x, u):
        return h * (squares([0.1], u) + squares([0.1, 0.01], x, up))

    step = semi_implicit(turning, h)
    return Case(step, running, lambda x: squares([1e3, 1e3], x, up), np.zeros(2), 150, np.zeros((150, 1)), (-3.0, 3.0))


def cart(M, m, length):
    def accelerations(q, v, u):
        s, c, w, g = ca.sin(q[1]), ca.cos(q[1]), v[1], 9.81
        push = u[0] + m * s * (length * w**2 + g * c)
        turn = -u[0] * c - m * length * w**2 * c * s - (M + m) * g * s
        return ca.vertcat(push / (M + m * s**2), turn / (length * (M + m * s**2)))

    return accelerations


def rail():
    h, up = 0.02, [0.0, np.pi, 0.0, 0.0]

    def running(x, u):
        return h * (squares([0.01], u) + squares([0.1, 0.1, 0.01, 0.01], x, up))

    rows = [(1, 100, lambda x, u: x[0], -0.6, 0.6)]
    step = semi_implicit(cart(1.0, 0.1, 0.5), h)
    return Case(step, running, lambda x: 0.0, np.zeros(4), 100, np.zeros((100, 1)), (-8.0, 8.0), rows, up)


def acrobot():
    h, up, I, l, half = 0.02, [np.pi, 0.0, 0.0, 0.0], 1.0 / 12.0, 1.0, 0.5

    def accelerations(q, v, u):
        c2, s2 = ca.cos(q[1]), ca.sin(q[1])
        m11 = 2 * I + half**2 + l**2 + half**2 + 2 * l * half * c2
        m12, m22 = I + half**2 + l * half * c2, I + half**2
        bend = l * half * s2
        g2 = 9.81 * half * ca.sin(q[0] + q[1])
        g1 = 9.81 * (half + l) * ca.sin(q[0]) + g2
        f1 = bend * (2 * v[0] * v[1] + v[1] ** 2) - g1
        f2 = u[0] - bend * v[0] ** 2 - g2
        det = m11 * m22 - m12**2
        return ca.vertcat((m22 * f1 - m12 * f2) / det, (m11 * f2 - m12 * f1) / det)

    def running(x, u):
        return h * (squares([0.01], u) + squares([0.1, 0.1, 0.01, 0.01], x, up))

    step = semi_implicit(accelerations, h)
    return Case(step, running, lambda x: 0.0, np.zeros(4), 150, np.zeros((150, 1)), (-10.0, 10.0), (), up)


def altro(flow, x0, goal, N, seconds, Q, R, Qf, limits, start, rows=(), X=None):
    h = seconds / N

    def running(x, u):
        return h * (squares(np.full(len(goal), Q), x, goal) + 0.5 * R * ca.dot(u, u))

    def terminal(x):
        return squares(np.full(len(goal), Qf), x, goal)

    return Case(rk4(flow, h), running, terminal, x0, N, np.tile(start, (N, 1)), limits, rows, goal, X)


def car(x, u):
    return ca.vertcat(u[0] * ca.cos(x[2]), u[0] * ca.sin(x[2]), u[1])


def outside(circles):
    x, y, r = (ca.DM(part) for part in np.array(circles).T)
    return [(1, 99, lambda z, u: r**2 - (z[0] - x) ** 2 - (z[1] - y) ** 2, -np.inf, 0.0)]


def double_integrator():
    rows = [(1, 20, lambda x, u: x[1], -0.6, 0.6)]
    flow = lambda x, u: ca.vertcat(x[1], u[0])  # noqa: E731
    return altro(flow, np.zeros(2), [1.0, 0.0], 20, 2.0, 1.0, 0.1, 1.0, (-3.0, 3.0), [0.0], rows)


def pendulum():
    def flow(x, u):
        return ca.vertcat(x[1], (u[0] - 0.1 * x[1]) / 0.25 - 9.81 / 0.5 * ca.sin(x[0]))

    return altro(flow, np.zeros(2), [np.pi, 0.0], 50, 3.0, 1e-3, 1e-3, 1.0, (-3.0, 3.0), [0.1])


def cartpole():
    moved = cart(1.0, 0.2, 0.5)
    flow = lambda x, u: ca.vertcat(x[2:], moved(x[:2], x[2:], u))  # noqa: E731
    return altro(flow, np.zeros(4), [0.0, np.pi, 0.0, 0.0], 100, 5.0, 1e-2, 0.1, 100.0, (-3.0, 3.0), [0.01])


def three_obstacles():
    rows = outside([(3.0 * a, 3.0 * a, 0.425) for a in (0.25, 0.5, 0.75)])
    limits = [0.0, -3.0], [3.0, 3.0]
    return altro(car, np.zeros(3), [3.0, 3.0, 0.0], 100, 5.0, 1.0, 0.5, 10.0, limits, [0.01, 0.01], rows)


def parallel_park():
    rows = [(1, 99, lambda x, u: x[:2], [-0.25, -0.001], [0.25, 1.501])]
    return altro(car, np.zeros(3), [0.0, 1.5, 0.0], 100, 3.0, 1e-2, 1e-2, 100.0, (-2.0, 2.0), [0.1, 0.1], rows)


def car_escape():
    at = np.linspace
    walls = [(x, y, 0.5) for x in (0.0, 5.0, 10.0) for y in at(0.0, 5.0, 30)]
    walls += [(x, 0.0, 0.5) for x in at(0.0, 10.0, 50)]
    walls += [(x, 5.0, 0.5) for x in (*at(0.0, 3.0, 15), *at(5.0, 8.0, 15))]
    way = np.array([
        [2.5, 2.5, 0.0], [4.0, 5.0, 0.785], [5.0, 6.25, 0.0], [7.5, 6.25, -0.261], [9.0, 5.0, -1.57], [7.5, 2.5, 0.0],
    ])  # fmt: skip
    X = np.stack([np.interp(at(0.0, 1.0, 101), at(0.0, 1.0, 6), column) for column in way.T], axis=1)
    return altro(
        car, way[0], [7.5, 2.5, 0.0], 100, 3.0, 1e-3, 1e-2, 100.0, (-5.0, 5.0), [1.0, 1.0], outside(walls), X
    )


CASES = {
    "pendulum/limited": limited_pendulum, "cartpole/rail": rail, "acrobot/limited": acrobot,
    "altro/double-integrator": double_integrator, "altro/pendulum": pendulum, "altro/cartpole": cartpole,
    "altro/three-obstacles": three_obstacles, "altro/parallel-park": parallel_park, "altro/car-escape": car_escape,
}  # fmt: skip
