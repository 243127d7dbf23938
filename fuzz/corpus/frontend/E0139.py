def f(accum):
    D = gelu(accum, approximate="fast")
    return D