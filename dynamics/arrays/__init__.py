"""How numbers lie in memory: eight knots in a register, rows of tables, arrays without their overhead."""
