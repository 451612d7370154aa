"""The contraction of a hybrid system's second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

from ddp.compiling.kernel import callback
from dynamics.phases.knot import contract_at


@cache
def phase_contraction_callback() -> Any:
    """``contract_at``, compiled on first use."""
    return callback(contract_at)
