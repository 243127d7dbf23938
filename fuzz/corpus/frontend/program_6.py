def f(x: i32["n"], e: f32["v", 32]):
    h = embedding(e, x)
    pos = arange(n)
    y = h * unsqueeze(cast(pos, f32), 1) + full(0.5, n, 1)
    m = max(y, dim=(0, 1), keepdim=False)
    return y, m
