def f(accum, C):
    D = accum + [C, C]
    return D