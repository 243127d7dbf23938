def f(accum):
    D = accum * x
    return D