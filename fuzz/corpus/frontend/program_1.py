def up(x, y):
    return x * 2.0, y
def down(x, unused):
    return x / 2.0, zeros(3)
def f(p: bool[1, 1], x: f32["n"], y: f32[3]):
    a, b = cond(p, up, down, x, y)
    return a, b
