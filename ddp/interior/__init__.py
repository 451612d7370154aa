"""The full-space step: slacks and barriers, multipliers, a linear forward pass, a filter."""
