def f(accum, C):
    relu(accum)
    D = accum + C
    return D