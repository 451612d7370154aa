"""Functions of x (3,) and u (2,) at random: programs of a few lines in everything that can be followed.

Each line gives a value of one kind a name: v, a vector of three numbers, s, a number, m, a matrix (3, 3), c, three
conditions, b, a condition. Later lines use it, and the same line writes into it as $.
"""

import linecache
import math
import re

import numpy as np

WORDS = {
    "smooth": "sin cos tan exp expm1 log1p sqrt log square tanh sinh cosh arctan arcsinh arcsin arccos arccosh arctanh"
    " cbrt exp2 log2 log10 reciprocal deg2rad sinc",
    "exact": "abs square sign floor ceil trunc rint positive fabs",
    "of_math": "sin cos exp sqrt log fabs atan tanh floor ceil trunc degrees log1p expm1 exp2 log10 asinh cosh",
    "smooth_pair": "divide hypot arctan2 power copysign logaddexp float_power",
    "exact_pair": "add multiply maximum minimum fmax fmin mod floor_divide heaviside fmod remainder",
    "op": "+ - *", "compared": "< <= > >= == !=", "logic": "& | ^", "i": "0 1 2", "axis": "0 1 -1",
    "reduced": "sum prod max min", "factor": "2 3 0.5 -0.5 1.5 -2 True np.int64(2) np.float32(0.25)",
}  # fmt: skip
"""Choices of words in lines."""

GIVEN = {
    "s": ["0.0", "-0.0", "1.0", "-1.0", "2", "0.5", "True", "np.int64(2)", "np.float32(0.25)"],
    "v": ["np.array([1.0, -2.0, 0.5])", "np.array([1, 2, 3])", "np.arange(3)", "np.array([True, False, True])",
          "np.ones(3)", "np.array([2, 3, 4], dtype=np.float32)", "np.linspace(-1, 1, 3)", "np.full(3, 2)"],
    "m": ["np.array([[2.0, 0.5, 1.0], [0.25, 1.5, -0.5], [1, 0.5, 3]])", "np.eye(3)", "np.tri(3)",
          "np.diag([1, 2, 3])"],
}  # fmt: skip
"""Constants by kind."""

LINES = {
    "elementwise": [
        "v = np.{exact}({v})", "v = np.{exact_pair}({v}, {v})", "v = np.{exact_pair}({s}, {v})", "v = {v} + {v}",
        "s = np.{exact_pair}({s}, {factor})", "v = {v} * {v}", "v = {v} * {factor}", "v = np.{exact_pair}(2, {v})",
        "s = {s} + {s}", "s = np.{exact}({s})", "s = np.{exact_pair}({s}, {s})", "v = np.clip({v}, {s}, {factor})",
        "c = {v} {compared} {s}", "b = {s} {compared} {factor}", "c = {c} {logic} {c}", "c = ~{c}", "b = not {b}",
        "v = np.where({c}, {v}, {v})", "v = np.where({c}, {s}, {v})", "s = {s} if {b} else {s}", "v = {v}[::-1]",
        "v = {v} if {b} else {v}", "c = np.isnan({v})", "c = np.isfinite({v})", "c = np.isinf({v})", "s = {v}[{i}]",
        "v = np.select([{c}, {c}], [{v}, {v}], {s})", "s = np.max({v})", "s = np.min({v})", "v = {v}[[2, 0, 0]]",
    ],
    "exact": [
        "v = {v} {op} {v}", "v = {v} {op} {constant_s}", "v = {constant_v} {op} {v}", "s = {s} {op} {constant_s}",
        "v = np.{exact_pair}({v}, {constant_v})", "v = np.{exact_pair}({constant_v}, {v})",
        "v = np.clip({v}, {s}, {s})",
        "v = {c} * {v}", "v = {c} + 0.5", "s = np.sum({c}) * {s}", "s = np.any({c}) * {s}", "v = {c}.astype(float)",
        "s = max({s}, {s}, {s})", "s = min({v})", "s = sum({v})", "s = np.{reduced}({v})", "s = {v}.{reduced}()",
        "v = np.sort({v})", "s = {v}[np.argmax({v})]", "s = {s} * np.argmin({v})", "v = {v} * (1.0 + np.argsort(x))",
        "v = np.cumsum({v})", "v = np.cumprod({v})", "v = np.maximum.accumulate({v})", "v = np.ediff1d({v}, {s})",
        "s = {v} @ {v}", "s = np.dot({v}, {v})", "v = np.cross({v}, {v})", "m = np.outer({v}, {v})", "v = {m} @ {v}",
        "m = {m} @ {m}", "m = {m} + {v}", "m = {m} * {v}[:, None]", "m = {m}.T", "v = {m}[{i}]", "v = {m}[:, {i}]",
        "v = np.diag({m})", "s = np.trace({m})", "v = {m}.{reduced}(axis={axis})", "v = np.einsum('ij,j->i', {m}, {v})",
        "m = np.stack([{v}, {v}, {v}], axis={axis})", "m = np.where({m} > 0, {m}, {s})", "m = np.tril({m})",
        "v = np.array([{s}, {s}, {s}])", "v = np.concatenate([{v}[:1], u])", "v = np.append(u, {s})",
        "v = np.full(3, {s})", "v = np.roll({v}, {i})", "v = np.repeat({s}, 3)", "v = np.zeros_like({v}) + {s}",
        "v = np.take({v}, [0, 2, 1])", "v = np.convolve({v}, [1.0, 0.5])[:3]", "v = np.gradient({v})", "v = -{v}",
        "v = np.piecewise({v}, [{v} < 0], [lambda t: t * t, lambda t: t])", "v = np.kron({v}[:1], {v})",
        "v = np.polyval([1, -0.5, {s}], {v})", "s = np.sum({v}, where={c})", "s = np.max({v}, initial={s})",
        "s = divmod({s}, 1.5)[{i} % 2]", "v = {v} % 1.5 + {v} // 0.5", "s = float({s})", "s = abs({s})",
        "v = np.array({v}, float); $[{i}] = {s}", "v = np.array({v}, float); $[1:] += u", "v = {v} * 1.0; $ *= {v}",
        "v = np.zeros(3); $[:2] = u; $[::2] += {s}", "v = {v} * 1.0; w = $[1:]; w[:] = w[::-1].copy(); w *= 2",
        "v = np.array({v}, float); $[{c}] = {s}", "v = {v} * 1.0; $[$ > 0] *= {s}", "v = {v} * 1.0; $.sort()",
        "v = np.array([max(a, {s}) for a in {v}])", "v = np.empty(3); $[0] = {s}; $[1:] = u", "m = {m} @ {constant_m}",
        "v = np.array({v}, float); w = $; w[0] = {s}", "v = np.array({v}, float); np.add($, {v}, out=$)",
        "v = {constant_m} @ {v}",
        "v = np.divide({v}, 2, out=np.zeros(3), where={c})", "v = {v}.astype(float); $[0], $[2] = $[2], $[0]",
        "v = np.linspace({s}, 2, 3)", "v = np.linspace(0, 1, 3); $[{i}] = {s}", "m = np.eye(3); $[{i}] = {v}",
    ],
    "smooth": [
        "v = np.{smooth}({v})", "v = np.{smooth}({v})", "s = np.{smooth}({s})",
        "s = math.{of_math}(1.5 + math.tanh({s}))",
        "v = np.{smooth_pair}({v}, {v})", "s = np.{smooth_pair}({s}, {s})", "v = {v} / {s}", "v = {v} ** {s}",
        "v = {factor} ** {v}", "s = pow({s}, 3)", "s = {s} ** 0.5", "v = np.hypot({v}, {factor})", "v = 2 / {v}",
        "v = np.linalg.solve(np.outer(x, x) + np.eye(3), x)", "m = np.linalg.inv(np.outer(x, x) + np.eye(3))",
        "s = np.std({v})",
        "s = np.linalg.det({m})", "v = np.linalg.norm({m}, axis={axis})", "s = np.linalg.norm({v})", "s = np.var({v})",
        "v = np.interp({v}, [-1.0, 0.0, 2.0], {v})", "s = np.median({v})", "s = np.mean({v})", "s = np.trapezoid({v})",
        "v = np.sqrt({v}, out=np.zeros(3), where={v} > 0)", "s = np.linalg.norm({v}, 1)", "s = np.ptp({v})",
        "v = np.where({v} > 0, np.sqrt({v}), {v})", "v = 1.0 / (1.0 + np.exp(-{v}))", "v = np.log1p(np.exp({v}))",
    ],
}
"""Lines by what they are made of: entries alone, bit by bit as NumPy; with others likewise; with rounding."""


def program(seed, *kinds, lines=6):
    """A function of x and u, and its text, made of some kinds of `LINES`."""
    rng, text = np.random.default_rng(seed), []
    pool = {"v": ["x"], "s": ["x[0]", "x[2]", "u[0]", "u[1]"], "m": [], "c": ["(x > u[0])"], "b": ["(u[0] > 0)"]}

    def one(choices):
        return choices[int(rng.integers(len(choices)))]

    def chosen(word):
        if word in WORDS:
            return one(WORDS[word].split())
        constant = word.startswith("constant_") or not pool[word]
        return one(GIVEN[word[-1]] if constant else pool[word])

    for count in range(lines):
        line = re.sub(r"{(\w+)}", lambda found: chosen(found[1]), one(LINES[one(kinds)]))
        kind, name = line[0], f"{line[0]}{count}"
        text.append(line.replace(f"{kind} =", f"{name} =", 1).replace("$", name))
        pool[kind].append(name)
    sums = [*pool["v"][-2:-1], *pool["s"][-2:], *pool["m"][-1:], "x"]
    text.append(f"return [*{pool['v'][-1]}, {', '.join(f'np.sum({one})' for one in sums)}]")
    source = "def f(x, u):\n" + "".join(f"    {line}\n" for line in text)
    name, names = f"<random function {seed}>", {"np": np, "math": math}
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), names)
    return names["f"], source
