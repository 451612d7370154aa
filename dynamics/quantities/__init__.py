"""Frames, centre of mass, energy and momentum, with first and second derivatives."""
