"""Functions of `problems` that are abused."""

import mujoco
import numpy as np
import pinocchio as pin

import dynamics
import problems
from abuse.subjects import Subject
from ddp import ILQR, RecedingHorizon, solve
from dynamics import Contact, RobotDynamics
from problems import (
    arm,
    cartpole,
    closed_loop,
    constraints,
    contact_costs,
    costs,
    durations,
    gaits,
    interop,
    legged,
    legs,
    obstacles,
    pendulum,
    quadrotor,
    quadruped,
    reaction,
    schedule,
    sensitivity,
    strides,
)

OTHERS = {
    "robot": ("robot", "source", "file"), "cycles": ("cycles",), "feet": ("feet",),
    "target_xyz": ("target",), "phase_durations": ("durations",),
}  # fmt: skip

HEAVY = {"length": ("inertia",)}
"""Lengths whose square times the mass is no number."""


def subjects():
    ur5 = dynamics.load("ur5")
    arms = RobotDynamics(ur5, 0.01)
    rest = np.concatenate([ur5.q0, np.zeros(6)])
    one = {"robot": ur5, "weight": 1.0}
    ball = obstacles.Sphere([0.5, 0.1, 0.3], 0.05)
    one6 = np.ones(6)
    moved = solve(arm.reach(ur5, horizon=3), throw=False)
    found = [
        Subject("simulate", problems.simulate, {"solution": moved}, ("rate",), {"solution": ("solution",)}),
        Subject("problems.find", problems.find, {"name": "arm/reach"}, others={"name": ("problem",)}),
        Subject("pendulum", pendulum.pendulum, {}, others=HEAVY),
        Subject(
            "pendulum.swing_up", pendulum.swing_up, {"horizon": 5},
            others=HEAVY | _weights("control", "angle", "speed"),
        ),
        Subject("cartpole", cartpole.cartpole, {}, others=HEAVY),
        Subject("cartpole.swing_up", cartpole.swing_up, {"horizon": 5}, others=HEAVY),
        Subject("arm.reach", arm.reach, {"robot": ur5, "horizon": 3}, others=OTHERS),
        Subject("arm.out_of_reach", arm.out_of_reach, {"robot": ur5, "horizon": 3}, others=OTHERS),
        Subject("arm.obstacles", arm.obstacles, {"robot": ur5, "horizon": 3}, others=OTHERS),
        Subject("arm.throw", arm.throw, {"robot": ur5, "horizon": 3, "frame": "tool0"}, others=OTHERS),
        Subject("arm.lock", arm.lock, {"robot": ur5, "joints": ["wrist_3_joint"]}),
        Subject("quadrotor.loop", quadrotor.loop, {"horizon": 3, "waypoints": {1: 0.5}}, others=OTHERS),
        Subject("quadrotor.thrusters", quadrotor.thrusters, {}),
        Subject("quadruped.weightless", quadruped.weightless, {"robot": dynamics.load("solo12")}, others=OTHERS),
        Subject("quadruped.reorientation", quadruped.reorientation, {"horizon": 3}, others=OTHERS),
        Subject("ControlLimits", costs.ControlLimits, {"lower": -one6, "upper": one6, "weights": one6}),
        Subject("StateCost", costs.StateCost, {"dynamics": arms, "target_x": rest, "weights": np.ones(12)}),
        Subject("ControlCost", costs.ControlCost, {"target_u": np.zeros(6), "weights": np.ones(6)}),
        Subject("costs.JointLimits", costs.JointLimits, one),
        Subject("CenterOfMass", costs.CenterOfMass, one | {"target_xyz": np.ones(3)}),
        Subject(
            "FramePose", costs.FramePose,
            {"robot": ur5, "frame": "tool0", "target": pin.SE3.Identity(), "weights": np.ones(6)},
        ),
        Subject("FramePosition", costs.FramePosition, one | {"frame": "tool0", "target_xyz": np.ones(3)}),
        Subject(
            "FrameVelocity", costs.FrameVelocity,
            {"robot": ur5, "frame": "tool0", "target": np.ones(6), "weights": np.ones(6)},
        ),
        Subject("Quadratic", costs.Quadratic, {"target": np.zeros(2), "Q": np.ones(2), "R": np.ones(1)}),
        Subject("GravityTorqueCost", costs.GravityTorqueCost, {"dynamics": arms, "weights": np.ones(6)}),
        Subject(
            "FramePositionLimits", constraints.FramePositionLimits,
            {"robot": ur5, "frame": "tool0", "lower": np.zeros(3), "upper": np.ones(3), "axes": np.eye(3)},
        ),
        Subject(
            "FrameVelocityLimits", constraints.FrameVelocityLimits,
            {"robot": ur5, "frame": "tool0", "lower": -np.ones(6), "upper": np.ones(6)},
        ),
        Subject(
            "CenterOfMassLimits", constraints.CenterOfMassLimits,
            {"robot": ur5, "lower": np.zeros(3), "upper": np.ones(3), "axes": np.eye(3)},
        ),
        Subject(
            "SelfClearance", constraints.SelfClearance,
            {"robot": ur5, "pairs": [("wrist_1_joint", "shoulder_lift_joint")], "margin": 0.0},
        ),
        Subject("JointLimits", constraints.JointLimits, {"robot": ur5}),
        Subject("VelocityLimits", constraints.VelocityLimits, {"robot": ur5}),
        Subject("TorqueLimits", constraints.TorqueLimits, {"dynamics": arms}),
        Subject("StateEquality", constraints.StateEquality, {"dynamics": arms, "target_x": rest}),
        Subject(
            "FramePositionEquality", constraints.FramePositionEquality,
            {"robot": ur5, "frame": "tool0", "target_xyz": np.ones(3)}, others=OTHERS,
        ),
        Subject(
            "FramePoseEquality", constraints.FramePoseEquality,
            {"robot": ur5, "frame": "tool0", "target": pin.SE3.Identity()},
        ),
        Subject("Sphere", obstacles.Sphere, {"center": np.ones(3), "radius": 0.1}, others={"center": ("a:", "start")}),
        Subject("Capsule", obstacles.Capsule, {"start": np.ones(3), "end": np.zeros(3), "radius": 0.1}),
        Subject(
            "SphereClearance", obstacles.SphereClearance,
            {"robot": ur5, "frame": "tool0", "radius": 0.1, "obstacles": [ball]},
        ),
        Subject(
            "CapsuleClearance", obstacles.CapsuleClearance,
            {"robot": ur5, "frames": ("forearm_link", "wrist_1_link"), "radius": 0.1, "obstacles": [ball]},
        ),
    ]  # fmt: skip
    for name in ("Energy", "Momentum"):
        known = {"robot": ur5, "target": 0.0, "weight": 1.0} if name == "Energy" else {}
        known = known or {"robot": ur5, "target": np.ones(6), "weights": np.ones(6)}
        found.append(Subject(name, getattr(costs, name), known))
    for term in (subject for subject in found[15:22]):
        made = term.call(**term.arguments)
        valid, others = {"x": rest, "u": np.ones(6)}, {"x": ("numbers in a state",), "u": ("controls",)}
        for part in ("value", "gradient", "hessian"):
            found.append(Subject(f"{term.name}.{part}", getattr(made, part), valid, others=others))
    pushed = {"problem": pendulum.swing_up(horizon=5), "steps": 2, "push": 0.1, "every": 1}
    found += [
        Subject("close_loop", closed_loop.close_loop, pushed),
        Subject("Solution.adaptive", moved.adaptive, {}),
        Subject("AdaptivePolicy", moved.adaptive(), {"t": 0.0, "x": moved.X[0].copy()}),
        Subject("Solution.predictive", moved.predictive, {"delay": 0.002}),
        Subject("PredictivePolicy", moved.predictive(0.002), {"t": 0.0, "x": moved.X[0].copy()}),
        Subject("Policy.planned", moved.policy.planned, {"t": 0.0}),
        Subject("Policy.later", moved.policy.later, {"delay": 0.001}),
    ]  # fmt: skip
    return [*found, *_of_legs(), *_of_plans(ur5)]


def _of_plans(ur5):
    planner = RecedingHorizon(arm.reach(ur5, horizon=3), ILQR(max_iterations=1))
    driven, moved = problems.Driven(planner), solve(planner.problem, throw=False)
    given = {"planner": planner, "duration": 0.02, "pushes": None}
    return [
        Subject("simulate_receding", problems.simulate_receding, given, ("rate", "duration")),
        Subject("Follower", interop.Follower, {"source": moved}, others={"source": ("source", "solution")}),
        Subject(
            "Follower.measure", interop.Follower(moved).measure,
            {"now": 0.0, "names": ["elbow_joint"], "positions": [0.1], "velocities": [0.0]},
            others={"names": ("names", "positions")},
        ),
        Subject("Follower.control", interop.Follower(moved).control, {"now": 0.0}),
        Subject("Driven", problems.Driven, {"planner": planner}),
        Subject("Driven.pull", driven.pull, {"joint": 1, "point": np.zeros(3), "toward": np.ones(3)}),
        Subject("Driven.kick", driven.kick, {"direction": np.ones(3)}),
        Subject("Driven.aim", driven.aim, {"place": np.ones(3)}),
        Subject("Driven.weigh", driven.weigh, {"weights": {"running[0] ControlCost": 1.0}}),
        Subject(
            "Walking", problems.Walking, {"robot": "solo12"}, ("dt", "step_duration", "support_duration"),
            {"robot": ("source",)},
        ),
    ]


def _weights(*names):
    return {f"{name}_weight": ("weights",) for name in (*names, "final")}


def _of_legs():
    text = '<mujoco><worldbody><body><joint name="hinge"/><geom size="0.1"/></body></worldbody></mujoco>'
    hinge, model = dynamics.load(text), mujoco.MjModel.from_xml_string(text)
    solo = dynamics.load("solo12")
    stance = legs.stance(solo)
    feet = stance.feet
    plan = schedule.stand(feet, 0.03)
    still = strides.straight((0.0, 0.0), 0.0, 0.0, 0.0)
    laid = strides.lay_out(stance, plan, 0.01, still, 0.0)
    problem = legged.legged(laid)
    system = problem.dynamics
    touching = list(system.phases[0].contacts)
    X, U = legged.follow_nominal(problem)
    jump = gaits.jump(solo, dt=0.05)
    solution = solve(problem, guess=(X, U), throw=False)
    cones = {"system": system, "contacts": touching, "mu": 0.7, "weight": 1.0}
    quick, lasting = {"robot": solo, "dt": 0.05}, {"swing": 0.1, "support": 0.1}
    return [
        *(
            Subject(f"gaits.{name}", getattr(gaits, name), quick, others=OTHERS)
            for name in ("trot", "bound", "jump", "stand")
        ),
        Subject("legs.stance", legs.stance, {"robot": solo}),
        Subject("legs.found", legs.found, {"robot": solo}),
        Subject("legs.check_feet", legs.check_feet, {"robot": solo, "feet": list(feet)}),
        Subject("Schedule", schedule.Schedule, {"feet": list(feet), "phases": [(feet, 0.1)]}),
        Subject("schedule.cycling", schedule.cycling, {"feet": feet, "groups": [[feet[0]]]} | lasting),
        Subject("schedule.in_turn", schedule.in_turn, {"corners": stance.corners(), "gait": "walk"}),
        Subject("schedule.jump", schedule.jump, {"feet": feet, "push": 0.1, "flight": 0.1, "land": 0.1}),
        Subject("schedule.stand", schedule.stand, {"feet": feet, "duration": 0.1}),
        Subject("Schedule.knots", plan.knots, {"dt": 0.01}),
        Subject("Schedule.flags", plan.flags, {"dt": 0.01}),
        Subject("straight", strides.straight, {"velocity": (0.1, 0.0), "turning": 0.1, "start": 0.0, "end": 1.0}),
        Subject(
            "strides.lay_out", strides.lay_out,
            {"stance": stance, "schedule": plan, "dt": 0.01, "motion": still, "lift": 0.0},
        ),
        Subject("legged", legged.legged, {"laid": laid}, others={"sole": ("sole",), "cones": ("cones",)}),
        Subject("Weights", legged.Weights, {}),
        Subject("legged.tracking", legged.tracking, {"solution": solution, "weights": legged.Weights()}),
        Subject("Solution.by_contact", solution.by_contact, {}),
        Subject("ContactPolicy", solution.by_contact(), {"t": 0.0, "x": X[0].copy(), "touching": [True] * 4}),
        Subject(
            "simulate on uneven ground", problems.simulate, {"solution": solution, "uneven": (0.0, 0.01)}, ("rate",),
            {"solution": ("solution",)},
        ),
        Subject("follow_nominal", legged.follow_nominal, {"problem": problem}),
        Subject("FreeDurations", durations.FreeDurations, {}),
        Subject(
            "solve_durations", durations.solve_durations,
            {"problem": jump, "free": durations.FreeDurations(max_iterations=1), "throw": False,
             "guess": legged.follow_nominal(jump)},
            spare=("solver", "guess", "callback", "throw", "workers"), meant={"free": ("None",)}, refuses=True,
        ),
        Subject("with_durations", sensitivity.with_durations, {"problem": problem, "durations": np.array([0.04])}),
        Subject("sensitivity", sensitivity.sensitivity, {"solution": solution}),
        Subject("sensitivity.gradient", sensitivity.gradient, {"solution": solution}),
        Subject(
            "contact_force", contact_costs.contact_force,
            {"system": system, "contacts": touching, "target": np.ones(12), "weight": 1.0},
        ),
        Subject("friction_cone", contact_costs.friction_cone, cones),
        Subject(
            "friction_constraint", contact_costs.friction_constraint,
            {name: value for name, value in cones.items() if name != "weight"},
        ),
        Subject(
            "StateLimits", contact_costs.StateLimits,
            {"robot": solo, "lower": np.full(36, -np.inf), "upper": np.full(36, np.inf), "weight": 1.0},
        ),
        Subject("to_ros", interop.to_ros, {"solution": solution}),
        Subject("drake_samples", interop.drake_samples, {"solution": solution}),
        Subject("episodes", interop.episodes, {"solutions": [solution]}),
        Subject("lerobot_table", interop.lerobot_table, {"solutions": [solution], "task": "a"}),
        Subject("to_mujoco", interop.to_mujoco, {"robot": hinge, "model": model, "X": np.zeros(2)}),
        Subject("from_mujoco", interop.from_mujoco, {"robot": hinge, "model": model, "qpos": np.zeros(1)}),
        Subject(
            "mujoco_controls", interop.mujoco_controls,
            {"robot": hinge, "model": model, "data": mujoco.MjData(model), "tau": np.zeros(1)},
        ),
        Subject("ground_forces", reaction.ground_forces, {"system": system, "X": X, "U": U}),
        Subject("standing", reaction.standing, {"system": system}),
        Subject("Contact at a foot", Contact, {"frame": feet[0], "target": np.zeros(3)}),
    ]  # fmt: skip
