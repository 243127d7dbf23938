def f(accum, C):
    C = accum + C
    return C