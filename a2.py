def f(q: bf16["b", "s", 64], k: bf16["b", "s", 64], v: bf16["b", "s", 64]):
    scores = cast(q @ transpose(k), bf16)
    t = scores * 0.125
    m = max(t)
    e = exp(t - m)
    d = sum(e)
    y = cast(e / d, bf16) @ v
    return y, d
