"""Solutions: what they hold and say, their files, records of iterations, and why solves end."""
