def f(accum):
    D = relu(accum, accum)
    return D