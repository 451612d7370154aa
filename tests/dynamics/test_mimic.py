"""Joints that mimic others are one coordinate with them: Pinocchio's own mimicking models are the oracle."""

import pickle

import numpy as np
import pinocchio as pin
import pytest
from step_oracles import assert_first_order, assert_second_order

import ddp
import dynamics
from ddp.errors import ModelError, ProblemError
from dynamics import MimicDynamics
from dynamics.robots.mjcf.writing import World
from problems import simulate
from problems.costs import ControlCost, FramePosition, StateCost

JOINTS = (
    pin.JointModelRX, pin.JointModelRY, pin.JointModelPZ,
    lambda: pin.JointModelRevoluteUnaligned(np.array([0.6, 0.0, 0.8])),
    lambda: pin.JointModelPrismaticUnaligned(np.array([0.0, 0.6, 0.8])), pin.JointModelRZ,
)  # fmt: skip


def tree(rng, base=None, count=6):
    """A random tree of joints with one number, on a base that may move, with rotors, damping and springs."""
    model = pin.Model()
    first = model.addJoint(0, base, pin.SE3.Identity(), "base") if base is not None else 0
    if base is not None:
        model.appendBodyToJoint(first, pin.Inertia.Random(), pin.SE3.Random())
    for i in range(count):
        parent = int(rng.integers(first, model.njoints)) if i else first
        j = model.addJoint(parent, JOINTS[i](), pin.SE3.Random(), f"j{i}")
        model.appendBodyToJoint(j, pin.Inertia.Random(), pin.SE3.Random())
    armature, damping = rng.uniform(0.1, 0.3, size=(2, model.nv))
    armature[: model.nv - count] = damping[: model.nv - count] = 0.0
    model.armature, model.damping = armature, damping
    stiffness = np.concatenate([np.zeros(model.nv - count), rng.uniform(0.5, 2.0, size=count)])
    return dynamics.Robot(model, equipment=dynamics.robots.equipment.Equipment(stiffness=stiffness, damped=True))


FOLLOWERS = {"j2": ("j0", -1.5, 0.3), "j4": ("j1", 0.7, -0.2), "j5": ("j0", 2.0, 0.0)}
BASES = {"fixed": None, "free": pin.JointModelFreeFlyer(), "ball": pin.JointModelSpherical()}


def state(robot, system, rng):
    q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
    q = system.following(q)
    for name, (leader, factor, _) in FOLLOWERS.items():
        v[robot.numbers_of(name)[1][0]] = factor * v[robot.numbers_of(leader)[1][0]]
    return np.concatenate([q, v])


@pytest.mark.parametrize("base", BASES)
def test_motions_are_those_of_pinocchios_mimicking_models(base, rng):
    pin.seed(3)
    robot = tree(rng, BASES[base])
    system = MimicDynamics(robot, 0.01, FOLLOWERS)
    x, u = state(robot, system, rng), rng.normal(size=system.nu)
    model = robot.model
    for name, (leader, factor, offset) in FOLLOWERS.items():
        own = model.getJointId(leader), model.getJointId(name)
        model = pin.transformJointIntoMimic(model, *own, factor, offset)
    q, v = np.split(x, [robot.nq])
    kept = [i for name in robot.joint_names if name not in FOLLOWERS for i in robot.numbers_of(name)[0]]
    free = [i for name in robot.joint_names if name not in FOLLOWERS for i in robot.numbers_of(name)[1]]
    G = np.eye(robot.nv)[:, free]
    for name, (leader, factor, _) in FOLLOWERS.items():
        G[robot.numbers_of(name)[1][0]] = factor * G[robot.numbers_of(leader)[1][0]]
    data = model.createData()
    M = pin.crba(model, data, q[kept])
    M = np.triu(M) + np.triu(M, 1).T
    M += G.T @ np.diag(robot.model.armature) @ G - np.diag(np.asarray(model.armature))  # those of followers, too
    drift = pin.rnea(model, data, q[kept], v[free], np.zeros(len(free)))
    stiffness = robot.equipment.stiffness
    places = np.concatenate([np.zeros(robot.nv - 6), q[-6:]])
    passive = -robot.model.damping * v - stiffness * places
    a = G @ np.linalg.solve(M, G.T @ (system.actuation @ u + passive) - drift)
    after = system.step(x, u)
    np.testing.assert_allclose((after[robot.nq :] - v) / 0.01, a, rtol=0, atol=1e-8 * np.abs(a).max())
    np.testing.assert_allclose(after[: robot.nq], pin.integrate(robot.model, q, 0.01 * after[robot.nq :]), atol=1e-12)


@pytest.mark.parametrize("base", BASES)
def test_motions_are_those_of_mujoco_with_joints_coupled(base, rng):
    """Joints that MuJoCo holds as stiffly as it can: 1e-4 of the force that is needed is missing, some 4e-4 of a."""
    pin.seed(3)
    robot, h = tree(rng, BASES[base]), 1e-3
    system = MimicDynamics(robot, h, FOLLOWERS, damping=False, springs=False)
    x, u = state(robot, system, rng), rng.normal(size=system.nu)
    world = World(robot, timestep=h, followers=system.followers)
    data = world.data(*np.split(x, [robot.nq]))
    world.apply(data, system.actuation @ u)
    world.step(data)
    q, v = world.state(data)
    theirs, ours = (after - x[robot.nq :] for after in (v, system.step(x, u)[robot.nq :]))
    np.testing.assert_allclose(theirs[-6:], ours[-6:], rtol=0, atol=1e-3 * np.abs(ours).max())
    np.testing.assert_allclose(system.following(q), q, rtol=0, atol=1e-7)


def test_followers_that_are_not_in_place_come_there_in_a_step(rng):
    pin.seed(4)
    robot = tree(rng)
    system = MimicDynamics(robot, 0.01, FOLLOWERS)
    X = system.rollout(rng.normal(size=system.nx), rng.normal(size=(5, system.nu)))
    for x in X[1:]:
        np.testing.assert_allclose(x[:6], system.following(x[:6]), rtol=0, atol=1e-11)


@pytest.mark.parametrize("base", BASES)
def test_derivatives_of_both_orders_are_exact(base, rng):
    pin.seed(5)
    robot = tree(rng, BASES[base])
    system = MimicDynamics(robot, 0.02, FOLLOWERS)
    X = np.array([[*robot.random_configuration(rng), *rng.normal(size=robot.nv)] for _ in range(3)])
    U = rng.normal(size=(3, system.nu))
    assert_first_order(system, X, U)
    assert_second_order(system, X, U, 2e-3, rng)


HAND = """<robot name="hand"><link name="palm">{0}</link><link name="a">{0}</link><link name="b">{0}</link>
  <link name="c">{0}</link>
  <joint name="left" type="prismatic"><parent link="palm"/><child link="a"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="1" effort="9" velocity="9"/></joint>
  <joint name="right" type="prismatic"><parent link="palm"/><child link="b"/><axis xyz="0 -1 0"/>
    <limit lower="0" upper="1" effort="9" velocity="9"/>{1}</joint>
  <joint name="tip" type="revolute"><parent link="b"/><child link="c"/><axis xyz="1 0 0"/><origin xyz="0 0 .1"/>
    <limit lower="-9" upper="9" effort="9" velocity="9"/>
    <mimic joint="right" multiplier="2" offset="0.1"/></joint></robot>"""
INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


COUPLED = """<mujoco><worldbody><body name="one"><joint name="a" axis="0 1 0" ref="20"/><geom size=".1"/>
  <body name="two" pos=".5 0 0"><joint name="b" axis="1 1 0" ref="-30"/><geom size=".1"/>
  <body name="three" pos=".4 0 0"><joint name="c" type="slide" axis="0 0 1" ref=".2"/><geom size=".1"/></body>
</body></body>
</worldbody><equality>
  <joint joint1="b" joint2="a" polycoef=".1 -2 0 0 0"/><joint joint1="c" joint2="b" polycoef="0 .5 0 0 0"/>
  <joint joint1="a" joint2="c" polycoef="0 1 3 0 0"/><joint joint1="a"/>
  <joint joint1="a" joint2="c" active="false"/>
</equality></mujoco>"""


def test_followers_of_an_mjcf_are_where_mujocos_constraints_are_met(rng, caplog):
    mujoco = pytest.importorskip("mujoco")
    robot = dynamics.load(COUPLED)
    assert "equality 0 (line 6, joint), equality 1 (line 6, joint) hold in MimicDynamics alone" in caplog.text
    assert "equality 2 (line 7, joint), equality 3 (line 7, joint) are not modelled" in caplog.text
    system = MimicDynamics(robot, 0.01)
    assert [*system.followers] == ["b", "c"]
    m = mujoco.MjModel.from_xml_string(COUPLED)
    data = mujoco.MjData(m)
    for _ in range(3):
        data.qpos[:] = system.following(rng.normal(size=3))
        mujoco.mj_forward(m, data)
        held = [i for i, number in enumerate(data.efc_id[: data.nefc]) if number in (0, 1)]
        assert len(held) == 2
        np.testing.assert_allclose(data.efc_pos[held], 0.0, rtol=0, atol=1e-14)
    data.qpos[1] += 0.1
    mujoco.mj_forward(m, data)
    assert np.abs(data.efc_pos[held]).max() > 0.05


def test_of_two_couplings_of_a_joint_the_second_is_named_as_left_out(caplog):
    second = '<joint joint1="c" joint2="a" polycoef="0 2 0 0 0"/>'
    robot = dynamics.load(COUPLED.replace('<joint joint1="a" joint2="c" polycoef="0 1 3 0 0"/>', second))
    assert "equality 0 (line 6, joint), equality 1 (line 6, joint) hold in MimicDynamics alone" in caplog.text
    assert "equality 2 (line 7, joint), equality 3 (line 7, joint) are not modelled" in caplog.text
    assert MimicDynamics(robot, 0.01).followers["c"][1] == pytest.approx(-1.0)  # c = b / 2, b = -2 a, not c = 2 a


def test_of_couplings_in_a_circle_the_one_that_closes_it_is_named_as_left_out(caplog):
    """b follows a and c follows b already; what says that a follows c repeats it, or contradicts it."""
    circle = COUPLED.replace('polycoef="0 1 3 0 0"/>', 'polycoef="0 -1 0 0 0"/>')
    robot = dynamics.load(circle)
    assert "equality 0 (line 6, joint), equality 1 (line 6, joint) hold in MimicDynamics alone" in caplog.text
    assert "equality 2 (line 7, joint), equality 3 (line 7, joint) are not modelled" in caplog.text
    assert [*MimicDynamics(robot, 0.01).followers] == ["b", "c"]


SDF = """<sdf version="1.6"><model name="hand">
  <link name="palm">{0}</link><link name="a">{0}</link><link name="b">{0}</link>
  <joint name="left" type="prismatic"><parent>palm</parent><child>a</child><axis><xyz>0 1 0</xyz></axis></joint>
  <joint name="right" type="prismatic"><parent>palm</parent><child>b</child><axis><xyz>0 -1 0</xyz>{1}</axis></joint>
</model></sdf>"""


def test_followers_of_an_sdf_are_where_its_equation_has_them():
    """follower = multiplier (leader - reference) + offset; URDF has no reference. The defaults are 1, 0 and 0."""
    inertial = "<inertial><mass>1</mass></inertial>"
    told = '<mimic joint="left"><multiplier>-2</multiplier><offset>.3</offset><reference>.5</reference></mimic>'
    system = MimicDynamics(dynamics.load(SDF.format(inertial, told)), 0.01)
    np.testing.assert_allclose(system.following([0.7, 9.0]), [0.7, -2.0 * (0.7 - 0.5) + 0.3], rtol=0, atol=1e-15)
    plain = MimicDynamics(dynamics.load(SDF.format(inertial, '<mimic joint="left"/>')), 0.01)
    np.testing.assert_array_equal(plain.following([0.7, 9.0]), [0.7, 0.7])
    with pytest.raises(ModelError, match=r"axis/mimic/offset.* of 'right': expected 1 finite numbers in SDF, got 'x'"):
        dynamics.load(SDF.format(inertial, '<mimic joint="left"><offset>x</offset></mimic>'))


def hand(mimic='<mimic joint="left" multiplier="-1"/>'):
    return dynamics.load(HAND.format(INERTIAL, mimic))


def test_a_urdfs_own_followers_have_no_controls_and_move_with_their_leaders():
    robot = hand()
    system = MimicDynamics(robot, 0.01)
    assert system.followers == {"right": ("left", -1.0, 0.0), "tip": ("left", -2.0, 0.1)}
    assert system.named_numbers[2] == ["left"]
    x = np.concatenate([system.following(robot.q0), np.zeros(3)])
    problem = ddp.Problem(
        system, [ControlCost([0.0], [1e-3])],
        [FramePosition(robot, "b", [0.0, 0.4, 0.0], 1e3), StateCost(system, x, np.repeat([0.0, 10.0], 3))], x, 40,
    )  # fmt: skip
    solution = ddp.solve(problem)
    assert solution.kind == "minimum"
    np.testing.assert_allclose(solution.q["right"], -solution.q["left"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.q["tip"], 0.1 - 2.0 * solution.q["left"], rtol=0, atol=1e-12)
    assert solution.q["right"][-1] == pytest.approx(-0.4, abs=0.01)
    copy = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(copy.step(x, [1.0]), system.step(x, [1.0]))
    held = system.nominal_control(x)
    assert held == pytest.approx(0.0, abs=1e-9)  # fingers that move across gravity, and no lever at the tip


def test_a_robot_is_at_q0_where_its_followers_are_in_place():
    robot = hand()
    np.testing.assert_array_equal(robot.q0, MimicDynamics(robot, 0.01).following(robot.q0))
    assert robot.q0[robot.numbers_of("tip")[0][0]] == 0.1


def test_a_start_out_of_place_is_told_with_what_puts_it_there(caplog):
    robot = dynamics.load("panda")  # whose usual posture has its fingers 1 mm apart
    system = MimicDynamics(robot, 0.01)
    still, moved = np.zeros(9), np.array([0.0] * 8 + [0.3])
    of = "panda_finger_joint2 {}, panda_finger_joint1 asks for {}: it jumps there in the first step of 0.01 s; {}"
    for q, v, told in (
        (robot.q0, still, of.format("is at 0 m", "0.001", "system.following(q) has it there")),
        (system.following(robot.q0), still, None),
        (system.following(robot.q0), moved, of.format("moves at 0.3 m/s", "0", "give it its leader's speed times the")),
    ):
        problem = ddp.Problem(system, [ControlCost([0.0] * 8, [1.0] * 8)], [], [*q, *v], 1)
        found = [*system.doubts(problem)]
        assert [one.startswith(f"x0: {told}") for one in found] == ([True] if told else [])
        assert bool(told) == (np.abs(system.step(problem.x0, np.zeros(8)) - problem.x0)[15:].max() > 0.04)
    caplog.clear()
    ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    assert "panda_finger_joint2 moves at 0.3 m/s" in caplog.text


def test_limits_and_terms_of_another_robot_are_told_as_of_other_robots():
    robot = hand()
    system = MimicDynamics(robot, 0.01)
    x = np.concatenate([system.following([2.0, 0.0, 0.0]), np.zeros(3)])
    other = dynamics.load(HAND.format(INERTIAL, '<origin xyz="1 0 0"/>'))
    strange = FramePosition(other, "b", [0.0, 0.4, 0.0], 1.0)
    problem = ddp.Problem(system, [ControlCost([0.0], [1.0]), strange], [], x, 1)
    told = "; ".join(system.doubts(problem))
    assert "left at 2, its limit is 1 m" in told
    assert "FramePosition: made for hand, whose joints lie elsewhere than those of hand" in told
    excesses = system.excesses(problem, system.rollout(x, np.zeros((1, 1))), np.zeros((1, 1)))
    assert "left leaves its limits of position by 1 m" in excesses


@pytest.fixture(scope="module")
def grasp():
    robot = hand()
    system = MimicDynamics(robot, 0.02)
    x = np.concatenate([system.following(robot.q0), np.zeros(3)])
    path = StateCost(system, x, np.repeat([0.0, 0.1], 3))
    ends = [FramePosition(robot, "b", [0.0, 0.4, 0.0], 1e3), StateCost(system, x, np.repeat([0.0, 10.0], 3))]
    return ddp.solve(ddp.Problem(system, [ControlCost([0.0], [1e-3]), path], ends, x, 40))


def test_gains_are_those_of_the_leaders_alone(grasp):
    """Those of the regulator of (q_l, v_l), by Riccati's recursion; followers in other places are not answered."""
    system, policy = grasp.problem.dynamics, grasp.policy
    weights = system.tracked.weights(grasp.X, grasp.U)
    with_leader = np.kron(np.eye(2), np.array([[1.0], [-1.0], [-2.0]]))
    Q, R = with_leader.T @ np.diag(0.02 * weights.state) @ with_leader, 0.02 * weights.control
    P = with_leader.T @ np.diag(weights.final) @ with_leader
    for k in range(39, -1, -1):
        A, B = system.linearize(grasp.X[k], grasp.U[k])
        A, B = (A @ with_leader)[[0, 3]], B[[0, 3]]
        K = -np.linalg.solve(np.diag(R) + B.T @ P @ B, B.T @ P @ A)
        P = Q + K.T @ np.diag(R) @ K + (A + B @ K).T @ P @ (A + B @ K)
        np.testing.assert_allclose(policy.G[k][:, [0, 3]], K, rtol=1e-9)
    np.testing.assert_array_equal(policy.G[:, :, [1, 2, 4, 5]], 0.0)


@pytest.mark.parametrize("delay", [1e-300, 0.001, 0.02])
def test_what_followers_err_by_on_their_own_is_not_predicted(grasp, delay):
    """Steps would close their gaps at once, which kicks the leader: 1 mrad of it called for 87 N in place of 0.6."""
    policy, x = grasp.predictive(delay), grasp.X[5]
    answers = [policy(0.1, x + 1e-3 * error) for error in np.vstack([np.zeros(6), np.eye(6)])]
    for follower in (1, 2, 4, 5):
        np.testing.assert_allclose(answers[1 + follower], answers[0], rtol=0, atol=1e-9)
    if delay < 0.01:
        for leader in (0, 3):
            own = grasp.policy(0.1, x + 1e-3 * np.eye(6)[leader]) - grasp.policy(0.1, x)
            np.testing.assert_allclose(answers[1 + leader] - answers[0], own, rtol=0.15)


def test_what_followers_do_is_played_tracked_predicted_and_exported(grasp, tmp_path):
    system = grasp.problem.dynamics
    run = simulate(grasp)
    assert run.rms < 0.005
    np.testing.assert_allclose(run.q["right"], -run.q["left"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(run.q["tip"], 0.1 - 2.0 * run.q["left"], rtol=0, atol=1e-6)
    assert run.u.names == ("left",)
    assert simulate(grasp, mass=1.3, noise=1.0).rms < 0.01 < simulate(grasp, mass=1.3, policy="open").rms
    assert simulate(grasp, policy=grasp.predictive(0.02), delay=0.02).rms < 0.01
    assert np.load(grasp.policy.export(tmp_path / "gains.npz"))["names_u"].tolist() == ["left"]
    heavy = ddp.solve(grasp.problem.varying(**{"dynamics.masses": 2.0 * system.masses}))
    assert heavy.cost > grasp.cost
    by = grasp.sensitivity("dynamics.masses").cost
    moved = [ddp.solve(grasp.problem.varying(**{"dynamics.masses": system.masses + s})).cost for s in (1e-4, -1e-4)]
    assert by.sum() == pytest.approx((moved[0] - moved[1]) / 2e-4, rel=1e-6)


@pytest.mark.parametrize("rows", [1, 3])
def test_limits_are_those_of_the_controls_that_are_left_or_of_all_joints(rows):
    limits = np.array([[-1.0, 2.0], [-3.0, 4.0], [-5.0, 6.0]])[:rows]
    np.testing.assert_array_equal(MimicDynamics(hand(), 0.01, control_limits=limits).control_limits, [[-1.0, 2.0]])
    with pytest.raises(ProblemError, match=r"control_limits: expected shape \(1, 2\), got \(2, 2\)"):
        MimicDynamics(hand(), 0.01, control_limits=np.tile([-1.0, 1.0], (2, 1)))


def test_joints_that_cannot_follow_are_named():
    free = dynamics.load(HAND.format(INERTIAL, ""), root="free-flyer")
    spun = dynamics.load(HAND.format(INERTIAL, "").replace("prismatic", "continuous"))
    plain = dynamics.load("ur5")
    for robot, followers, error, words in (
        (plain, None, ProblemError, "followers: expected some, ur5 has no joint that mimics another"),
        (hand(), {}, ProblemError, "followers: expected some, got none"),
        (plain, {"elbow": ("wrist_1_joint", 1.0, 0.0)}, ModelError, "ur5 has no joint 'elbow'.*did you mean"),
        (free, {"left": ("root_joint", 1.0, 0.0)}, ModelError, "expected joints with one number, .* got 'root_joint'"),
        (free, {"left": ("right", 1.0, 0.0), "right": ("left", 1.0, 0.0)}, ModelError, "got a circle of left, right"),
        (spun, {"left": ("right", 1.0, 0.0)}, ModelError, "'left', a continuous joint, whose turns are not"),
        (free, {"left": ("right", np.nan, 0.0)}, ProblemError, r"followers\['left'\]: expected finite"),
        (free, ["left"], ProblemError, "followers: expected a mapping"),
        (free, {"left": ("right", 1.0)}, ModelError, r"followers\['left'\]: expected \(leader, multiplier, offset"),
        (free, {"left": "right"}, ModelError, r"followers\['left'\]: expected \(leader, multiplier, offset"),
        (free, {"left": (["right"], 1.0, 0.0)}, ModelError, r"followers\['left'\]: expected \(leader, multiplier"),
    ):
        with pytest.raises(error, match=words):
            MimicDynamics(robot, 0.01, followers)
