# SPDX-License-Identifier: Apache-2.0
# Rows that count stand in front of a batch: the product is over those alone, whose number the run computes, and the rest of the result is 0.
def ragged(x: f32["n", 64], keep: bool["n"], w: f32[64, 32], bias: f32[32]):
    count = sum(cast(keep, i64), keepdim=False)
    y = relu(x[:count] @ w + bias)
    out = concat(y, zeros(n - count, 32), dim=0)
    return out, count
