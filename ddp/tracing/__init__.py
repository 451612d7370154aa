"""Functions of users, followed operation by operation, differentiated and compiled."""
