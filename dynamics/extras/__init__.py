"""Functions of other libraries as systems, and dynamics on GPUs (`gpu`): each module needs its own library.

Rollouts call a library once a knot, for all step lengths together; derivatives of all knots are one call each. A small
pendulum takes, for each knot and iteration, 2 to 3 µs traced or as functions of C, 36 µs as batches of NumPy, and about
80 µs with JAX or CasADi (``make bench-own``): for functions that exist there, not for speed.
"""
