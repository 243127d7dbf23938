# SPDX-License-Identifier: Apache-2.0
# A step of beam search with 4 beams: of all continuations the 4 that are likeliest, and the caches of the beams that
# they continue. The likeliest one is looked for four times, each time among those that are left.
def likeliest(scores: f32["b", "n"]):
    score = max(scores, dim=1)
    place = min(where(scores >= score, arange(n), 2**62), dim=1)
    return score, place, where(arange(n) == place, -inf, scores)

def beam_search(hidden: f32["b", 4, 64], vocabulary: f32["v", 64], scores: f32["b", 4], cache: f32["b", 4, "t", 16]):
    all_scores = log_softmax(hidden @ transpose(vocabulary)) + scores[:, :, None]
    first, place0, rest0 = likeliest(reshape(all_scores, (b, 4 * v)))
    second, place1, rest1 = likeliest(rest0)
    third, place2, rest2 = likeliest(rest1)
    fourth, place3, rest3 = likeliest(rest2)
    new_scores = concat(first, second, third, fourth, dim=1)
    places = concat(place0, place1, place2, place3, dim=1)
    words = sum(ones(v, dtype=i64), keepdim=False)
    token = places % words
    beam = places // words
    new_cache = gather(cache, expand(beam[:, :, None, None], b, 4, t, 16), dim=1)
    return token, beam, new_scores, new_cache
