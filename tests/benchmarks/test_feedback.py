"""Feedback from 100 random errors of attitude: who brings a motion to its end, and at what cost.

`make bench-feedback` prints the table: successes of each policy (see `problems.flights`), errors of attitude at the
end, and costs as multiples of the optimum from the same start.
"""

import numpy as np
import pytest

from problems import flights, quadrotor, quadruped

CONDITIONS = [
    ("quadrotor/loop", quadrotor.loop, 20.0, 1.0, "priced"),
    ("quadrotor/loop", quadrotor.loop, 20.0, 1.05, "priced"),
    ("quadruped/reorientation", quadruped.reorientation, 2.0, 1.0, "priced"),
    ("quadruped/reorientation", quadruped.reorientation, 2.0, 1.05, "priced"),
    ("quadruped/reorientation", quadruped.reorientation, 5.0, 1.05, "priced"),
    ("quadruped/reorientation", quadruped.reorientation, 20.0, 1.0, "priced"),
    ("quadruped/reorientation", quadruped.reorientation, 20.0, 1.05, "priced"),
]
"""Problem, largest error at the start [deg], factor on the base's mass, and the policy of DDP that is not worse."""


@pytest.mark.parametrize(("name", "build", "degrees", "mass", "best"), CONDITIONS)
def test_ddp_is_not_worse_than_a_regulator(benchmark, name, build, degrees, mass, best):
    outcomes = benchmark.pedantic(flights.fly_all, (build(), 100, np.deg2rad(degrees), mass), rounds=1)
    print(f"\n{name} from {degrees:g} deg, mass {mass:g}", *outcomes, sep="\n")
    found = {outcome.policy: outcome for outcome in outcomes}
    assert found[best].successes >= found["tracking"].successes
    assert np.median(found[best].costs) <= np.median(found["tracking"].costs)
