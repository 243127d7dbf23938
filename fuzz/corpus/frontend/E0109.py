def f(accum):
    D = accum * 9223372036854775808
    return D