"""Systems as the solver works with them, and what is made of users' own."""
