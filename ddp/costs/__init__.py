"""Cost terms: what users give, as one sum over the horizon with its derivatives."""
