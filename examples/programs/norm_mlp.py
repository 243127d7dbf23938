# SPDX-License-Identifier: Apache-2.0
# Layer norm in front of an MLP with a residual: the norm is a kernel of its own, everything else is an epilogue.
def norm_mlp(x: f32["m", 256], g: f32[256], b: f32[256], w1: f32[256, 1024], b1: f32[1024], w2: f32[1024, 256]):
    hidden = gelu(layer_norm(x, g, b) @ w1 + b1)
    y = x + hidden @ w2
    return y
