def f(accum):
    return relu(accum)