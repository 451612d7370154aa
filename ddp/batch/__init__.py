"""Many problems solved at once by compiled loops: eight to a register where knots wait for each other."""
