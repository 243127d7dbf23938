def f(accum, alpha=1.0):
    D = accum * alpha
    return D