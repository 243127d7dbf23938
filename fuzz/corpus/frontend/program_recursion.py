def g(x):
    return cond(max(x) > 0.0, g, g, x)
def f(x: f32[8]):
    y = g(x)
    return y
