# SPDX-License-Identifier: Apache-2.0
# Softmax attention over a batch of heads: two kernels, the softmax in the first product's epilogue.
def attention(q: f32["heads", "s", 64], k: f32["heads", "t", 64], v: f32["heads", "t", 64]):
    scores = softmax(q @ transpose(k) * 0.125)
    context = scores @ v
    return context
