def f(accum):
    D = relu(lambda x: x)
    return D