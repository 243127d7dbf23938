# SPDX-License-Identifier: Apache-2.0
# A linear layer with a low-rank update: the update's second product takes the layer's result and the scale in its epilogue.
def lora(x: f32["batch", 256], w: f32[256, 512], down: f32[256, 8], up: f32[8, 512], scale: f32):
    base = x @ w
    y = base + ((x @ down) @ up) * scale
    return y
