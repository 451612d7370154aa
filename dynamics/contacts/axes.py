# mypy: allow-untyped-defs, allow-untyped-calls
"""Contact forces in the axes that were asked for: a point's in its frame's, a surface's in the world's.

The relation has points' forces in the world's axes and surfaces' in their frames' own (contacts/relation.py). Turned by
the frame's rotation R, in parts of three numbers f, with k on the way from the root to the frame, j nearer to the root,

    D_k (Rᵀ f) = Rᵀ (D_k f - s_ka × f)       D_k (R f) = R D_k f + s_ka × R f       D_j D_k R = [s_ja]× [s_ka]× R
"""

from ddp.compiling.kernel import inline, kernel
from dynamics.contacts.contact import LOCAL, LOCAL_WORLD_ALIGNED, POINT, SURFACE
from dynamics.contacts.products import threes
from dynamics.geometry.spatial import add3, angular, cross3, dot3, part3, put, rotate, rotate_back


@inline
def is_turned(contacts, i):
    """Whether the axes of contact i are not those of the relation."""
    natural = LOCAL if contacts.kind[i] == SURFACE else LOCAL_WORLD_ALIGNED
    return contacts.reference[i] != natural


@kernel
def turn_forces(contacts, place, back, first, f):
    """f from ``first`` on := forces in the axes that were asked for; ``back``: weights on them as on the relation's."""
    for i in range(contacts.count):
        if is_turned(contacts, i):
            R = place.R[i]
            for part in range(threes(contacts, i)):
                r = first + contacts.row[i] + 3 * part
                x = part3(f, r)
                put(f, r, rotate(R, x) if (contacts.kind[i] == POINT) == back else rotate_back(R, x))


@kernel
def turn_derivatives(tree, contacts, ws, place, f, fq, fv, ft):
    """Derivatives (nc, nv) by q, v, τ := those of forces as asked for; f: the relation's."""
    for i in range(contacts.count):
        if not is_turned(contacts, i):
            continue
        R, to_world = place.R[i], contacts.kind[i] != POINT
        for part in range(threes(contacts, i)):
            r = contacts.row[i] + 3 * part
            for by in (fq, fv, ft):
                for k in range(tree.nv):
                    x = (by[r, k], by[r + 1, k], by[r + 2, k])
                    y = rotate(R, x) if to_world else rotate_back(R, x)
                    by[r, k], by[r + 1, k], by[r + 2, k] = y[0], y[1], y[2]
            force = part3(f, r)
            k = tree.iv[contacts.body[i]] + tree.nj[contacts.body[i]] - 1
            while k >= 0:
                sa = angular(ws.s[k])
                turned = cross3(sa, rotate(R, force)) if to_world else rotate_back(R, cross3(force, sa))
                x = add3((fq[r, k], fq[r + 1, k], fq[r + 2, k]), turned)
                fq[r, k], fq[r + 1, k], fq[r + 2, k] = x[0], x[1], x[2]
                k = tree.previous[k]


@kernel
def add_turning_curvature(tree, contacts, ws, place, w, f, fq, fv, ft, qq, qv, qt):
    """Add to the Hessian of weights·(relation's f) what the turning of axes adds; w: ``turn_weights``'.

    fq, fv, ft (nc, nv): the derivatives of the relation's forces.
    """
    nv = tree.nv
    for i in range(contacts.count):
        if not is_turned(contacts, i):
            continue
        R, to_world, b = place.R[i], contacts.kind[i] != POINT, contacts.body[i]
        for part in range(threes(contacts, i)):
            r = contacts.row[i] + 3 * part
            weight, force = part3(w, r), part3(f, r)
            if to_world:
                weight, force = rotate(R, weight), rotate(R, force)
            k = tree.iv[b] + tree.nj[b] - 1
            while k >= 0:
                sk = angular(ws.s[k])
                x = rotate_back(R, cross3(weight, sk)) if to_world else cross3(sk, weight)
                for j in range(nv):
                    value = x[0] * fq[r, j] + x[1] * fq[r + 1, j] + x[2] * fq[r + 2, j]
                    qq[k, j] += value
                    qq[j, k] += value
                    qv[k, j] += x[0] * fv[r, j] + x[1] * fv[r + 1, j] + x[2] * fv[r + 2, j]
                for j in range(nv):
                    qt[k, j] += x[0] * ft[r, j] + x[1] * ft[r + 1, j] + x[2] * ft[r + 2, j]
                turned = cross3(sk, force) if to_world else cross3(sk, weight)
                y = cross3(turned, weight if to_world else force)
                j = tree.iv[tree.body[k]] + tree.nj[tree.body[k]] - 1
                while j >= 0:
                    value = dot3(angular(ws.s[j]), y)
                    qq[k, j] += value
                    if tree.body[j] != tree.body[k]:
                        qq[j, k] += value
                    j = tree.previous[j]
                k = tree.previous[k]
