def f(accum):
    a, b = split(accum, 3)
    D = a + b
    return D