def f(x: f32[4, 4]):
    D = relu(x)
    return D