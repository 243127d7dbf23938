def f(accum):
    D = f(accum)
    return D