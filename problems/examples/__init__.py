"""Feedback at work: robots that are disturbed. ``python -m problems.examples [NAME ...]`` runs them.

- ``loop``: a quadrotor flies an inverted loop from wrong attitudes, by a regulator and by the solver's gains.
- ``reorientation``: HyQ turns in the air, its base 5 % heavier than planned.
- ``balance``: Talos is pushed on its soles and kept by an LQR, in our dynamics and in MuJoCo's contacts.
- ``gaits``: four quadrupeds trot and jump in MuJoCo, pushed, late, and over ground that the plan does not know.
- ``throw``: a UR5 throws in MuJoCo, its first link 5 % heavier than planned.

Each prints a table; the first run compiles, for minutes on a slow machine.
"""
