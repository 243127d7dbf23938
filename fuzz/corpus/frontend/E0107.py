def f(accum):
    D = relu(accum)
      E = D
    return D