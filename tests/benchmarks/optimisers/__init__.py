"""Problems with limits and constraints, ours and published ones, and what other optimisers take for them."""
