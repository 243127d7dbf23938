def f(accum):
    "doc
    D = relu(accum)
    return D