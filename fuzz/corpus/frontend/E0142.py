def f(accum):
    D = cast(accum, float32)
    return D