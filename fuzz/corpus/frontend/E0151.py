def f(accum, C):
    D = accum @ C
    return D