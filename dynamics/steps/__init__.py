"""Discrete time: steps on the manifold, rollouts of them, and their derivatives to second order."""
