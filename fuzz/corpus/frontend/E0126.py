def f(accum, C):
    D = accum + C