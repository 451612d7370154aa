"""Feedback: policies of solutions, on robots too; regulators and observers."""
