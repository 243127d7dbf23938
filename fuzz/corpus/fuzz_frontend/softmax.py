# SPDX-License-Identifier: Apache-2.0
# A whole softmax over each row, and its logarithmic normalizer.
# bind: inverse_temperature=scalar:0.125 D=out[M,N]:T normalizer=out[M,1]:f32 types=f32,bf16
def scaled_softmax(accum, inverse_temperature):
    scores = accum * inverse_temperature
    normalizer = logsumexp(scores, axis="row")
    D = exp(scores - normalizer)
    return D, normalizer
