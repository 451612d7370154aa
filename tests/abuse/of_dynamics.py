"""Functions of `dynamics` that are abused."""

import numpy as np
import pinocchio as pin

import dynamics
from abuse.subjects import Subject
from ddp import SO3, Euclidean, Space
from dynamics import (
    Assembly,
    Circle,
    Contact,
    ContactSprings,
    ContinuousDynamics,
    Cylinder,
    FunctionDynamics,
    Material,
    OneSample,
    Phase,
    PhasedDynamics,
    Plane,
    Rectangle,
    RobotDynamics,
    Rod,
    Tendon,
    Water,
    augment,
)


def subjects():
    arm, solo = dynamics.load("ur5"), dynamics.load("solo12")
    rng = np.random.default_rng(3)
    q, v, a, mu = arm.q0 + 0.1, *rng.uniform(-1.0, 1.0, (3, 6))
    free = {"robot": arm, "q": q, "v": v}
    named = {"frame": "tool0"}
    found = [
        Subject("load", dynamics.load, {"source": "ur5"}, others={"source": ("robot", "file", "model", "meshes")}),
        Subject("mass_matrix", dynamics.mass_matrix, {"robot": arm, "q": q}),
        Subject("inverse_mass_matrix", dynamics.inverse_mass_matrix, {"robot": arm, "q": q}),
        Subject(
            "inverse_mass_matrix_derivatives", dynamics.inverse_mass_matrix_derivatives,
            {"robot": arm, "q": q, "tau": mu},
        ),
        Subject(
            "linearize", dynamics.linearize,
            {"robot": arm, "q": q, "v": v, "tau": a, "actuation": np.eye(6), "fext": np.zeros((7, 6))},
        ),
        Subject("JointSensor", dynamics.JointSensor, {"robot": arm, "joints": arm.joint_names[:2]}),
        Subject("FrameSensor", dynamics.FrameSensor, {"robot": arm, "frame": "tool0"}),
        Subject("OneSample", OneSample, {"robot": arm}),
        Subject("Loop", dynamics.Loop, {"frame_a": "tool0", "frame_b": "universe", "free": "x ry"}),
        Subject("statics", dynamics.statics, {"robot": arm, "u": mu, "q0": q}),
        Subject(
            "simulate", dynamics.simulate,
            {"system": RobotDynamics(arm, 0.01), "x0": np.r_[q, v], "u": mu, "seconds": 0.05, "tolerance": 1e-2},
        ),
        Subject("neutral", arm.neutral, {}),
        Subject("random_configuration", arm.random_configuration, {"rng": rng}),
        Subject("center_of_mass", dynamics.center_of_mass, {"robot": arm, "q": q}),
        Subject("center_of_mass_derivatives", dynamics.center_of_mass_derivatives, {"robot": arm, "q": q}),
        Subject(
            "center_of_mass_hessian", dynamics.center_of_mass_hessian, {"robot": arm, "q": q, "weight": mu[:3].copy()}
        ),
        Subject("frame_position", dynamics.frame_position, {"robot": arm, "q": q} | named),
        Subject("frame_placement", dynamics.frame_placement, {"robot": arm, "q": q} | named),
        Subject("frame_placement_derivatives", dynamics.frame_placement_derivatives, {"robot": arm, "q": q} | named),
        Subject(
            "frame_placement_hessian", dynamics.frame_placement_hessian, {"robot": arm, "q": q, "weight": mu} | named
        ),
        Subject("frame_velocity", dynamics.frame_velocity, free | named),
        Subject("frame_velocity_derivatives", dynamics.frame_velocity_derivatives, free | named),
        Subject("frame_velocity_hessian", dynamics.frame_velocity_hessian, free | named | {"weight": mu}),
        Subject("momentum_hessian", dynamics.momentum_hessian, free | {"weight": mu}),
    ]  # fmt: skip
    for name in ("energy", "energy_derivatives", "energy_hessian", "momentum", "momentum_derivatives"):
        found.append(Subject(name, getattr(dynamics, name), free))
    for name in ("", "_derivatives", "_second_derivatives"):
        found.append(Subject(f"inverse_dynamics{name}", getattr(dynamics, f"inverse_dynamics{name}"), free | {"a": a}))
        found.append(
            Subject(f"forward_dynamics{name}", getattr(dynamics, f"forward_dynamics{name}"), free | {"tau": a})
        )
    found += [
        Subject("inverse_dynamics_hessian", dynamics.inverse_dynamics_hessian, free | {"a": a, "mu": mu}),
        Subject("forward_dynamics_hessian", dynamics.forward_dynamics_hessian, free | {"tau": a, "weight": mu}),
        Subject(
            "forward_dynamics_both_derivatives", dynamics.forward_dynamics_both_derivatives,
            free | {"tau": a, "weight": mu},
        ),
        *_of_contacts(solo, rng),
        *_of_systems(arm, solo, v, rng),
        *_of_rods(),
        *_of_compositions(arm),
    ]  # fmt: skip
    return found


def _of_compositions(arm):
    own = FunctionDynamics(_turn, 2, 1)
    rates = augment.rates(own)
    free = dynamics.FreeStart(own)
    x, u = np.array([0.3, 0.2, 0.1]), np.array([0.1])
    found = [
        Subject("Euclidean", Euclidean, {"size": 3}, others={"size": ("Euclidean",)}),
        Subject("Space", Space, {"parts": [SO3()]}, others={"parts": ("state",)}),
        Subject("Augmented", dynamics.Augmented, {"system": own, "inputs": _chosen, "nr": 1}),
        Subject("augment.rates", augment.rates, {"system": own, "control_limits": [[-1.0, 1.0]]}),
        Subject("augment.delays", augment.delays, {"system": own, "steps": 2}),
        Subject("augment.motors", augment.motors, {"system": own, "time": 0.1}),
        Subject("augment.elasticity", augment.elasticity, {"system": own, "stiffness": 1.0, "inertia": 0.1},
                meant={"stiffness": ("function", "class")}),
        Subject("augment.driven", augment.driven, {"system": own, "inputs": _same, "nr": 1}),
        Subject("augment.remembering", augment.remembering, {"system": own, "count": 1}, others={"count": ("ns",)}),
        Subject("augment.parameters", augment.parameters,
                {"system": FunctionDynamics(_pushed, 2, 1, parameters=[1.0])}),
        Subject("FreeStart", dynamics.FreeStart, {"system": own, "directions": np.eye(2)}),
        Subject("KinematicDynamics", dynamics.KinematicDynamics, {"robot": arm, "dt": 0.1, "rates": np.eye(6)}),
        Subject("MimicDynamics", dynamics.MimicDynamics,
                {"robot": arm, "dt": 0.1, "followers": {arm.joint_names[1]: (arm.joint_names[0], 1.0, 0.0)}}),
    ]  # fmt: skip
    for name, made, n in (("rates", rates, 3), ("FreeStart", free, 2)):
        at = x[:n].copy()
        found += [
            Subject(f"{name}.step", made.step, {"x": at, "u": u}, others={"first": ("knot",)}),
            Subject(f"{name}.rollout", made.rollout, {"x0": at, "U": np.tile(u, (3, 1))}),
            Subject(f"{name}.linearize", made.linearize, {"x": at, "u": u}),
            Subject(f"{name}.hessian", made.hessian, {"x": at, "u": u, "weight": np.ones(n)}),
            Subject(f"{name}.check_state", made.check_state, {"x": at, "field": "x"}, spare=("field",)),
        ]
    return found


def _chosen(x, s, r):
    return r


def _same(x, r):
    return r


def _pushed(x, u, p):
    return x + p[0] * u


def _of_contacts(solo, rng):
    feet = [Contact("FL_FOOT"), Contact("HR_FOOT")]
    free = {"robot": solo, "q": solo.q0.copy(), "v": rng.uniform(-1.0, 1.0, solo.nv)}
    tau, by, own = rng.uniform(-1.0, 1.0, solo.nv), rng.uniform(-1.0, 1.0, solo.nv), rng.uniform(-1.0, 1.0, 6)
    found = [
        Subject(
            "Contact", Contact, {"frame": "FL_FOOT", "kind": "point", "target": np.zeros(3), "gains": (1.0, 1.0)}
        )
    ]
    held = {"robot": solo, "q": free["q"], "v": free["v"], "contacts": feet}
    found.append(Subject("held_directions", dynamics.held_directions, held))
    for name in ("", "_derivatives", "_second_derivatives", "_hessian"):
        weights = {"weight": by, "force_weight": own} if name == "_hessian" else {}
        found.append(
            Subject(
                f"contact_dynamics{name}", getattr(dynamics, f"contact_dynamics{name}"),
                free | {"tau": tau, "contacts": feet} | weights,
            )
        )  # fmt: skip
        weights = {"weight": by, "impulse_weight": own} if name == "_hessian" else {}
        found.append(
            Subject(
                f"impact_dynamics{name}", getattr(dynamics, f"impact_dynamics{name}"),
                free | {"contacts": feet} | weights,
            )
        )  # fmt: skip
    return found


def _of_systems(arm, solo, v, rng):
    foot = Contact("FL_FOOT", target=np.zeros(3))
    system = RobotDynamics(arm, 0.01)
    phased = PhasedDynamics(solo, 0.01, [Phase([foot], 4)])
    own = FunctionDynamics(_turn, 2, 1)
    found = [
        Subject("Robot.with_masses", arm.with_masses, {"masses": np.ones(6)}),
        Subject("RobotDynamics", RobotDynamics, {"robot": arm, "dt": 0.01, "actuation": np.eye(6)}),
        Subject(
            "ground_forces", dynamics.ground_forces,
            {"system": phased, "X": np.tile(np.r_[solo.q0, np.zeros(18)], (5, 1)), "U": np.zeros((4, 12))},
        ),
        Subject("FunctionDynamics", FunctionDynamics, {"f": _turn, "nx": 2, "nu": 1}),
        Subject("ContinuousDynamics", ContinuousDynamics, {"f": _turn, "nx": 2, "nu": 1, "dt": 0.1}),
        Subject("Phase", Phase, {"contacts": [foot], "knots": 4}),
        Subject("PhasedDynamics", PhasedDynamics, {"robot": solo, "dt": 0.01, "phases": [Phase([foot], 4)]}),
    ]
    for name, made, x, u in (
        ("RobotDynamics", system, np.concatenate([arm.q0, v]), rng.uniform(-1.0, 1.0, 6)),
        ("PhasedDynamics", phased, np.concatenate([solo.q0, np.zeros(18)]), rng.uniform(-1.0, 1.0, 12)),
        ("FunctionDynamics", own, np.array([0.3, 0.2]), np.array([0.1])),
    ):
        n = made.n
        found += [
            Subject(f"{name}.step", made.step, {"x": x, "u": u}, others={"first": ("knot",)}),
            Subject(f"{name}.rollout", made.rollout, {"x0": x, "U": np.tile(u, (3, 1))}),
            Subject(f"{name}.difference", made.difference, {"x0": x, "x1": made.step(x, u)}),
            Subject(f"{name}.integrate", made.integrate, {"x": x, "dx": np.full(n, 0.1)}),
            Subject(f"{name}.linearize", made.linearize, {"x": x, "u": u}),
            Subject(f"{name}.hessian", made.hessian, {"x": x, "u": u, "weight": np.ones(n)}),
            Subject(f"{name}.nominal_control", made.nominal_control, {"x": x}),
            Subject(f"{name}.check_state", made.check_state, {"x": x, "field": "x"}, spare=("field",)),
        ]
    return found


def _of_rods():
    silicone, round_ = Material(1e5, 0.45, 1000.0, 100.0), Circle(0.02, 0.01)
    given = {"name": "rod", "length": 0.3, "section": round_, "material": silicone, "bending": 1, "gauss": 2}
    tendon = Tendon("side", _aside)
    robot = Assembly().rod(Rod(**given), tendons=[tendon]).robot()
    at, pulled = {"robot": robot, "q": np.full(4, 0.1)}, {"u": np.ones(1)}
    moving = at | {"v": np.full(4, 0.2)}
    found = [
        Subject("Material", Material, {"young": 1e5, "poisson": 0.45, "density": 1000.0, "damping": 1.0}),
        Subject("Circle", Circle, {"radius": 0.02, "tip": 0.01}, others={"tip": ("radius",)}),
        Subject("Rectangle", Rectangle, {"y": 0.02, "z": 0.01}),
        Subject("Tendon", Tendon, {"name": "side", "path": _aside}),
        Subject(
            "Rod", Rod, given, others=dict.fromkeys(("torsion", "bending", "stretch", "shear"), ("gauss", "rod")),
        ),
        Subject("Assembly", Assembly, {"name": "robot", "gravity": np.array([0.0, 0.0, -9.81])}),
        Subject("Assembly.rod", lambda rod, on, tendons: Assembly().rod(rod, on, tendons=tendons),
                {"rod": Rod(**given), "on": "world", "tendons": [tendon]}, others={"on": ("frame",)}),
        Subject("Plane", Plane, {"point": np.zeros(3), "normal": np.array([0.0, 0.0, 1.0])}),
        Subject("Cylinder", Cylinder, {"point": np.zeros(3), "axis": np.array([0.0, 0.0, 1.0]), "radius": 0.1}),
        Subject("ContactSprings", ContactSprings,
                {"surface": Plane(), "stiffness": 1e3, "exponent": 1.5, "smoothing": 0.0}),
        Subject("Water", Water, {"density": 1000.0, "drag": np.ones(3), "added": np.ones(3)}),
        Subject("Assembly.joint", _jointed,
                {"name": "joint", "stiffness": 1.0, "damping": 0.1, "rest": 0.0, "armature": 0.0}),
        Subject("Assembly.wrench", lambda name, on, follows: Assembly().rod(Rod(**given)).wrench(name, on, follows),
                {"name": "push", "on": "rod/tip", "follows": True}, others={"on": ("frame",)}),
        Subject("Assembly.contact", lambda springs, rods: Assembly().rod(Rod(**given)).contact(springs, rods),
                {"springs": ContactSprings(Plane(), 1e3), "rods": ["rod"]}),
        Subject("Assembly.water", lambda water: Assembly().water(water), {"water": Water()}),
        Subject("tendon_forces_hessian", dynamics.tendon_forces_hessian, at | pulled | {"mu": np.full(4, 0.3)}),
    ]  # fmt: skip
    for name in ("", "_derivatives"):
        found.append(Subject(f"internal_forces{name}", getattr(dynamics, f"internal_forces{name}"), moving))
        found.append(Subject(f"tendon_forces{name}", getattr(dynamics, f"tendon_forces{name}"), at | pulled))
    return found


def _jointed(name, stiffness, damping, rest, armature):
    springs = {"stiffness": stiffness, "damping": damping, "rest": rest, "armature": armature}
    return Assembly().joint(name, pin.JointModelRX(), **springs)


def _aside(x):
    return 0.0, 0.01


def _turn(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - np.sin(x[0]))])
