def f(accum, C):
    D = where(0 < accum < C, accum, C)
    return D