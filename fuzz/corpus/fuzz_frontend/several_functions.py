# SPDX-License-Identifier: Apache-2.0
# Functions of the text are inlined; the last one is the epilogue.
# bind: bias=tensor[N]:T residual=tensor[M,N]:T D=out[M,N]:T types=f32,bf16
def soft_cap(x, limit):
    """Keeps x within (-limit, limit), smoothly."""
    y = limit * tanh(x / limit)
    return y


def blend(x, y, weight):
    z = multiply_add(weight, x - y, y)
    return z


def epilogue(accum, bias, residual):
    capped = soft_cap(accum + bias, 30.0)  # as in models that cap their logits
    D = blend(mish(capped), residual, 0.75)
    return D
