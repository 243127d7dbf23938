def f(accum):
    D = clamp(accum, 0.0, min=1.0)
    return D