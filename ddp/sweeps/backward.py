"""The backward sweep of DDP (Mayne 1966; Jacobson & Mayne 1970), the whole horizon in one compiled call.

With z = (dx, du), F = [A B], and the next value's gradient v = V_x and Hessian V = V_xx, at every knot

    q = l_z + Fᵀ v                                   gradient of the action value
    Q = l_zz + Fᵀ V F + v · f_zz                     its Hessian
    Q_uu = Uᵀ D U,   Y = U⁻ᵀ Q_ux,   y = U⁻ᵀ q_u     its factors, U with a unit diagonal
    K = -U⁻¹ D⁻¹ Y,   k = -U⁻¹ D⁻¹ y                 the policy  du = alpha k + K dx
    V = Q_xx - Yᵀ D⁻¹ Y,   v = q_x - Yᵀ D⁻¹ y        the value of this knot

``blend`` s scales what Gauss-Newton leaves out: l_zz = GN + s (exact - GN) and s v · f_zz. ``mu`` is added to
the diagonals of every V and Q_uu. f_zz is contracted with v, known only knot by knot, or with what is known before:

    p = l_x + Aᵀ p' + Kᵀ (l_u + Bᵀ p')

with the gains K of an earlier sweep, which is v if they do not change, or with K = 0: the costate. At an optimum all
of them are the same. Motion that is unstable makes costates huge, but not v, and not p under gains that stabilise it.

Where a gap is open, dx' = gap + J F z + ..., and v and V are taken to where the dynamics arrive, see `gaps`. Where
controls have limits, `limits` finds those that are held there; they are constants of the knot, and the rest of it is as
above, with their rows of K zero. The recursion itself is in tiled_sweep.py, the algebra of a knot in riccati.py; where
both are compiled for sizes of states and controls, see sized_sweep.py. Here it is decided which vector contracts f_zz,
and for how long that serves; full-space steps, whose multipliers are given, sweep by weighted.py.

Under a step alpha the model promises a decrease of alpha d0 - alpha² (d0 - expected): d0 is the cost's slope along the
policy, downwards, and ``expected`` what the full step brings. Without gaps and limits, d0 = Σ yᵀ D⁻¹ y = 2 expected.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ddp.derivatives import Derivatives, contract_with
from ddp.machine.aligned import aligned_zeros
from ddp.machine.written import assign, copied, point_to, read_all
from ddp.protocols import Array
from ddp.sweeps.horizon import SLOPED, Horizon, horizon_of
from ddp.sweeps.limits import Scratch, scratch_of
from ddp.sweeps.outcome import BY_NUMBER, COSTATE, KEPT, NONE, POLICY, VALUE, Sweep, multiplier_of
from ddp.sweeps.room import RoomOwner
from ddp.sweeps.segments import Segments, cut
from ddp.sweeps.sized_limits import within_function
from ddp.sweeps.sized_sweep import weigh_of
from ddp.sweeps.sweeping import call, recur, sweep_function, sweeping_of
from ddp.systems.structure import Structure, are_equal, shape_of_second, structure_of
from ddp.systems.system import MOTIONS, Contraction, System, traced_of

Swept = tuple[int, float, float, float]
"""The knot that failed, -1 if none did; slope and change of the cost along the policy; max-norm of the gradient."""


class Recursion:
    """Sweeps over derivatives whose second order is contracted into ``second``, one knot or all of them: see `Horizon`.

    horizon: all that is read and written over the horizon.   sizes: of the functions that are compiled for them.
    limited: whether sweeps keep to limits of controls, in ``scratch``.   whole: whether bends and rows of all knots are
    kept, as limits and sweeps with controls that are held ask for.   sweeping: by which kernels sweep.
    room: address of the `Room` that sweeps work in.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: System, structure: Structure, second: Array, limited: bool,
        whole: bool,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        steps, self.closing = structure.halves, dynamics.closing()
        bends = np.zeros((N if whole and self.closing.address else 1, 2, n, n))
        self.horizon = horizon_of(derivatives, second, steps, self.closing, bends, structure.blocks, whole)
        self.horizon.limited = int(limited)
        self.sizes = sizes = n, nu, len(structure.swept[0]) > 0, len(steps[1])
        self._owner = RoomOwner(*sizes)
        self.room = self._owner.address
        self.sweeping = sweeping_of(sweep_function(*sizes).address, N, self.room, self.horizon.address)
        self.scratch, self._within = scratch_of(N, n, nu) if limited else None, within_function(n, nu)

    def __call__(self, blend: float, mu: float, by_costate: bool = False, kept: bool = True) -> Swept:
        """Sweep once: see `tiled_sweep.sweep`, and within limits `limits.sweep_within`.

        kept: with the second order as it is.
        """
        sweeping = self.sweeping
        assign(sweeping, {"blend": blend, "mu": mu, "by_costate": by_costate, "kept": kept, "known": 0})
        if self.scratch is None:
            recur(sweeping.address)
        else:
            call(self._within.address, sweeping.address, self.scratch.address, 0, 0)
        failed, slope, change, gradient = read_all(sweeping, ("failed", "slope", "change", "gradient"))
        return failed, slope, change, gradient


class Backward:
    """The sweep over one set of derivatives, with its workspace.

    gaps (N, n): open gaps; the owner assigns them, and limits, whole, and calls `moved` when derivatives have changed.
    coupled (N+1,): what Hessians of costs couple, see `Objective`; the owner's, too.
    multipliers: see `VALUE`.  reuse: for how many more iterates a contracted f_zz is used again.
    limited: whether any control has limits.
    contract: what contracts the records of all knots with weights (N, n) into (N, nz, nz), or into the blocks of
        `system.Abilities` if it is told so; default the dynamics.
    segments: how many parts of the horizon are swept at once, see segments.py; where the second order is contracted
        with V_x, sweeps that have any are of one piece all the same.
    structure: of the dynamics, if it is known.
    address, room: of the `Horizon`, for kernels, and of the `Room` that sweeps work in.
    system: the dynamics and the trace of their function, another object whenever sweeps have `turned` to others.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: System, multipliers: str = VALUE, reuse: int = 0,
        limited: bool = False, contract: Callable[[Array, Array, bool], None] | None = None,
        segments: int = 1, structure: Structure | None = None,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        self._structure = known = structure or structure_of(dynamics, N)
        self.system, self._reuse = (dynamics, traced_of(dynamics)), reuse
        self._contract, self._record = contract, derivatives.record
        self._chosen = multipliers if multipliers in (VALUE, COSTATE) else ""
        self._at_once = known.batched or multipliers == POLICY
        self._blockwise = known.blockwise if multipliers != VALUE else 0
        self._in_blocks = aligned_zeros((N if self._blockwise else 0, *shape_of_second(known, n, nu)))
        # within limits sweeps are repeated, and find what V_x of the first has contracted
        everywhere = (multipliers != VALUE and not self._blockwise) or reuse > 0 or limited
        self._second = aligned_zeros((N if everywhere else 1, n + nu, n + nu))
        self._followed = self._torn = False
        self.age: int | None = None
        self._coupled = np.full(N + 1, n + nu)
        self._contraction: Contraction | None = None
        self._others: list[Horizon] = []
        self._recursion = Recursion(derivatives, dynamics, known, self._second, limited, limited)
        self._horizon, self.sizes, self._taken = self._recursion.horizon, self._recursion.sizes, self._second
        self.address, self.room = self._horizon.address, self._recursion.room
        if self._blockwise:
            self._take(self._in_blocks)
        h = self._horizon
        self._weights, self._k, self._K, self._action = h.weights, h.k, h.K, h.action
        self._weigh = weigh_of(*self.sizes)
        several = segments > 1 and not limited
        self._segments = Segments(cut(N, min(segments, N)), *self.sizes) if several else None

    @property
    def coupled(self) -> NDArray[np.int64]:
        """How many of the first numbers of z Hessians of costs couple, (N+1,)."""
        return self._coupled

    @coupled.setter
    def coupled(self, coupled: NDArray[np.int64]) -> None:
        if coupled is not self._coupled:
            self._coupled = self._horizon.coupled = coupled

    @property
    def limits(self) -> tuple[Array, Array]:
        """Distances of controls to their lower and upper limits, (N, nu) each; ∓inf where there are none."""
        return self._horizon.low, self._horizon.high

    @limits.setter
    def limits(self, limits: tuple[Array, Array]) -> None:
        self._horizon.low, self._horizon.high = limits

    def _take(self, second: Array) -> None:
        """Take contracted second orders, one for each knot or one place for all, as Hessians or as blocks."""
        if second is not self._taken:
            self._horizon.T = self._taken = second
            self._horizon.in_blocks = self._blockwise if second is self._in_blocks else 0

    def _contract_within(self) -> None:
        """Let sweeps contract the dynamics' second order: its C function is not compiled before it is wanted."""
        if self._contraction is None:
            self._contraction = self.system[0].contraction()
            for horizon in (self._horizon, *self._others):
                horizon.contraction, horizon.context = self._contraction[:2]

    def contraction(self) -> Contraction:
        """The dynamics' second order of one knot, as sweeps call it."""
        self._contract_within()
        assert self._contraction is not None
        return self._contraction

    def turned(self, dynamics: System, structure: Structure) -> bool:
        """Turn to another system of the same sizes and structure, or to the same one once its function is traced anew.

        False, and nothing is done, for any other.
        """
        traced, recursion, horizon = traced_of(dynamics), self._recursion, self._horizon
        if dynamics is self.system[0] and traced is self.system[1]:
            return True
        closing = dynamics.closing()
        if not are_equal(structure, self._structure) or (closing.address != 0) != (recursion.closing.address != 0):
            return False
        self.system, self._contraction, self._others, recursion.closing = (dynamics, traced), None, [], closing
        horizon.h[:] = structure.halves[0]
        point_to(horizon, contraction=0, context=0, closing=closing.address, closing_context=closing.context)
        return True

    def horizons(self, contraction: int, gaps: int) -> list[Horizon]:
        """All that sweeps read and write: without open gaps, then with those at an address.

        Of both with second orders as Hessians, and then, where dynamics know them, as blocks.
        contraction: address of a C function for sweeps to call until `contraction` is known.
        """
        whole = copied(self._horizon)
        whole.T, whole.in_blocks = self._second, 0
        closed = [whole]
        if self._blockwise:
            blocks = copied(whole)
            blocks.T, blocks.in_blocks = self._in_blocks, self._blockwise
            closed.append(blocks)
        found = [copied(horizon) for _ in range(2) for horizon in closed]
        for i, horizon in enumerate(found):
            point_to(horizon, torn=SLOPED if i >= len(closed) else 0, gaps=gaps)
        self.lend(contraction, found)
        return found

    def lend(self, contraction: int, horizons: list[Horizon]) -> None:
        """Give `horizons` the C functions of the system, which they have until `turned` tells of another."""
        closing, (function, context) = self._recursion.closing, (self._contraction or (contraction, 0))[:2]
        functions = {"contraction": function, "closing": closing.address}
        for horizon in horizons:
            point_to(horizon, **functions, context=context, closing_context=closing.context)
        self._others = horizons

    @property
    def state(self) -> tuple[int, int]:
        """Iterates for which contracted second orders have been kept, -1 for none; whether gains are a policy."""
        return -1 if self.age is None else self.age, int(self._followed)

    @state.setter
    def state(self, state: tuple[int, int]) -> None:
        self.age, self._followed = None if state[0] < 0 else state[0], state[1] != 0
        if self.age is not None:
            self._take(self._in_blocks if self._blockwise else self._second)

    @property
    def kept(self) -> list[Array]:
        """Memory that later sweeps may read: the last gains, controls that limits held, contracted second orders."""
        return [self._k, self._K, self._horizon.held, self._taken if self.age is not None else self._second[:0]]

    @property
    def gaps(self) -> Array:
        """Open gaps (N, n)."""
        return self._horizon.gaps

    @gaps.setter
    def gaps(self, gaps: Array) -> None:
        self._horizon.gaps, torn = gaps, bool(gaps.any())
        if torn is not self._torn:
            self._horizon.torn = self._torn = torn

    def moved(self) -> None:
        """Note that the trajectory is another one; second orders serve on for `reuse` iterates."""
        self.age = None if self.age is None or self.age >= self._reuse else self.age + 1

    def forget(self) -> None:
        """Forget all that is kept of earlier iterates."""
        self.age = None

    @property
    def scratch(self) -> Scratch:
        """Memory that sweeps within limits work in, for kernels."""
        assert self._recursion.scratch is not None
        return self._recursion.scratch

    def begin(self) -> None:
        """Hold no controls, as the first sweep of a solve, which no other led to."""
        self.led_away()
        self._horizon.held.fill(0.0)

    def led_away(self) -> None:
        """Note that no sweep led to this trajectory: the last gains are no policy about it."""
        self.age, self._followed = None, False

    def follow(self, K: Array) -> None:
        """Take gains (N, nu, n) of others' sweeps as the policy about this trajectory."""
        self._K[:] = K
        self._followed = True

    def multiplier(self, costates: bool = False) -> str:
        """Vector that contracts the second order in the next sweep with blend > 0: `VALUE`, `COSTATE` or `POLICY`.

        Where that is open, it is the policy's if many knots are contracted at once, and a policy for them is known.
        """
        return self._chosen or BY_NUMBER[multiplier_of(self._followed, self._torn, self._at_once, costates)]

    def reads_records(self, costates: bool = False) -> bool:
        """Whether the next sweep with blend > 0 reads what the dynamics' ``expand_second`` has written."""
        multiplier = self.multiplier(costates)
        return (multiplier == VALUE or self._blockwise != MOTIONS) and not self._keeps(multiplier)

    def _keeps(self, multiplier: str) -> bool:
        """Whether what is contracted already serves."""
        return self.age is not None and (multiplier != VALUE or self._reuse > 0)

    def __call__(self, blend: float, mu: float, costates: bool = False) -> Sweep:
        """Sweep once. ``derivatives.exact`` and the record's second order are read only if blend > 0.

        costates: whether they contract the second order, where ``multipliers`` leave that open.
        """
        if blend == 0.0:
            found = self._swept(blend, mu, NONE)
        else:
            multiplier = self.multiplier(costates)
            kept = self._contracted(multiplier)
            found = self._swept(blend, mu, KEPT if self.age else multiplier, kept, multiplier == COSTATE)
            if self._reuse and found.failed < 0:
                self.age = self.age or 0
        return found

    def _contracted(self, multiplier: str) -> bool:
        """Whether the next sweep finds the second order contracted, and need not do it itself."""
        if multiplier != VALUE and self.age is None:
            self._contract_before(multiplier)
            return True
        if self._keeps(multiplier):
            return True
        self.age = None  # what is there is overwritten
        self._take(self._second)
        return False

    def curvature(self) -> tuple[float, int]:
        """The smallest eigenvalue of Q_uu at the knot where the last sweep failed, and the control most concerned."""
        if not np.isfinite(self._action).all():
            return float("nan"), 0
        values, vectors = np.linalg.eigh(self._action)
        return float(values[0]), int(np.argmax(np.abs(vectors[:, 0])))

    def _contract_before(self, multiplier: str) -> None:
        """Contract the second order of all knots in one batch, with weights that are known before the sweep."""
        call(self._weigh.address, self._horizon.address, int(multiplier == POLICY), 0, 0)
        second = self._in_blocks if self._blockwise else self._second
        if self._contract is None:
            contract_with(self.system[0], self._record, self._weights, second, bool(self._blockwise))
        else:
            self._contract(self._weights, second, bool(self._blockwise))
        self._take(second)
        self.age = 0

    def _swept(self, blend: float, mu: float, contraction: str, kept: bool = False, by_costate: bool = False) -> Sweep:
        """One sweep; ``kept``: with the contracted second order as it is."""
        blend, mu = float(blend), float(mu)
        if blend > 0.0 and not kept:
            self._contract_within()
        if self._segments is not None and (kept or blend == 0.0) and not self._torn:
            done, change, gradient = self._segments.sweep(self._horizon, blend, mu)
            if done:
                self._followed = True
                return Sweep(self._k, self._K, -2.0 * change, -change, gradient, -1, contraction)
        failed, slope, change, gradient = self._recursion(blend, mu, by_costate, kept)
        # Gains of the last sweep that a failed one has left are a policy for weights still.
        self._followed = failed < 0 or (self._followed and bool(np.isfinite(self._action[0, 0])))
        return Sweep(self._k, self._K, -slope, -change, gradient, failed, contraction)
