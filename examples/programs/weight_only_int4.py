# SPDX-License-Identifier: Apache-2.0
# A layer whose weights have four bits: two rows in a byte, with a scale and a zero point for every 32 rows of a column.
def weight_only_int4(
    x: f32["m", 256],
    packed: u8[128, 512],
    scales: f32[8, 1, 512],
    points: u8[8, 1, 512],
    bias: f32[512],
):
    rows = join(packed % 16, packed // 16, dim=0, interleave=True)
    groups = (cast(reshape(rows, (8, 32, 512)), f32) - cast(points, f32)) * scales
    y = gelu(x @ reshape(groups, (256, 512)) + bias)
    return y
