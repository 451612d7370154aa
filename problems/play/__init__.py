"""Motions played in simulators of others, with what plans do not know: pushes, masses, friction, delay, noise."""
