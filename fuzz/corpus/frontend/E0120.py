def f(accum, C):
    D = accum + C * "alpha"
    return D