def f(accum, C):
    if C > 0:
        D = accum
    else:
        D = C
    return D