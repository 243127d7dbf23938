def f(accum, C):
    D = accum + C[:, None]
    return D