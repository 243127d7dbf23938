def f(accum, C):
    D = where(accum > 0 and C > 0, accum, C)
    return D