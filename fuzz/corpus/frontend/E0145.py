def f(accum):
    D = softmax(accum)
    return D