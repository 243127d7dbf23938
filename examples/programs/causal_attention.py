# SPDX-License-Identifier: Apache-2.0
# Attention of each row to itself and to those before it, scores in 16 bits: on GPUs the product stores them as they are,
# and scale and mask are applied where they are read.
def causal_attention(q: bf16["heads", "s", 64], k: bf16["heads", "s", 64], v: bf16["heads", "s", 64]):
    scores = cast(q @ transpose(k), bf16)
    seen = reshape(arange(s), (1, s)) <= reshape(arange(s), (s, 1))
    weights = cast(softmax(where(seen, scores * 0.125, -inf)), bf16)
    context = cast(weights @ v, bf16)
    return context
