def f(accum, C):
    tmp = accum + C
    tmp = relu(tmp)
    D = tmp
    return D