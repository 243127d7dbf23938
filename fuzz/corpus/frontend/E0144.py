def f(x, w: f32[4, 4]):
    D = x @ w
    return D