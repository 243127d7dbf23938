def f(accum):
    D = rleu(accum)
    return D