def f(alpha, C):
    D = alpha * C
    return D