# SPDX-License-Identifier: Apache-2.0
# Two stages of a network on two devices, for a batch in two halves: while the second stage works on the first half, the
# first stage works on the other. The weights of the second stage are used on device 1 alone, so they lie there from the
# start; what is brought there in a run is what the first stage makes.
def stage(x, g, up, down):
    h = silu(rms_norm(x, g) @ up)
    y = x + h @ down
    return y

def two_devices(x: f32["m", 256], g0: f32[256], up0: f32[256, 768], down0: f32[768, 256],
                g1: f32[256], up1: f32[256, 768], down1: f32[768, 256]):
    a0 = stage(x[:m // 2], g0, up0, down0)
    b0 = stage(x[m // 2:], g0, up0, down0)
    with device(1):
        a1 = stage(a0, g1, up1, down1)
        b1 = stage(b0, g1, up1, down1)
        y = concat(a1, b1, dim=0)
    return y
