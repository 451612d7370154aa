"""The command's node drives robots in MuJoCo over ROS 2 itself: wherever somebody has installed rclpy."""

import importlib.util
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ddp
import problems
from problems import arm
from problems.play.simulation import world_of

STEP = 0.002


class Robot:
    """Robot in MuJoCo with motors that hold the last efforts, as ros2_control's do: topics, and ROS time."""

    def __init__(self, node, system, x0, joints):
        from geometry_msgs.msg import Twist
        from nav_msgs.msg import Odometry
        from rosgraph_msgs.msg import Clock
        from sensor_msgs.msg import JointState
        from std_msgs.msg import Float64MultiArray

        self.node, self.system, self.x0, self.joints = node, system, x0, joints
        self.world = world_of(system, x0, friction=0.7, softness=0.02, every=STEP)
        own = [system.robot.model.joints[system.robot.model.getJointId(name)] for name in joints]
        self.iq, self.iv = [joint.idx_q for joint in own], [system.robot.nq + joint.idx_v for joint in own]
        self.kinds, self.heard, self.efforts = (Clock, JointState, Odometry, Twist), 0, None
        self.clock = node.create_publisher(Clock, "/clock", 1)
        self.states = node.create_publisher(JointState, "joint_states", 1)
        self.base = node.create_publisher(Odometry, "odom", 1)
        self.steering = node.create_publisher(Twist, "cmd_vel", 10)
        node.create_subscription(Float64MultiArray, "effort_controller/commands", self.obey, 1)
        self.restart()

    def restart(self):
        self.t, self.x, self.tau = 0.0, self.x0, np.zeros(self.system.robot.nv)
        self.data = self.world.data(*np.split(self.x0, [self.system.robot.nq]))

    def obey(self, message):
        self.heard, self.efforts = self.heard + 1, np.array(message.data)
        self.tau = np.zeros(self.system.robot.nv)
        self.tau[[i - self.system.robot.nq for i in self.iv]] = self.efforts

    def steer(self, forward):
        message = self.kinds[3]()
        message.linear.x = forward
        self.steering.publish(message)

    def tell(self):
        clock, states, odometry, _ = (kind() for kind in self.kinds)
        clock.clock.sec, clock.clock.nanosec = divmod(round(1e9 * self.t), 10**9)
        states.name = ["gripper", *self.joints]
        states.position, states.velocity = [0.5, *self.x[self.iq].tolist()], [0.0, *self.x[self.iv].tolist()]
        self.states.publish(states)
        if self.system.robot.is_floating:
            pose, moving, v = odometry.pose.pose, odometry.twist.twist, self.x[self.system.robot.nq :].tolist()
            pose.position.x, pose.position.y, pose.position.z = self.x[:3].tolist()
            turn = pose.orientation
            turn.x, turn.y, turn.z, turn.w = self.x[3:7].tolist()
            moving.linear.x, moving.linear.y, moving.linear.z = v[:3]
            moving.angular.x, moving.angular.y, moving.angular.z = v[3:6]
            self.base.publish(odometry)
        time.sleep(0.001)  # as a rule, the node knows where the robot is when its timer is due
        self.clock.publish(clock)

    def wait(self, seconds):
        """Stand still, while ROS time goes by, until efforts arrive."""
        heard, until = self.heard, time.monotonic() + seconds
        while self.heard == heard:
            assert time.monotonic() < until, "no efforts arrive"
            self.tell()
            self._listen(0.01)
            self.t += STEP

    def run(self, duration):
        """Move for so long [s] of ROS time, which waits for efforts: a busy machine is no slower robot."""
        for _ in range(round(duration / STEP)):
            self.world.apply(self.data, self.tau)
            for _ in range(round(STEP / self.world.model.opt.timestep)):
                self.world.step(self.data)
            self.x, self.t, heard = np.concatenate(self.world.state(self.data)), self.t + STEP, self.heard
            self.tell()
            self._listen(0.1)
            if self.heard == heard:  # a message of the clock was lost, or came before its timer was due
                self.wait(10.0)

    def _listen(self, seconds):
        """Wait so long at most for efforts."""
        import rclpy

        heard, until = self.heard, time.monotonic() + seconds
        while self.heard == heard and (left := until - time.monotonic()) > 0.0:
            rclpy.spin_once(self.node, timeout_sec=left)


if importlib.util.find_spec("rclpy"):

    pytestmark = pytest.mark.filterwarnings("ignore")  # those of ROS's own

    @pytest.fixture
    def node(monkeypatch, tmp_path):
        """A node of the test, and what starts the command's in a process of its own."""
        import rclpy

        monkeypatch.setenv("ROS_DOMAIN_ID", str(os.getpid() % 100))
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path))
        rclpy.init()
        made, started = rclpy.create_node("robot"), []

        def begin(*words):
            command = [sys.executable, "-m", "mayne", "node", *words, "--ros-args", "-p", "use_sim_time:=true"]
            started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            return started[-1]

        yield made, begin
        for process in started:
            process.kill()
            print(process.communicate()[1])  # for whoever looks why a test failed
        made.destroy_node()
        rclpy.shutdown()

    def test_an_arm_reaches_its_target_again_after_time_was_set_back_and_is_let_go(node):
        problem = arm.reach("ur5")
        solution = ddp.solve(problem)
        joints = ["wrist_3_joint", "elbow_joint", "shoulder_pan_joint", "wrist_1_joint", "shoulder_lift_joint"]
        joints.append("wrist_2_joint")
        process = node[1]("arm/reach", "--joints", ",".join(joints))
        robot = Robot(node[0], problem.dynamics, solution.X[0], joints)
        for again in (False, True):
            robot.wait(60.0)
            robot.run(solution.problem.horizon * problem.dynamics.dt)
            assert np.abs(robot.x - solution.X[-1])[:6].max() < 0.2  # from where the node would begin
            if not again:
                robot.restart()
        process.send_signal(signal.SIGINT)
        while robot.efforts.any():
            robot.wait(20.0)
        told = process.communicate(timeout=20)[1]
        assert process.returncode == 0
        assert "time was set back" in told
        assert "no joint gripper" in told

    def test_a_quadruped_walks_by_cmd_vel(node):
        with problems.Walking("solo12") as walking:
            process = node[1]("quadruped/trot", "--robot", "solo12", "--replan")
            joints = [n for n in walking.system.robot.model.names if walking.system.robot.model.existJointName(n)][2:]
            robot = Robot(node[0], walking.system, walking.x0, joints)
            robot.wait(60.0)
            robot.steer(0.2)
            robot.run(2.0)
            assert robot.x[2] > 0.8 * walking.x0[2]
            assert 0.25 < robot.x[0] < 0.5
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 0
