def norm(x, w):
    scaled = rms_norm(x, w)
    return scaled, -scaled
def f(x: f32["b", "s", 64], w: f32[64], p: f32[64, 64]):
    a, b = norm(x, w)
    c, d = norm(a @ p, w)
    y = b + c * d
    return y
