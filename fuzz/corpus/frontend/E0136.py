def f(accum):
    D = gelu(accum, aproximate="tanh")
    return D