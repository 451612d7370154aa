"""Gaits that are planned again and again from where the robot is, at speeds that may change at any time."""
