"""Constraints, and the augmented Lagrangian that holds them; the box of controls."""
