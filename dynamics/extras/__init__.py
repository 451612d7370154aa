"""Functions of other libraries as systems: each module needs its own library, and is imported where it is wanted.

Rollouts call a library once a knot, for all step lengths together; derivatives of all knots are one call each. A small
pendulum takes, for each knot and iteration, about 2 µs traced or as functions of C, 60 µs as batches of NumPy, 150 µs
with JAX and 180 µs with CasADi (``make bench-own``): for functions that exist there, not for speed.
"""
