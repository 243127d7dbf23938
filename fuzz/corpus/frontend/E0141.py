def f(accum):
    D = relu(accum)
    return D
def f(accum):
    return accum