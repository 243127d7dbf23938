def f(accum, C):
    D = accum << 2 + C
    return D