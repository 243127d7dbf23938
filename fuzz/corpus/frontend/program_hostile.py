def f(x: f32["n"]):
    y = call_extern("a\"); system(\"x", x, out=("f32[n", "i64[n,,]"))
    return y
