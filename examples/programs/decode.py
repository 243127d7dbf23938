# SPDX-License-Identifier: Apache-2.0
# One token of a decoder's attention for each sequence of a batch: its key and value take their place in the caches. Where
# the caller passes these as results, too, nothing else of them is written. What is a factor of a product is cast to 16
# bits: sums are f32, and so would the product be.
def decode(
    x: bf16["b", 256],
    place: i64[1],
    keys: bf16["b", "t", 4, 64],
    values: bf16["b", "t", 4, 64],
    norm: bf16[256],
    wq: bf16[256, 256],
    wk: bf16[256, 256],
    wv: bf16[256, 256],
    wo: bf16[256, 256],
):
    h = cast(rms_norm(x, norm), bf16)
    q = reshape(cast(h @ wq, bf16), (b, 4, 1, 64))
    new_keys = index_put(keys, place, reshape(cast(h @ wk, bf16), (b, 1, 4, 64)), dim=1)
    new_values = index_put(values, place, reshape(cast(h @ wv, bf16), (b, 1, 4, 64)), dim=1)
    scores = q @ permute(new_keys, (0, 2, 3, 1)) * 0.125
    weights = cast(softmax(where(arange(t) <= place, scores, -inf)), bf16)
    context = cast(weights @ permute(new_values, (0, 2, 1, 3)), bf16)
    y = cast(x + reshape(context, (b, 256)) @ wo, bf16)
    return y, new_keys, new_values
