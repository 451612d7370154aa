"""Graphs of operations evaluated with 80 digits, and differences of those: derivatives good to 40 digits."""

from decimal import Decimal, getcontext

import numpy as np

from ddp.tracing.numbers import ordered

getcontext().prec = 80
STEP = Decimal(10) ** -20


def series(term, ratio):
    """The sum of terms, each the last one times ``ratio(k)``, k = 1, 2, ..."""
    total, k = term, 1
    while abs(term) > Decimal(10) ** -78:
        term *= ratio(k)
        total += term
        k += 1
    return total


def atan(x):
    if abs(x) > Decimal("0.1"):  # half the angle
        return 2 * atan(x / (1 + (1 + x * x).sqrt()))
    total, power, k = Decimal(0), x, 0
    while abs(power) > Decimal(10) ** -78:
        total += (-1) ** k * power / (2 * k + 1)
        power *= x * x
        k += 1
    return total


PI = 4 * atan(Decimal(1))


def sin(x):
    x = x - 2 * PI * (x / (2 * PI)).to_integral_value()
    return series(x, lambda k: -x * x / ((2 * k) * (2 * k + 1)))


def cos(x):
    return sin(x + PI / 2)


def asin(x):
    return atan(x / (1 - x * x).sqrt())


def atan2(y, x):
    if x == 0:
        return (PI / 2).copy_sign(y)
    return atan(y / x) + (0 if x > 0 else PI.copy_sign(y))


def sinh(x):
    return (x.exp() - (-x).exp()) / 2


def cosh(x):
    return (x.exp() + (-x).exp()) / 2


def asinh(x):
    return (x + (x * x + 1).sqrt()).ln()


def floor(x):
    return x.to_integral_value(rounding="ROUND_FLOOR")


OPERATIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "neg": lambda a: -a, "pow": lambda a, b: (b * a.ln()).exp(), "sqrt": lambda a: a.sqrt(), "sin": sin, "cos": cos,
    "tan": lambda a: sin(a) / cos(a), "exp": lambda a: a.exp(), "expm1": lambda a: a.exp() - 1, "log": lambda a: a.ln(),
    "log1p": lambda a: (1 + a).ln(), "asin": asin, "acos": lambda a: PI / 2 - asin(a), "atan": atan, "atan2": atan2,
    "sinh": sinh, "cosh": cosh, "tanh": lambda a: sinh(a) / cosh(a), "asinh": asinh,
    "acosh": lambda a: (a + (a * a - 1).sqrt()).ln(), "atanh": lambda a: ((1 + a) / (1 - a)).ln() / 2,
    "floor": floor, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b, "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a,
    "select": lambda c, p, q: p if c else q, "fabs": abs, "hypot": lambda a, b: (a * a + b * b).sqrt(),
    "rint": lambda a: a.to_integral_value(rounding="ROUND_HALF_EVEN"), "floordiv": lambda a, b: floor(a / b),
    "mod": lambda a, b: a - floor(a / b) * b, "fmod": lambda a, b: a - (a / b).to_integral_value("ROUND_DOWN") * b,
}  # fmt: skip


def evaluated(outputs, z):
    """Outputs of a graph at z; what is not chosen by a select is not evaluated."""
    known = {}

    def value(node):
        if node.place not in known:
            match node.op:
                case "const":
                    known[node.place] = Decimal(node.args[0])
                case "var":
                    known[node.place] = z[node.args[0]]
                case "select":
                    known[node.place] = value(node.args[1] if value(node.args[0]) else node.args[2])
                case op:
                    known[node.place] = OPERATIONS[op](*map(value, node.args))
        return known[node.place]

    for node in ordered(outputs):  # shallow first, so that recursion is
        if node.op in ("add", "sub", "mul", "neg", "var", "const"):
            try:
                value(node)
            except ArithmeticError:
                known.pop(node.place, None)
    return [value(node) for node in outputs]


def differences(outputs, z):
    """First (m, n) and second (m, n, n) derivatives of outputs by their variables, at floats z (n,)."""
    n, m = len(z), len(outputs)
    at = [Decimal(float(x)) for x in z]

    def moved(*moves):
        point = list(at)
        for i, by in moves:
            point[i] += by
        return evaluated(outputs, point)

    h, middle = STEP, moved()
    J, H = np.zeros((m, n)), np.zeros((m, n, n))
    single = [(moved((i, h)), moved((i, -h))) for i in range(n)]
    for i in range(n):
        for r in range(m):
            J[r, i] = float((single[i][0][r] - single[i][1][r]) / (2 * h))
            H[r, i, i] = float((single[i][0][r] + single[i][1][r] - 2 * middle[r]) / h**2)
        for j in range(i):
            ahead, behind = moved((i, h), (j, h)), moved((i, -h), (j, -h))
            across, back = moved((i, h), (j, -h)), moved((i, -h), (j, h))
            for r in range(m):
                H[r, i, j] = H[r, j, i] = float((ahead[r] + behind[r] - across[r] - back[r]) / (4 * h**2))
    return J, H
