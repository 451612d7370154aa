"""Models of the Hessian: what they decide at each iterate, the loop around that, rules for mu."""
