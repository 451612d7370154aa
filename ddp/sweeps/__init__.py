"""The backward sweep: its recursion, its knots, gaps and limits."""
