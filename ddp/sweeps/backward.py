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
both are compiled for sizes of states and controls, see sized_sweep.py.

Under a step alpha the model promises a decrease of alpha d0 - alpha² (d0 - expected): d0 is the cost's slope along the
policy, downwards, and ``expected`` what the full step brings. Without gaps and limits, d0 = Σ yᵀ D⁻¹ y = 2 expected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.portable import portable
from ddp.derivatives import Derivatives, contract_with
from ddp.machine.aligned import aligned_zeros
from ddp.machine.written import copied
from ddp.protocols import Array
from ddp.sweeps.horizon import Horizon, horizon_of
from ddp.sweeps.room import RoomOwner
from ddp.sweeps.segments import Segments, cut
from ddp.sweeps.sized_limits import within_limits_of
from ddp.sweeps.sized_sweep import sweep_of, weigh_of
from ddp.sweeps.sweeping import sweep_function, sweeping_of
from ddp.sweeps.tiled_sweep import NOTHING
from ddp.systems.structure import Structure, numbers_of_blocks, structure_of
from ddp.systems.system import Contraction, System

VALUE, COSTATE, POLICY, AUTO = "value", "costate", "policy", "auto"
"""Vectors that contract the dynamics: V_x of the sweep (DDP), the costate (stagewise Newton), V_x under the last
policy, or what each sweep is told to take."""

NONE, KEPT, GIVEN = "none", "kept", "multipliers"
"""No contraction (Gauss-Newton); one of an earlier iterate; one with the iterate's own multipliers."""


BY_NUMBER = VALUE, COSTATE, POLICY
"""Multipliers by what `multiplier_of` returns."""


@portable
def multiplier_of(followed, torn, batched, costates):  # type: ignore[no-untyped-def]
    """Number of the multiplier where it is open: see `Backward.multiplier`."""
    if followed and not torn and batched:
        return 2
    return 1 if costates else 0


class Sweep(NamedTuple):
    """The outcome of a backward sweep. k (N, nu) and K (N, nu, n) are overwritten by the next sweep.

    d0: the cost's slope along the policy, downwards.  expected: the decrease that the model promises for the full step.
    gradient: max-norm of the gradient of the total cost with respect to the controls; where a control is at a limit and
        pushed against it, that is zero.
    failed: the knot whose Q_uu is not positive definite (or not finite), -1 if all are.
    contraction: what contracted the dynamics' second order: "none", "value", "costate", "policy" or "kept".
    """

    k: Array
    K: Array
    d0: float
    expected: float
    gradient: float
    failed: int
    contraction: str = NONE

    def promised(self, alpha: float) -> float:
        """The decrease that the model promises for a step alpha; negative where closing gaps costs."""
        return alpha * self.d0 - alpha * alpha * (self.d0 - self.expected)


class Backward:
    """The sweep over one set of derivatives, with its workspace.

    gaps (N, n): open gaps; the owner assigns them, and limits, whole, and calls `moved` when derivatives have changed.
    separable (N+1,): where ``derivatives.diagonal`` stands for lzz and exact; the owner's, too.
    multipliers: see `VALUE`.  reuse: for how many more iterates a contracted f_zz is used again.
    limited: whether any control has limits.
    contract: what contracts the records of all knots with weights (N, n) into (N, nz, nz), or into the blocks of
        `system.Abilities` if it is told so; default the dynamics.
    segments: how many parts of the horizon are swept at once, see segments.py; where the second order is contracted
        with V_x, sweeps that have any are of one piece all the same.
    structure: of the dynamics, if it is known.
    weighted: whether sweeps are `with_weights` alone; second orders and bends of all knots are then kept.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: System, multipliers: str = VALUE, reuse: int = 0,
        limited: bool = False, contract: Callable[[Array, Array, bool], None] | None = None,
        segments: int = 1, structure: Structure | None = None, weighted: bool = False,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        nz = n + nu
        self._derivatives = derivatives
        self._reuse = reuse
        self._dynamics = dynamics
        self._contract = contract or partial(contract_with, dynamics, derivatives.record)
        steps, halves, batched, blockwise, blocks = structure or structure_of(dynamics)
        self._chosen = multipliers if multipliers in (VALUE, COSTATE) else ""
        self._at_once = batched or multipliers == POLICY
        whole = limited or weighted
        self._blockwise = blockwise and (weighted or multipliers != VALUE)
        self._in_blocks = aligned_zeros((N if self._blockwise else 0, numbers_of_blocks(n // 2, steps[1])))
        self._followed = self._torn = False
        by_knot = limited and not weighted  # whose repeated sweeps find what V_x of the first has contracted
        everywhere = (not self._blockwise and (multipliers != VALUE or whole)) or reuse or by_knot
        self._second = aligned_zeros((N if everywhere else 1, nz, nz))
        self.age: int | None = None
        self._limited = limited
        self._separable = np.zeros(N + 1, dtype=bool)
        self._contraction: Contraction | None = None
        self._others: list[Horizon] = []
        self._closing = dynamics.closing()
        bends = np.zeros((N if whole and self._closing.address else 1, 2, n, n))
        self._horizon = horizon_of(derivatives, self._second, steps, self._closing, bends, blocks, whole)
        self._horizon.limited, self._taken = int(limited), self._second
        self._weights = self._horizon.weights
        self._k, self._K, self._action = self._horizon.k, self._horizon.K, self._horizon.action
        if self._blockwise:
            self._take(self._in_blocks)
        self.sizes = sizes = n, nu, halves[0] > 0.0, len(steps[1])
        self._room, self._recursion, self._weigh = RoomOwner(*sizes), sweep_of(*sizes), weigh_of(*sizes)
        if whole:
            function = sweep_function(*sizes).address
            self._sweeping = sweeping_of(function, N, self._room.address, self._horizon.address)
            self._sweeping.kept = int(weighted)
        if limited:
            self._within = within_limits_of(n, nu)
            shapes = (N, nu), (N, nu * n), (N, nu), (N + 1, n), (N + 1, n)
            self._scratch = tuple(np.zeros(shape) for shape in shapes)
        self._segments = Segments(cut(N, min(segments, N)), *sizes) if segments > 1 else None

    @property
    def separable(self) -> NDArray[np.bool_]:
        """Knots whose Hessians of costs are diagonals, (N+1,)."""
        return self._separable

    @separable.setter
    def separable(self, separable: NDArray[np.bool_]) -> None:
        self._separable = separable
        self._horizon.separable = separable.astype(np.int64)

    @property
    def limits(self) -> tuple[Array, Array]:
        """How far controls are from their lower and upper limits, (N, nu) each; ∓inf where there are none."""
        return self._horizon.low, self._horizon.high

    @limits.setter
    def limits(self, limits: tuple[Array, Array]) -> None:
        self._horizon.low, self._horizon.high = limits

    def _take(self, second: Array) -> None:
        """Take contracted second orders, one for each knot or one place for all, as Hessians or as blocks."""
        if second is not self._taken:
            self._horizon.T = self._taken = second
            self._horizon.in_blocks = second is self._in_blocks

    def _contract_within(self) -> None:
        """Let sweeps contract the dynamics' second order: its C function is not compiled before it is wanted."""
        if self._contraction is None:
            self._contraction = self._dynamics.contraction()
            for horizon in (self._horizon, *self._others):
                horizon.contraction, horizon.context = self._contraction[:2]

    def contraction(self) -> Contraction:
        """The dynamics' second order of one knot, as sweeps call it."""
        self._contract_within()
        assert self._contraction is not None
        return self._contraction

    def horizons(self, contraction: int) -> tuple[Horizon, Horizon | None]:
        """All that sweeps read and write, with second orders as Hessians, and as blocks where dynamics know them.

        contraction: address of a C function for sweeps to call until `contraction` is known.
        """
        whole, known = copied(self._horizon), self._contraction
        whole.T, whole.in_blocks = self._second, 0
        whole.contraction, whole.context = (contraction, 0) if known is None else known[:2]
        self._others = [whole]
        if not self._blockwise:
            return whole, None
        blocks = copied(whole)
        blocks.T, blocks.in_blocks = self._in_blocks, 1
        return whole, blocks

    @property
    def state(self) -> tuple[int, int]:
        """For how many iterates contracted second orders have been kept, -1 for not, and whether gains are a policy."""
        return -1 if self.age is None else self.age, int(self._followed)

    @state.setter
    def state(self, state: tuple[int, int]) -> None:
        self.age, self._followed = None if state[0] < 0 else state[0], state[1] != 0
        if self.age is not None:
            self._take(self._in_blocks if self._blockwise else self._second)

    @property
    def gaps(self) -> Array:
        """Open gaps (N, n)."""
        return self._horizon.gaps

    @gaps.setter
    def gaps(self, gaps: Array) -> None:
        self.take_gaps(gaps, bool(gaps.any()))

    def take_gaps(self, gaps: Array, torn: bool) -> None:
        """Take open gaps (N, n), and whether any of them is not zero."""
        self._horizon.gaps = gaps
        self.tear(torn)

    def tear(self, torn: bool) -> None:
        """Take whether any gap is open, where they are written in place."""
        if torn is not self._torn:
            self._horizon.torn = self._torn = torn

    def moved(self) -> None:
        """The derivatives are those of another trajectory."""
        self.age = None if self.age is None or self.age >= self._reuse else self.age + 1

    def forget(self) -> None:
        """Forget all that is kept of earlier iterates."""
        self.age = None

    def begin(self) -> None:
        """Hold no controls and no gaps, as the first sweep of a solve; gains stay."""
        self.led_away()
        self.tear(False)
        self._horizon.held.fill(0.0)

    def led_away(self) -> None:
        """The derivatives are those of a trajectory that no sweep led to: gains are no policy for its weights."""
        self.age, self._followed = None, False

    def multiplier(self, costates: bool = False) -> str:
        """Vector that contracts the second order in the next sweep with blend > 0: `VALUE`, `COSTATE` or `POLICY`.

        Where that is open, it is the policy's if many knots are contracted at once, and a policy for them is known.
        """
        return self._chosen or BY_NUMBER[multiplier_of(self._followed, self._torn, self._at_once, costates)]

    def reads_records(self, costates: bool = False) -> bool:
        """Whether the next sweep with blend > 0 reads what the dynamics' ``expand_second`` has written."""
        multiplier = self.multiplier(costates)
        return (multiplier == VALUE or not self._blockwise) and not self._keeps(multiplier)

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

    def contract(self, weights: Array) -> None:
        """Contract the second order with weights (N, n), for sweeps `with_weights`."""
        self._weights[:] = weights
        self._contract(self._weights, self._taken, self._blockwise)

    def with_weights(self, blend: float, mu: float, held: Array | None = None) -> Sweep:
        """Sweep once with the second order as `contract` left it.

        held (N, nu): -1, 1 of controls that go to their lower and upper `limits` and stay there, 0 of all others.
        """
        contraction = NONE if blend == 0.0 else GIVEN
        if held is None:
            return self._swept(blend, mu, contraction, kept=True)
        self._horizon.held[:] = held
        self._horizon.limited = 1
        found = self._swept(blend, mu, contraction, kept=True, known=True)
        self._horizon.limited = 0
        return found

    def told(self, blend: float, failed: int, slope: float, change: float, gradient: float) -> Sweep:
        """A sweep ``with_weights`` that a kernel made, by ``sweeping``."""
        return Sweep(self._k, self._K, -slope, -change, gradient, failed, NONE if blend == 0.0 else GIVEN)

    def pulls(self, x: Array, u: Array) -> Array:
        """Gradients (N, nu) of the action values in the controls, where a step x (N+1, n), u (N, nu) leads.

        They are of the last sweep, if that was told which controls are held.
        """
        rows, n = self._horizon.rows.reshape(*u.shape, -1), x.shape[1]
        moved = np.einsum("tij,tj->ti", rows[..., :n], x[:-1]) + np.einsum("tij,tj->ti", rows[..., n:-1], u)
        return np.asarray(rows[..., -1] + moved)

    @property
    def address(self) -> int:
        """Address of the `Horizon`, for kernels."""
        return self._horizon.address

    @property
    def sweeping(self) -> int:
        """Address of the `Sweeping` of sweeps ``with_weights`` or within limits."""
        return self._sweeping.address

    @property
    def second(self) -> Array:
        """Second order (N, .), of sweeps ``with_weights`` as `contract` writes it."""
        return self._taken

    @property
    def room(self) -> int:
        """Address of the `Room` that sweeps work in."""
        return self._room.address

    @property
    def gains(self) -> Array:
        """K (N, nu, n) of the last sweep."""
        return self._K

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
        """The whole second order in one batch, the weights being known before the sweep."""
        self._weigh(self._horizon.address, 0, len(self._weights), multiplier == POLICY)
        second = self._in_blocks if self._blockwise else self._second
        self._contract(self._weights, second, self._blockwise)
        self._take(second)
        self.age = 0

    def _swept(
        self, blend: float, mu: float, contraction: str, kept: bool = False, by_costate: bool = False,
        known: bool = False,
    ) -> Sweep:  # fmt: skip
        """One sweep; ``kept``: with the contracted second order as it is; ``known``: the controls held by limits."""
        blend, mu = float(blend), float(mu)
        if blend > 0.0 and not kept:
            self._contract_within()
        if self._limited:
            failed, slope, change, gradient = self._within(
                self._sweeping.address, blend, mu, int(by_costate), int(kept), *self._scratch
            )
            self._followed = failed < 0 or self._left_gains()
            return Sweep(self._k, self._K, -slope, -change, gradient, failed, contraction)
        if self._segments is not None and (kept or blend == 0.0) and not (self._limited or self._torn):
            done, change, gradient = self._segments.sweep(self._horizon, blend, mu)
            if done:
                self._followed = True
                return Sweep(self._k, self._K, -2.0 * change, -change, gradient, -1, contraction)
        failed, slope, change, gradient = self._recursion(
            self._horizon.address, self._room.address, 0, len(self._k), NOTHING, blend, mu, by_costate, kept, known
        )  # fmt: skip
        self._followed = failed < 0 or self._left_gains()
        return Sweep(self._k, self._K, -slope, -change, gradient, failed, contraction)

    def _left_gains(self) -> bool:
        """Whether what a failed sweep left is a policy for weights: some of the last one's gains."""
        return self._followed and bool(np.isfinite(self._action[0, 0]))
