"""Models of the Hessian, one file each, and what protects them far from an optimum."""
