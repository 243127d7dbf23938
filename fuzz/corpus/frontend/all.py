def swish(x, beta):
    y = x * beta
    return x * sigmoid(y)
def pair(x): return x + 1.0, x - 1.0
def f(accum, C: f32, s):
    """Doc"""
    hi, lo = pair(swish(beta=C, x=accum))
    a, _ = split(reshape(permute(hi, indices=(1, 0)), (-1, "n", 4)), 2, dim=-1)
    E = join(a, a, dim=0, interleave=True); G = cast(a, "bf16") // 3 % s
    D = where((accum > 0) & ~(lo <= -2.5e-3), gelu(accum, approximate="tanh"), clamp(C, max=-inf)) ** -2
    R = sum(D, axis="row") + max(D, dim=(0, -1)) - softplus(D, threshold=0x1f)
    return D, E, G, R, accum
