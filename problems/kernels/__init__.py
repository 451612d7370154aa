"""The compiled loops of the cost terms and constraints."""
