"""Pinocchio's constrained dynamics and impacts with their analytic first derivatives, as oracles."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from oracles import fourth_order

REFERENCES = {"local": pin.LOCAL, "local-world-aligned": pin.LOCAL_WORLD_ALIGNED}


class Constrained:
    """Contacts of a robot as Pinocchio has them, and what it says of them: (a, f) and its derivatives."""

    def __init__(self, robot, contacts):
        self.robot, self.model, self.data = robot, robot.model, robot.model.createData()
        self.models = pin.StdVec_RigidConstraintModel()
        for contact in contacts:
            frame = robot.model.frames[robot.frame_id(contact.frame)]
            kind = pin.ContactType.CONTACT_3D if contact.kind == "point" else pin.ContactType.CONTACT_6D
            target = pin.SE3.Identity() if contact.target is None else contact.target
            if not isinstance(target, pin.SE3):
                target = pin.SE3(np.eye(3), target)
            model = pin.RigidConstraintModel(
                kind, robot.model, frame.parentJoint, frame.placement, 0, target, REFERENCES[contact.reference]
            )
            model.setBaumgarteCorrectorParameters(pin.BaumgarteCorrectorParameters(*contact.gains))
            self.models.append(model)
        self.datas = pin.StdVec_RigidConstraintData()
        for model in self.models:
            self.datas.append(model.createData())
        pin.initConstraintDynamics(self.model, self.data, self.models, self.datas)
        self.settings = pin.ProximalSettings(1e-14, 1e-14, 0.0, 1)

    def _forces(self, impulses=False):
        parts = []
        for model, data in zip(self.models, self.datas, strict=True):
            force = data.contact_force
            parts.append(force.linear if model.type == pin.ContactType.CONTACT_3D else force.vector)
        return np.concatenate(parts)

    def motion(self, q, v, tau):
        a = pin.constraintDynamics(self.model, self.data, q, v, tau, self.models, self.datas, self.settings).copy()
        return np.concatenate([a, self.data.lambda_c])

    def derivatives(self, q, v, tau):
        """∂(a, f)/∂q, ∂v, ∂τ, (nv + nc, nv) each."""
        self.motion(q, v, tau)
        out = pin.computeConstraintDynamicsDerivatives(self.model, self.data, self.models, self.datas, self.settings)
        return np.array([np.vstack([out[i], out[3 + i]]) for i in range(3)])

    def impact(self, q, v, restitution):
        after = pin.impulseDynamics(self.model, self.data, q, v, self.models, self.datas, restitution, self.settings)
        return np.concatenate([after.copy(), self.data.impulse_c])

    def impact_derivatives(self, q, v, restitution):
        """∂(v⁺, Λ)/∂q, ∂v, (nv + nc, nv) each."""
        self.impact(q, v, restitution)
        pin.computeImpulseDynamicsDerivatives(
            self.model, self.data, self.models, self.datas, restitution, self.settings
        )
        d = self.data
        return np.array([np.vstack([d.ddq_dq, d.dlambda_dq]), np.vstack([d.ddq_dv, d.dlambda_dv])])
