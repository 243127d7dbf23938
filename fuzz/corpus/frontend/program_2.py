def more(i, x, r):
    return (i < 10) & (sum(r * r) > 1e-6)
def inner(x):
    return x * 0.5
def keep(x):
    return x
def step(i, x, r):
    d = cond(i % 2 == 0, inner, keep, r)
    return i + 1, x + d, r - d
def f(b: f32["n", 1]):
    i, x, r = while_loop(more, step, 0, zeros(n, 1), b)
    y = x + i
    return y, r
