"""The command ``mayne node``: a policy, or plans made again and again, as a node of ROS 2."""

import click

from problems.command.output import progress
from problems.command.replanning import planner_of
from problems.command.shell import OPEN, OPTIONS, PROBLEM, ROBOT
from problems.command.simulating import solved
from problems.interop.following import Follower
from problems.interop.motion import optional
from problems.interop.ros_node import run_node
from problems.registry import find

ROS = "--ros-args"


@click.command(context_settings=OPEN)
@click.argument("name", metavar="NAME|FILE")
@OPTIONS
@click.option("--replan", is_flag=True, help="Plan again and again; gaits then walk by the velocities of cmd_vel.")
@click.option("--rate", type=float, default=500.0, show_default=True, help="Rate of efforts [Hz].")
@click.option("--every", type=float, default=0.02, show_default=True, help="Time between plans [s].")
@click.option("--latency", type=float, default=0.02, show_default=True, help="From a measurement to its plan [s].")
@click.option("--patience", type=float, default=0.05, show_default=True, help="Oldest measurement to act on [s].")
@click.option("--joints", help="Names of joints, with commas, in the order of efforts; default the robot's.")
@click.option("--states", default="joint_states", show_default=True, help="Topic of joints' positions and velocities.")
@click.option("--odometry", default="odom", show_default=True, help="Topic of a free base.")
@click.option("--commands", default="effort_controller/commands", show_default=True, help="Topic of efforts.")
@PROBLEM
@ROBOT
def node(
    name: str, options: tuple[str, ...], replan: bool, rate: float, every: float, latency: float, patience: float,
    joints: str | None, states: str, odometry: str, commands: str, problem: str | None, robot: str | None,
) -> None:  # fmt: skip
    """Apply the policy of problem NAME, or of FILE of `mayne solve --save`, as a node of ROS 2, until Ctrl-C.

    Options behind --ros-args are for ROS.
    """
    cut = options.index(ROS) if ROS in options else len(options)
    own, ros = options[:cut], options[cut:]
    planning = planner_of(find(name), robot, own, latency)[0] if replan else None
    source = planning or solved(name, robot, own, problem)[2].policy
    names = None if joints is None else [word.strip() for word in joints.split(",")]
    follower = Follower(source, names, patience)
    optional("rclpy", "mayne node")
    with progress(f"{name}, preparing"):
        follower.warm()
    click.echo(f"efforts of {', '.join(follower.joints)} on {commands} at {rate:g} Hz until you press Ctrl-C", err=True)
    run_node(follower, rate, every, states=states, odometry=odometry, commands=commands, arguments=ros)
