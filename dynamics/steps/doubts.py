"""Doubts about a problem of a robot, before it is solved: what is allowed, and hardly ever meant."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ddp.errors import numbers
from ddp.protocols import Array
from dynamics.geometry.solids import Capsule, Marked
from dynamics.robots.joints import NO_LIMIT, UNIT_NUMBERS, Ranges
from dynamics.robots.libraries import pin
from dynamics.robots.massless_joints import mass_matrix
from dynamics.robots.model import Robot
from dynamics.robots.tree import copied_numbers
from dynamics.steps.footholds import missed_footholds

BEYOND = 1e-3
"""Distance beyond a limit, or out of reach, that is worth a word [rad, m]."""
TURNS = 4.0 * np.pi
"""Angles larger than this are taken for degrees [rad]."""
FULL_TURN = 360.0
"""Bounds of angles above this stand for none [rad]: in degrees they would be more than a turn."""
WEAK = 1.5
"""Controls that hold a robot this many times beyond their limits are told of: others may share their load."""
LONG = 1.0
"""Steps of robots this long are taken for milliseconds [s]."""
MOST = 3
"""Names in one sentence."""
OF_MODELS = {"inertia": "inertias", "placement": "jointPlacements"}
"""Names that Pinocchio's models have for arrays of trees."""
DECAYS = {"semi-implicit-euler": 2.0, "euler": 2.0, "rk4": 2.785}
"""Largest stable product of a step and a rate of decay, by explicit integrators."""


def doubts_of(system: Any, problem: Any) -> Iterator[str]:
    """Find sentences about what a problem of a robot's system has, and is hardly meant to have, the quickest first."""
    robot: Robot = system.robot
    if robot.is_hybrid:  # rods bend and stretch
        return
    q, plain = np.asarray(problem.x0)[: robot.nq], [*plain_numbers(robot)]
    stated, ranges = stated_in(problem), robot.ranges
    yield from (*_changed(robot), *_steps(system, q), *_angles(plain, "x0", q))
    yield from (*_limits(robot, plain, q), *_quaternions(robot, q), *strangers(robot, stated))
    yield from (*_driven(system, stated), *_bounds(plain, ranges, stated), *_aims(robot, plain, ranges, stated))
    targets = dict.fromkeys(_targets(robot, stated))  # one may be that of a cost and of a constraint
    yield from (*targets, *_obstructed(problem), *missed_footholds(system, problem))
    yield from (*_forces(system, problem), *_torques(system, problem, plain, ranges, q))
    yield from _standing(system, problem.x0)  # which has to compile kernels first


def is_beyond_reach(robot: Robot, problem: Any) -> bool:
    """Whether a target at the end is known to be further away than a robot reaches, or of more numbers than it has."""
    if robot.is_hybrid:
        return False
    terms = [term for term in map(_lifted, problem.terminal) if callable(getattr(term, "marks", None))]
    weights = [np.asarray(getattr(term, "weights", 0.0)) for term in terms]
    asked = [np.linalg.matrix_rank(W) if W.ndim == 2 else np.count_nonzero(W) for W in weights]
    return bool(max(asked, default=0) > robot.nv) or any(_targets(robot, terms))


def terms_of(problem: Any) -> list[Any]:
    """Terms of a problem's cost, as they were given to the innermost of compositions."""
    plain = [getattr(problem, name, ()) for name in ("running", "terminal")]
    mapped = [terms for name in ("during", "at") for terms in getattr(problem, name, {}).values()]
    return [_lifted(term) for terms in (*plain, *mapped) for term in terms]


def stated_in(problem: Any) -> list[Any]:
    """Terms and constraints of a problem, as they were given to the innermost of compositions."""
    return [*terms_of(problem), *constraints_of(problem)]


def constraints_of(problem: Any) -> list[Any]:
    """Constraints of a problem, in the order of ``problem.placed``, as they were given to the innermost."""
    return [_lifted(placed.constraint) for placed in getattr(problem, "placed", ())]


def obstacles_of(problem: Any) -> list[Capsule]:
    """Obstacles of a problem's constraints, each once."""
    marks = [mark for one in constraints_of(problem) if isinstance(one, Marked) for mark in one.marks()]
    solids = {(*m.start, *m.end, m.radius): m for m in marks if m.kind == "obstacle"}
    return [Capsule(m.start, m.end, m.radius) for m in solids.values()]


def _lifted(one: Any) -> Any:
    """A term or a constraint, or the one within it that it lifts."""
    while name := getattr(one, "lifts", None):
        one = getattr(one, name)
    return one


def strangers(robot: Robot, terms: Iterable[Any]) -> Iterator[str]:
    """Terms, constraints or sensors of another robot with as many numbers, whose joints lie elsewhere."""
    for term in terms:
        other, own = getattr(term, "robot", robot), robot.tree
        if other is robot or not isinstance(other, Robot) or other.is_hybrid:
            continue
        alike = np.array_equal(other.tree.kind, own.kind) and np.array_equal(other.tree.parent, own.parent)
        if not (alike and np.allclose(other.tree.placement, own.placement, rtol=0.0, atol=BEYOND)):
            yield f"{type(term).__name__}: made for {other.name}, whose joints lie elsewhere than those of {robot.name}"


def _changed(robot: Robot) -> Iterator[str]:
    """Numbers of Pinocchio's model that were changed after it was compiled."""
    if (source := robot.modelled) is None:
        return
    pairs = {name: (now, getattr(source.tree, name)) for name, now in copied_numbers(source.model).items()}
    unlike = [name for name, pair in pairs.items() if not _nearly(*pair)]
    if changed := ", ".join(OF_MODELS.get(name, name) for name in unlike):
        old = f"{robot.name} moves as it did before: mayne.load(robot.model) is the robot of what it is now"
        yield f"robot.model: {changed} changed since it was compiled, {old}"


def _nearly(now: Array, then: Array) -> bool:
    """Whether rows are equal but for rounding, as those of bodies are whose masses were varied."""
    if now.tobytes() == then.tobytes():
        return True
    return bool((np.abs(now - then) <= 1e-12 * np.abs(then).max(axis=-1, keepdims=True)).all())


def _driven(system: Any, terms: list[Any]) -> Iterator[str]:
    """Terms and constraints on torques or forces that another system's controls, damping or springs make."""
    for term in terms:
        own = getattr(term, "system" if hasattr(term, "contacts") else "driven", system)
        if own is system or not hasattr(own, "actuation"):  # a user's own attribute of that name
            continue
        by_controls = own.nu == system.nu and not np.array_equal(own.actuation, system.actuation)
        resisted = hasattr(term, "contacts") and (own.damping, own.springs) != (system.damping, system.springs)
        if by_controls or resisted:
            what = "controls" if by_controls else "damping or springs"
            yield f"{type(term).__name__}: made for a system whose {what} act otherwise than those of the problem's"


def _steps(system: Any, q: Array) -> Iterator[str]:
    """Steps that are long, and the joint whose motion grows in explicit ones, because of its viscous friction."""
    if system.dt >= LONG:
        yield f"dt: steps of {system.dt:g} s are long for a robot: are these milliseconds? dt is in seconds"
    robot, most = system.robot, DECAYS.get(getattr(system, "integrator", ""), np.inf)
    root = np.sqrt(robot.tree.damping) if system.damping else np.zeros(robot.nv)
    if not root.any() or most == np.inf:
        return
    inverse = np.linalg.pinv(mass_matrix(robot.model, q), hermitian=True)  # M may be singular
    rates, motions = np.linalg.eigh(root[:, None] * inverse * root)
    if rates[-1] * system.dt > most:
        i = int(np.argmax(np.abs(motions[:, -1])))
        yield (
            f"damping: {system.named_numbers[1][i]}'s, {root[i] ** 2:.3g}, makes its speed grow in steps of "
            f"{system.dt:g} s, longer than {most / rates[-1]:.2g} s: take integrator='sdirk2', or a smaller dt"
        )


Plain = tuple[str, int, int, bool]
"""A joint as `plain_numbers` tells it."""


def plain_numbers(robot: Robot) -> Iterator[Plain]:
    """Name, places in q and in v, and whether an angle, of each joint with one plain number."""
    model, tree = robot.model, robot.tree
    for j in range(1, model.njoints):
        joint = model.joints[j]
        if joint.nq == 1 and joint.nv == 1 and int(tree.kind[j - 1]) not in UNIT_NUMBERS:
            turns = "P" not in joint.shortname().removeprefix("JointModel")[:2]
            yield str(model.names[j]), int(joint.idx_q), int(joint.idx_v), turns


def _angles(plain: list[Plain], field: str, q: Array) -> Iterator[str]:
    large = [(name, q[i]) for name, i, _, turns in plain if turns and abs(q[i]) > TURNS]
    if large:
        said = ", ".join(f"{name} {value:.4g}" for name, value in large[:MOST])
        turns = max(abs(value) for _, value in large) / (2.0 * np.pi)
        yield f"{field}: {said} rad, up to {turns:.1f} turns: are these degrees? np.radians converts them"


def _aims(robot: Robot, plain: list[Plain], own: Ranges, terms: list[Any]) -> Iterator[str]:
    """Targets of angles that terms and constraints of states have further out than joints go by their own limits."""
    for term in terms:
        target, weights = getattr(term, "target_x", None), getattr(term, "weights", np.ones(2 * robot.nv))
        if not (isinstance(target, np.ndarray) and isinstance(weights, np.ndarray)):
            continue
        if target.shape != (robot.nq + robot.nv,) or weights.shape[:1] != (2 * robot.nv,):  # a path may turn wheels
            continue
        q, weights = np.zeros(robot.nq), weights.diagonal() if weights.ndim == 2 else weights
        for _, i, j, _ in plain:
            most = max(abs(own.lower[i]), abs(own.upper[i]))
            q[i] = target[i] if weights[j] != 0.0 and (most == np.inf or abs(target[i]) > most) else 0.0
        yield from _angles(plain, f"{type(term).__name__}: target_x", q)


def _bounds(plain: list[Plain], own: Ranges, terms: list[Any]) -> Iterator[str]:
    """Bounds of angles that terms and constraints give further out than joints go by their own limits.

    Of a joint without limits, those that are whole numbers, as degrees usually are.
    """
    names = {i: name for name, i, _, turns in plain if turns}
    for term in terms:
        for i, *bounds in term.ranges() if callable(getattr(term, "ranges", None)) else ():
            most = max((abs(bound) for bound in bounds if np.isfinite(bound)), default=0.0)
            its = max(abs(own.lower[i]), abs(own.upper[i]))
            if i in names and TURNS < most <= FULL_TURN and (its < most or (its == np.inf and most == round(most))):
                allowed = f"{names[i]} is allowed {most:.4g} rad, {most / (2.0 * np.pi):.1f} turns"
                limit = f", its own limit is {its:.4g} rad" if its < most else ""
                yield f"{type(term).__name__}: {allowed}{limit}: are these degrees? np.radians converts them"
                break


def _limits(robot: Robot, plain: list[Plain], q: Array) -> Iterator[str]:
    low, high = robot.model.lowerPositionLimit, robot.model.upperPositionLimit
    out = []
    for name, i, _, turns in plain:
        within = min(max(q[i], low[i]), high[i]) if low[i] < high[i] else q[i]
        if abs(q[i] - within) > BEYOND and abs(q[i]) <= (TURNS if turns else NO_LIMIT):
            out.append(f"{name} at {q[i]:.4g}, its limit is {within:.4g} {'rad' if turns else 'm'}")
    if out:
        more = f", and {len(out) - MOST} more" if len(out) > MOST else ""
        yield f"x0: beyond limits of joints: {'; '.join(out[:MOST])}{more}"


def excesses_of(robot: Robot, X: Array) -> list[str]:
    """Sentences about joints with one number that leave their limits of position or velocity along X (N, nx)."""
    if robot.is_hybrid:
        return []
    model, found = robot.model, []
    for name, i, j, turns in plain_numbers(robot):
        unit, fastest = "rad" if turns else "m", float(model.upperVelocityLimit[j])
        for what, values, low, high, of in (
            ("position", X[:, i], model.lowerPositionLimit[i], model.upperPositionLimit[i], unit),
            ("velocity", X[:, robot.nq + j], -fastest, fastest, f"{unit}/s"),
        ):
            excess = float(np.abs(values - np.clip(values, low, high)).max()) if low < high else 0.0
            if excess > BEYOND:
                found.append(f"{name} leaves its limits of {what} by {excess:.3g} {of}")
    return found


def efforts_of(system: Any, U: Array) -> list[str]:
    """Sentences about controls (N, nu) of a robot's own drives or joints that leave the limits which its file has."""
    robot: Robot = system.robot
    if not np.array_equal(system.actuation, robot.actuation):
        return []
    (lower, upper), names = robot.control_limits.T, system.named_numbers[2]
    beyond = np.abs(U - np.clip(U, lower, upper)).max(axis=0, initial=0.0)
    told = np.flatnonzero(beyond > BEYOND * np.maximum(1.0, np.minimum(np.abs(lower), np.abs(upper))))
    own = () if robot.is_hybrid or robot.equipment.drives else plain_numbers(robot)
    of = {name: "effort by {:.3g} " + ("N m" if turns else "N") for name, _, _, turns in own}
    return [f"{names[i]} leaves its limits of " + of.get(names[i], "control by {:.3g}").format(beyond[i]) for i in told]


def _quaternions(robot: Robot, q: Array) -> Iterator[str]:
    for j in range(1, robot.model.njoints):
        joint = robot.model.joints[j]
        if joint.nq in (4, 7) and joint.nv in (3, 6):
            part = slice(joint.idx_q + joint.nq - 4, joint.idx_q + joint.nq)
            turned, other = (_angle(robot.q0[part], given) for given in (q[part], np.roll(q[part], -1)))
            if turned > 90.0 > other:
                has = f"has the quaternion {numbers(q[part])}, turned by {turned:.3g} deg from its usual attitude"
                order = f"its order is x, y, z, w; as w, x, y, z it would be turned by {other:.3g} deg"
                yield f"x0: {robot.model.names[j]} {has}: {order}"


def _angle(one: Array, other: Array) -> float:
    """Angle between two attitudes, which are quaternions [deg]."""
    return float(2.0 * np.rad2deg(np.arccos(min(abs(float(one @ other)), 1.0))))


def _targets(robot: Robot, terms: list[Any]) -> Iterator[str]:
    for mark in [mark for term in terms if callable(getattr(term, "marks", None)) for mark in term.marks()]:
        if mark.kind != "target" or not mark.frame or not robot.model.existFrame(mark.frame):
            continue
        shoulder, reach = reach_of(robot, mark.frame)
        missing = float(np.linalg.norm(mark.start - shoulder)) - reach
        if missing > BEYOND:
            yield (
                f"target of {mark.frame}: {1e3 * missing:.0f} mm further than it can reach, {reach:.3f} m from its "
                "first joint"
            )


def _obstructed(problem: Any) -> Iterator[str]:
    """Targets at the end that are nearer to an obstacle than constraints let their frames come."""
    imposed = [held for name in ("constraints", "terminal_constraints") for held in getattr(problem, name, ())]
    marked = [one for one in (*getattr(problem, "terminal", ()), *imposed) if callable(getattr(one, "marks", None))]
    targets = [mark for one in marked for mark in one.marks() if mark.kind == "target" and mark.frame]
    for one in marked:
        frames = getattr(one, "frames", (getattr(one, "frame", ""),))
        for obstacle in one.marks() if getattr(one, "at_end", False) else ():
            if obstacle.kind == "obstacle":
                nearest = getattr(one, "radius", 0.0) + getattr(one, "margin", 0.0) + obstacle.radius
                for target in targets:
                    away, axis = target.start - obstacle.start, obstacle.end - obstacle.start
                    share = np.clip(away @ axis / max(axis @ axis, 1e-12), 0.0, 1.0)
                    lack = nearest - float(np.linalg.norm(away - share * axis))
                    if target.frame in frames and lack > BEYOND:
                        allows = f"nearer to an obstacle than {type(one).__name__} allows"
                        yield f"target of {target.frame}: {1e3 * lack:.0f} mm {allows}"


def _forces(system: Any, problem: Any) -> Iterator[str]:
    """Terms and constraints of forces at knots where their contacts do not hold, or not alone."""
    if problem.dynamics is not system or not getattr(system, "phases", ()):
        return
    touching = [sorted(held.frame for held in phase.contacts) for phase in system.phases for _ in range(phase.size)]
    given = [(entry.name, entry.term, entry.begin, entry.end) for entry in problem.objective.entries]
    given += [(placed.name, placed.constraint, placed.start, placed.stop) for placed in problem.placed]
    for name, one, begin, end in given:
        if getattr(one, "restitution", 0.0) is not None:  # not of forces of steps of time
            continue
        frames = sorted(contact.frame for contact in one.contacts)
        others = [knot for knot, touch in enumerate(touching[begin:end], begin) if touch != frames]
        if others:
            yield (
                f"{name}: forces as if {', '.join(frames)} held the robot, but at knot {others[0]} "
                f"{', '.join(touching[others[0]]) or 'nothing'} does: impose it at the knots of their phase, by "
                "constraints_at, at or during"
            )


def reach_of(robot: Robot, frame: str) -> tuple[Array, float]:
    """Place of a frame's first joint in the world (3,) [m], and a bound of how far from there the frame comes [m].

    The bound is the length of the stretched chain, with sliders at their limits; infinite where something is free.
    """
    model = robot.model
    found = model.frames[model.getFrameId(frame)]
    length, joint = float(np.linalg.norm(found.placement.translation)), int(found.parentJoint)
    if joint == 0:
        return np.zeros(3), np.inf
    while True:
        kind = model.joints[joint]
        name = kind.shortname().removeprefix("JointModel")
        if kind.nv > 1:
            if not name.startswith(("Spherical", "Universal")):  # which turn alone
                return np.zeros(3), np.inf
        elif not name.startswith("R"):  # a slider, or one that turns and slides
            low, high = float(robot.ranges.lower[kind.idx_q]), float(robot.ranges.upper[kind.idx_q])
            length += max(abs(low), abs(high)) if name.startswith("P") and low < high else np.inf
        place, parent = model.jointPlacements[joint].translation, int(model.parents[joint])
        if parent == 0:
            return np.array(place), length
        length += float(np.linalg.norm(place))
        joint = parent


def _torques(system: Any, problem: Any, plain: list[Plain], ranges: Ranges, q: Array) -> Iterator[str]:
    """Torques and forces that hold x0 at rest, of a robot whose controls are those of all its joints."""
    robot: Robot = system.robot
    rests = getattr(system, "phases", None) is None and system.nu == robot.nv
    if not rests or not np.array_equal(system.actuation, np.eye(robot.nv)) or robot.loops:
        return
    needed = pin.computeGeneralizedGravity(robot.model, robot.model.createData(), q)
    if system.springs:
        for _, i, j, _ in plain:
            needed[j] += robot.tree.stiffness[j] * (q[i] - robot.tree.springref[j])
    imposed = np.atleast_2d(problem.lower)[0], np.atleast_2d(problem.upper)[0]
    for (low, high), what in (
        (imposed, "its limit is {:.3g}: the motion begins with a fall"),
        (ranges.effort.T, "its file allows {:.3g}, which control_limits=robot.control_limits.T imposes"),
    ):
        over = np.maximum(needed - high, low - needed)
        worst = int(np.argmax(over))
        if over[worst] > BEYOND * max(1.0, abs(needed[worst])):
            name, limit = system.named_numbers[1][worst], high[worst] if needed[worst] > high[worst] else low[worst]
            unit = "N" if any(j == worst and not turns for _, _, j, turns in plain) else "N m"
            yield f"x0: {name} needs {needed[worst]:.3g} {unit} to rest there, {what.format(limit)}"
            break


def _standing(system: Any, x0: Array) -> Iterator[str]:
    """Controls that hold x0 on the contacts of the first phase far beyond the limits of the robot's file."""
    robot: Robot = system.robot
    phases = getattr(system, "phases", None)
    if not phases or not phases[0].contacts or not np.array_equal(system.actuation, robot.actuation):
        return
    u, (low, high) = system.nominal_control(x0), robot.control_limits.T
    limit = np.where(u > 0.0, high, low)
    worst = int(np.argmax(np.abs(u) - WEAK * np.abs(limit)))
    if abs(u[worst]) > WEAK * abs(limit[worst]):
        name = system.named_numbers[2][worst]
        yield f"x0: {name} needs a control of {u[worst]:.3g} to stand there, its limit is {limit[worst]:.3g}"
