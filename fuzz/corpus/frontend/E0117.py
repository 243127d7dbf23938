def f(accum, C):
    D = relu(accum)
    D += C
    return D