# SPDX-License-Identifier: Apache-2.0
# RMS norm and a gated MLP: the gate is multiplied where the second product ends.
def swiglu(x: f32["m", 256], g: f32[256], w_gate: f32[256, 768], w_up: f32[256, 768], w_down: f32[768, 256]):
    n = rms_norm(x, g)
    y = x + silu(n @ w_gate) * (n @ w_up) @ w_down
    return y
