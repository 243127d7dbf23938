def f(accum):
    D = accum * 2x
    return D