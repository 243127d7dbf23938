def f(accum, C):
    D = accum if C > 0 else 0.0
    return D