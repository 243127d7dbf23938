def f(accum, C):
    D = relu(accum + C
    return D