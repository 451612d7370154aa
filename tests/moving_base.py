"""The recursions of Bos, Traversaro, Pucci & Saccon (2022), tables 4 to 9, as they are printed: an oracle.

Of a free base and joints of one degree of freedom. The base's acceleration is added to gravity's, which folds the
composite inertias of tables 4 and 6 into the forces. The twist of the body is held fixed: dv_0 = 0 in table 5, where
the paper holds the inertial one, against its own table 7.
"""

import numpy as np
import pinocchio as pin


def cross(v):
    """The matrix of v ×, on motions."""
    return pin.Motion(v).action


def cross_force(v):
    """The matrix of v ×*, on forces."""
    return -cross(v).T


def columns(V, f):
    """V_c ×* f for every column of V."""
    return np.stack([cross_force(v) @ f for v in V.T], axis=1)


class Recursions:
    """Bodies 0 (the base) to nB of a robot in a configuration q, at velocities v and accelerations a."""

    def __init__(self, robot, q, v, a):
        model, data = robot.model, robot.model.createData()
        pin.forwardKinematics(model, data, q)
        self.bodies = range(1, model.njoints - 1)
        self.above = [int(model.parents[i + 1]) - 1 for i in range(model.njoints - 1)]
        self.X = [data.liMi[i + 1].inverse().action for i in range(model.njoints - 1)]
        self.Gamma = [np.asarray(data.joints[i + 1].S).reshape(6, -1)[:, :1] for i in range(model.njoints - 1)]
        self.M = [model.inertias[i + 1].matrix() for i in range(model.njoints - 1)]
        self.n, r, rd = len(self.bodies), v[6:], a[6:]
        self.gravity = self.X[0] @ -model.gravity.vector
        self.v, self.a, self.vJ, self.m, self.b = [v[:6]], [self.gravity + a[:6]], [np.zeros(6)], [], []
        for i in self.bodies:
            own, rate = self.Gamma[i][:, 0] * r[i - 1], self.Gamma[i][:, 0] * rd[i - 1]
            self.vJ.append(own)
            self.v.append(self.X[i] @ self.v[self.above[i]] + own)
            self.a.append(self.X[i] @ self.a[self.above[i]] + rate + cross(self.v[i]) @ own)
        for M, v, a in zip(self.M, self.v, self.a, strict=True):
            self.m.append(M @ v)
            self.b.append(M @ a + cross_force(v) @ self.m[-1])
        self.carried = list(self.b)
        for i in reversed(self.bodies):
            self.carried[self.above[i]] = self.carried[self.above[i]] + self.X[i].T @ self.carried[i]

    def torques(self):
        """Table 4: [base wrench; joint torques]."""
        return np.concatenate([self.carried[0], *(self.Gamma[i].T @ self.carried[i] for i in self.bodies)])

    def derivative(self, dv0, da0, moved=False, turned=False):
        """Tables 5 to 8: how torques follow dv_0, da_0, joint velocities (moved) and joint positions (turned)."""
        count = self.n if moved or turned else dv0.shape[1]
        dv, da, db = [dv0], [da0], []
        for i in self.bodies:
            X, G, above = self.X[i], self.Gamma[i][:, 0], self.above[i]
            dvi, dai = X @ dv[above], X @ da[above]
            if moved:
                dvi[:, i - 1] += G
                dai[:, i - 1] += cross(self.v[i]) @ G
            if turned:
                dvi[:, i - 1] -= cross(G) @ X @ self.v[above]
                dai[:, i - 1] -= cross(G) @ X @ self.a[above]
            dai = dai - cross(self.vJ[i]) @ dvi
            dv.append(dvi)
            da.append(dai)
        for M, v, m, dvi, dai in zip(self.M, self.v, self.m, dv, da, strict=True):
            db.append(M @ dai + columns(dvi, m) + cross_force(v) @ M @ dvi)
        tau = np.zeros((6 + self.n, count))
        for i in reversed(self.bodies):
            tau[5 + i] = self.Gamma[i][:, 0] @ db[i]
            above, carried = self.above[i], self.X[i].T @ db[i]
            if turned:
                carried[:, i - 1] -= (cross(self.Gamma[i][:, 0]) @ self.X[i]).T @ self.carried[i]
            db[above] = db[above] + carried
        tau[:6] = db[0]
        return tau

    def by_state(self):
        """Derivatives of the torques by the pose of the base, positions, twist of the base and velocities."""
        none, joints, one = np.zeros((6, 6)), np.zeros((6, self.n)), np.eye(6)
        by_pose = self.derivative(none, cross(self.gravity))
        by_positions = self.derivative(joints, joints, turned=True)
        return by_pose, by_positions, self.derivative(one, none), self.derivative(joints, joints, moved=True)

    def inverse_mass_matrix(self):
        """Table 9: M⁻¹, base first."""
        n, k = self.n, 6
        MA, F = [M.copy() for M in self.M], [np.zeros((6, k + n)) for _ in self.M]
        U, D, out = [None] * (n + 1), [0.0] * (n + 1), np.zeros((k + n, k + n))
        for i in reversed(self.bodies):
            G, row, above = self.Gamma[i][:, 0], 5 + i, self.above[i]
            U[i] = MA[i] @ G
            D[i] = G @ U[i]
            out[row] = -(G @ F[i]) / D[i]
            out[row, row] += 1.0 / D[i]
            F[above] += self.X[i].T @ (F[i] + np.outer(U[i], out[row]))
            MA[above] += self.X[i].T @ (MA[i] - np.outer(U[i], U[i]) / D[i]) @ self.X[i]
        base = np.linalg.inv(MA[0])
        P = [-base @ F[0], *[None] * n]
        P[0][:, :k] += base
        for i in self.bodies:
            G, row, carried = self.Gamma[i][:, 0], 5 + i, self.X[i] @ P[self.above[i]]
            out[row] -= U[i] @ carried / D[i]
            P[i] = np.outer(G, out[row]) + carried
        out[:k] = P[0]
        return out
