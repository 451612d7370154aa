"""Pinocchio's constrained dynamics and impacts with their analytic first derivatives, as oracles.

Three things are done for it (4.1): data is made anew for every impact, whose derivatives are wrong on data used before;
its ∂/∂v of an impact is that of the jump v⁺ - v; and surfaces' forces are turned into the world's axes here, because
its own derivatives in these are not those of its own forces.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from dynamics.contacts.contact import Contact

FEET = {
    "hyq": ("lf_foot", "rh_foot", "lh_foot", "rf_foot"),
    "anymal": ("LF_FOOT", "RH_FOOT", "LH_FOOT", "RF_FOOT"),
    "talos": ("left_sole_link", "right_sole_link", "gripper_left_base_link", "gripper_right_base_link"),
}
REFERENCES = {"local": pin.LOCAL, "local-world-aligned": pin.LOCAL_WORLD_ALIGNED}


def some_contacts(frames, kind, rng, gains=(0.0, 0.0), reference="local-world-aligned"):
    """Contacts at frames, each with a target of its own."""
    targets = [rng.normal(size=3) if kind == "point" else pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(size=3))
               for _ in frames]  # fmt: skip
    return [Contact(frame, kind, target, gains, reference) for frame, target in zip(frames, targets, strict=True)]


def points_of_a_shank(robot, rng):
    """Names of three new points on the body of anymal's left fore foot, whose nine numbers hold it where six would."""
    return points_of_a_body(robot, robot.model.frames[robot.frame_id("LF_FOOT")].parentJoint, rng)


def points_of_a_body(robot, joint, rng):
    """Names of three new points on the body behind a joint."""
    names = [f"point{i}" for i in range(3)]
    for name in names:
        offset = pin.SE3(np.eye(3), 0.1 * rng.normal(size=3))
        robot.model.addFrame(pin.Frame(name, joint, 0, offset, pin.OP_FRAME))
    return names


class Constrained:
    """Contacts of a robot as Pinocchio has them, and what it says of them: (a, f) and its derivatives."""

    def __init__(self, robot, contacts):
        self.model, self.contacts = robot.model, contacts
        self.frames = [robot.frame_id(contact.frame) for contact in contacts]
        self.models = pin.StdVec_RigidConstraintModel()
        for contact, index in zip(contacts, self.frames, strict=True):
            frame, point = robot.model.frames[index], contact.kind == "point"
            kind = pin.ContactType.CONTACT_3D if point else pin.ContactType.CONTACT_6D
            target = pin.SE3.Identity() if contact.target is None else contact.target
            if not isinstance(target, pin.SE3):
                target = pin.SE3(np.eye(3), target)
            axes = REFERENCES[contact.reference] if point else pin.LOCAL
            model = pin.RigidConstraintModel(kind, robot.model, frame.parentJoint, frame.placement, 0, target, axes)
            model.setBaumgarteCorrectorParameters(pin.BaumgarteCorrectorParameters(*contact.gains))
            self.models.append(model)
        self.settings = pin.ProximalSettings(1e-14, 1e-14, 0.0, 1)
        self._other = self.model.createData()
        self._start()

    def _start(self):
        self.data, self.datas = self.model.createData(), pin.StdVec_RigidConstraintData()
        for model in self.models:
            self.datas.append(model.createData())
        pin.initConstraintDynamics(self.model, self.data, self.models, self.datas)

    def motion(self, q, v, tau):
        """(a, f)."""
        a = pin.constraintDynamics(self.model, self.data, q, v, tau, self.models, self.datas, self.settings).copy()
        return self._turned(q, np.concatenate([a, self.data.lambda_c]), ())[0]

    def derivatives(self, q, v, tau):
        """∂(a, f)/∂q, ∂v, ∂τ, (nv + nc, nv) each."""
        a = pin.constraintDynamics(self.model, self.data, q, v, tau, self.models, self.datas, self.settings).copy()
        z = np.concatenate([a, self.data.lambda_c])
        out = pin.computeConstraintDynamicsDerivatives(self.model, self.data, self.models, self.datas, self.settings)
        return self._turned(q, z, [np.vstack([out[i], out[3 + i]]) for i in range(3)])[1]

    def impact(self, q, v, restitution):
        """(v⁺, Λ)."""
        self._start()
        settings = self.settings
        after = pin.impulseDynamics(self.model, self.data, q, v, self.models, self.datas, restitution, settings).copy()
        return self._turned(q, np.concatenate([after, self.data.impulse_c]), ())[0]

    def impact_derivatives(self, q, v, restitution):
        """∂(v⁺, Λ)/∂q, ∂v, (nv + nc, nv) each."""
        self._start()
        d, arguments = self.data, (self.models, self.datas, restitution, self.settings)
        after = pin.impulseDynamics(self.model, d, q, v, *arguments).copy()
        z = np.concatenate([after, d.impulse_c])
        pin.computeImpulseDynamicsDerivatives(self.model, d, *arguments)
        by_v = np.vstack([d.ddq_dv + np.eye(self.model.nv), d.dlambda_dv])
        return self._turned(q, z, [np.vstack([d.ddq_dq, d.dlambda_dq]), by_v])[1]

    def _turned(self, q, z, by):
        """z and its derivatives, the first of them by q, with the forces of surfaces in the axes asked for."""
        z, by, r = z.copy(), [np.array(D) for D in by], self.model.nv
        other = self._other
        for contact, frame in zip(self.contacts, self.frames, strict=True):
            if contact.kind == "surface" and contact.reference != "local":
                J = pin.computeFrameJacobian(self.model, other, q, frame, pin.LOCAL_WORLD_ALIGNED)
                pin.framesForwardKinematics(self.model, other, q)
                R = other.oMf[frame].rotation
                for part in (slice(r, r + 3), slice(r + 3, r + 6)):
                    z[part] = R @ z[part]
                    for i, D in enumerate(by):
                        D[part] = R @ D[part] - (pin.skew(z[part]) @ J[3:] if i == 0 else 0.0)
            r += contact.size
        return z, np.array(by)
