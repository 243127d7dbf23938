def f(accum, alpha, C):
    D = accum + C
    return D