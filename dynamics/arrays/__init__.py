"""Products and elimination of matrices that have the entries of a tree; memory of results, used again."""
