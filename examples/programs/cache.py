# SPDX-License-Identifier: Apache-2.0
# One step of attention over a cache: the new key and value take the place of an older one, and the cache lives on.
def cache(x: f32[1, 64], place: i64[1], wq: f32[64, 64], wk: f32[64, 64], wv: f32[64, 64], keys: f32["s", 64], values: f32["s", 64]):
    new_keys = index_put(keys, place, x @ wk)
    new_values = index_put(values, place, x @ wv)
    weights = softmax((x @ wq) @ transpose(new_keys) * 0.125)
    y = weights @ new_values
    return y, new_keys, new_values
