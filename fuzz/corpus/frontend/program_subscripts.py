def f(x: f32["n", 8]):
    y = x[:::, [1], ...:2, None:None, 9**9, -n:]
    x[0] = y
    return y
