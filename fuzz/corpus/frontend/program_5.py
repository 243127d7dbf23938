def f(q: bf16["b", 4, "s", 16], k: bf16["b", 4, "t", 16], v: bf16["b", 4, "t", 16]):
    p = softmax(q @ transpose(k) * 0.25)
    o = cast(p, bf16) @ v
    y = reshape(transpose(o, 1, 2), ("b", s, -1))
    return y
