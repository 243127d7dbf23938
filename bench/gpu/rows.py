# SPDX-License-Identifier: Apache-2.0
"""The rows of the benchmark suite: problems, their epilogues in our text, and the same in PyTorch."""
import typing

import torch

F = torch.nn.functional
E4M3 = torch.float8_e4m3fn


def one_line(name, parameters, *statements):
    return f"def {name}({', '.join(['accum', *parameters])}): " + "; ".join(statements)


class Epilogue(typing.NamedTuple):
    text: str
    parameters: dict  # name: the shape, a function of m and n, and the dtype (None: the factors', bf16 beside 8-bit ones)
    outputs: dict  # the same
    reference: typing.Callable  # of the product and the tensors: the outputs, in PyTorch
    menu: typing.Callable | None = None  # of the tensors: the whole by an epilogue of cuBLASLt's own
    peer: typing.Callable | None = None  # where PyTorch's users write it otherwise than `reference`


def full(m, n):
    return (m, n)


def row(m, n):
    return (n,)


def column(m, n):
    return (m, 1)


def one(m, n):
    return (1,)


def halves(m, n):
    return (m, n // 2)


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def to_e4m3(x):
    """Saturating, as stores are here; a reference in float64 is rounded as well, since a step is larger than what is judged."""
    x = x.clamp(-448, 448)
    return x.float().to(E4M3).to(x.dtype) if x.dtype == torch.float64 else x.to(E4M3)


def turned(x, y, t):
    return x * t["cosines"] - y * t["sines"], y * t["cosines"] + x * t["sines"]


def rope(x, t, heads=40):
    """Rotary embedding of the first heads of 128 columns; those behind are the values."""
    x = x.unflatten(-1, (-1, 128))
    parts = turned(*x[:, :heads].chunk(2, -1), t)
    return torch.cat([torch.cat(parts, -1).to(x.dtype), x[:, heads:]], 1).flatten(1)


def norm_rope(x, t, heads=72):
    """The same of items that are heads, whose rows are normed before."""
    v = x[:heads]
    v = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-5) * t["w"][:heads]
    return torch.cat([torch.cat(turned(*v.chunk(2, -1), t), -1).to(x.dtype), x[heads:]])


DROPPED = "dropout(accum + bias, 0.1, 7)"
MASK = one_line("mask", [], "D = dropout(accum * 0.0 + 1.0, 0.1, 7)", "return D")  # the mask depends on seed and element only
ROPE = one_line("f", ["cosines", "sines"], "x, y = split(reshape(accum, (-1, 48, 128)), 2, dim=-1)",
                "turned = reshape(join(x * cosines - y * sines, y * cosines + x * sines, dim=-1), (-1, 6144))", "D = where(col_index() < 5120, turned, accum)", "return D")
HEADS = one_line("f", ["w", "cosines", "sines"], "r = accum * rsqrt(mean(accum * accum, dim=-1) + 0.00001) * w", "x, y = split(r, 2, dim=-1)",
                 "turned = join(x * cosines - y * sines, y * cosines + x * sines, dim=-1)", "D = where(batch_index() < 72, turned, accum)", "return D")
ANGLES = {"cosines": (lambda m, n: (m, 1, 64), torch.float32), "sines": (lambda m, n: (m, 1, 64), torch.float32)}
SCALES = {"r": (column, torch.float32), "c": (row, torch.float32)}


def statistics_of(v):
    return v, v.float().sum(-1, keepdim=True), v.float().square().sum(-1, keepdim=True)


EPILOGUES = {
    "none": Epilogue("", {}, {"D": (full, None)}, lambda x, t: (x,)),
    "bias + ReLU": Epilogue(one_line("f", ["bias"], "D = relu(accum + bias)", "return D"), {"bias": (row, None)}, {"D": (full, None)},
                            lambda x, t: (F.relu(x + t["bias"]),), lambda t: torch._addmm_activation(t["bias"], t["A"], t["B"])),
    "bias + GELU": Epilogue(one_line("f", ["bias"], 'D = gelu(accum + bias, approximate="tanh")', "return D"), {"bias": (row, None)}, {"D": (full, None)},
                            lambda x, t: (F.gelu(x + t["bias"], approximate="tanh"),), lambda t: torch._addmm_activation(t["bias"], t["A"], t["B"], use_gelu=True)),
    "bias + sigmoid": Epilogue(one_line("f", ["bias"], "D = sigmoid(accum + bias)", "return D"), {"bias": (row, None)}, {"D": (full, None)},
                               lambda x, t: (torch.sigmoid(x + t["bias"]),)),
    "relu_aux_store": Epilogue(one_line("f", ["C"], "F = accum * 0.5 + C * 2.0", "D = relu(F)", "return D, F"), {"C": (full, None)}, {"D": (full, None), "F": (full, None)},
                               lambda x, t: (lambda v: (F.relu(v), v))(x * 0.5 + t["C"] * 2.0)),
    "residual + row squares": Epilogue(one_line("f", ["C"], "D = accum + C", "S = sum_of_squares(D, dim=-1)", "return D, S"), {"C": (full, None)},
                                       {"D": (full, None), "S": (column, torch.float32)}, lambda x, t: (lambda v: (v, v.float().square().sum(-1, keepdim=True)))(x + t["C"])),
    "residual": Epilogue(one_line("f", ["C"], "D = accum + C", "return D"), {"C": (full, None)}, {"D": (full, None)}, lambda x, t: (x + t["C"],),
                         lambda t: torch.addmm(t["C"], t["A"], t["B"])),
    "SwiGLU": Epilogue(one_line("f", [], "g, u = split(accum, 2, dim=-1)", "D = silu(g) * u", "return D"), {}, {"D": (halves, None)}, lambda x, t: (swiglu(x),)),
    "RoPE": Epilogue(ROPE, ANGLES, {"D": (full, None)}, lambda x, t: (rope(x, t),)),
    "head norms + RoPE": Epilogue(HEADS, {"w": (lambda m, n: (80, 1, n), None), "cosines": (halves, torch.float32), "sines": (halves, torch.float32)}, {"D": (full, None)},
                                  lambda x, t: (norm_rope(x, t),)),
    "logsumexp + target": Epilogue(one_line("f", ["target"], 'L = logsumexp(accum, axis="row")', 'T = sum(where(col_index() == target, accum, 0.0), axis="row")', "return L, T"),
                                   {"target": (column, torch.int64)}, {"L": (column, torch.float32), "T": (column, torch.float32)},
                                   lambda x, t: (torch.logsumexp(x.float() if x.dtype == torch.bfloat16 else x, -1, keepdim=True), x.gather(-1, t["target"].long()).float())),
    "bias + dropout + residual + row statistics": Epilogue(
        one_line("f", ["bias", "C"], f"D = {DROPPED} + C", "S = sum(D, dim=-1)", "Q = sum_of_squares(D, dim=-1)", "return D, S, Q"), {"bias": (row, None), "C": (full, None)},
        {"D": (full, None), "S": (column, torch.float32), "Q": (column, torch.float32)}, lambda x, t: statistics_of((x + t["bias"]) * t["mask"] + t["C"]),
        peer=lambda x, t: statistics_of(F.dropout(x + t["bias"], 0.1) + t["C"])),
    "bias + GELU + pre-activation": Epilogue(one_line("f", ["bias"], "Z = accum + bias", 'D = gelu(Z, approximate="tanh")', "return D, Z"), {"bias": (row, None)},
                                             {"D": (full, None), "Z": (full, None)}, lambda x, t: (lambda z: (F.gelu(z, approximate="tanh"), z))(x + t["bias"])),
    "dGELU + bias gradient": Epilogue(one_line("f", ["Z"], 'D = accum * dgelu(Z, approximate="tanh")', 'G = sum(D, axis="column")', "return D, G"), {"Z": (full, None)},
                                      {"D": (full, None), "G": (row, torch.float32)},
                                      lambda x, t: (lambda d: (d, d.float().sum(0)))(torch.ops.aten.gelu_backward(x, t["Z"], approximate="tanh"))),
    "bias * layer scale + residual": Epilogue(one_line("f", ["bias", "scale", "C"], "D = (accum + bias) * scale + C", "return D"),
                                              {"bias": (row, None), "scale": (row, None), "C": (full, None)}, {"D": (full, None)},
                                              lambda x, t: ((x + t["bias"]) * t["scale"] + t["C"],)),
    "accumulate f32": Epilogue(one_line("f", ["C"], "D = C + accum", "return D"), {"C": (full, torch.float32)}, {"D": (full, torch.float32)}, lambda x, t: (x.float() + t["C"],),
                               lambda t: torch.addmm(t["C"], t["A"], t["B"], out_dtype=torch.float32)),
    "row x column dequantize + bias": Epilogue(one_line("f", ["r", "c", "bias"], "D = accum * r * c + bias", "return D"), {**SCALES, "bias": (row, torch.float32)},
                                               {"D": (full, torch.bfloat16)}, lambda x, t: ((x * t["r"] * t["c"] + t["bias"]).bfloat16(),)),
    # Peers scale in the product's own call.
    "row x column scales": Epilogue(one_line("f", ["r", "c"], "D = accum * r * c", "return D"), SCALES, {"D": (full, torch.bfloat16)},
                                    lambda x, t: (x * t["r"] * t["c"],), peer=lambda x, t: (x,)),
    "row x column scales, SwiGLU, amax": Epilogue(
        one_line("f", ["r", "c"], "g, u = split(accum * r * c, 2, dim=-1)", "y = silu(g) * u", "L = amax(y)", "D = y * 8.0", "return D, L"), SCALES,
        {"D": (halves, E4M3), "L": (one, torch.float32)}, lambda x, t: (lambda y: (to_e4m3(y * 8.0), y.abs().max().reshape(1)))(swiglu(x * t["r"] * t["c"])),
        peer=lambda x, t: (lambda y: (to_e4m3(y * 8.0), y.abs().max().float().reshape(1)))(swiglu(x.float()))),
    "row x column scales, SwiGLU": Epilogue(
        one_line("f", ["r", "c"], "g, u = split(accum * r * c, 2, dim=-1)", "D = silu(g) * u * 8.0", "return D"), SCALES, {"D": (halves, E4M3)},
        lambda x, t: (to_e4m3(swiglu(x * t["r"] * t["c"]) * 8.0),), peer=lambda x, t: (to_e4m3(swiglu(x.float()) * 8.0),)),
}


class Row(typing.NamedTuple):
    number: int  # of the suite; above 100: not the suite's
    m: int
    n: int
    k: int
    dtype: torch.dtype
    epilogue: str
    a_columns: bool = False  # A lies as [K, M]
    b_columns: bool = True  # B lies as [N, K], as weights of torch.nn.Linear do
    fusion: float = 0  # at most so many times as fast as the product and one kernel for the rest: by the bytes that are saved
    batch: int = 0
    one_a: bool = False  # all items read one A
    fast: bool = False  # sums of 8-bit floats as the tensor cores make them, else of 128 products


def rows_of(dtype, *rows):
    return [Row(number, m, n, k, dtype, *rest) for number, m, n, k, *rest in rows]


ROWS = [
    *rows_of(torch.bfloat16, (1, 8192, 8192, 8192, "none", False, False), (101, 4096, 4096, 4096, "none", False, False), (102, 1024, 1024, 1024, "none", False, False),
             (103, 4096, 2112, 7168, "none"), (2, 4096, 4096, 4096, "bias + GELU"), (3, 1024, 1024, 1024, "bias + ReLU"),
             (104, 4096, 4096, 4096, "relu_aux_store"), (105, 1024, 1024, 1024, "relu_aux_store"), (4, 4096, 6144, 4096, "RoPE", False, True, 1.14),
             (5, 4096, 4096, 4096, "residual + row squares", False, True, 1.14), (6, 4096, 28672, 4096, "SwiGLU", False, True, 1.13),
             (7, 4096, 4096, 14336, "residual + row squares", False, True, 1.04), (8, 512, 128256, 4096, "logsumexp + target", False, True, 1.13),
             (9, 1, 6144, 4096, "RoPE", False, True, 1.15), (10, 16, 28672, 4096, "SwiGLU", False, True, 1.04), (11, 16, 4096, 14336, "residual + row squares", False, True, 1.06),
             (12, 64, 28672, 4096, "SwiGLU", False, True, 1.05), (13, 128, 4096, 4096, "residual + row squares", False, True, 1.24), (106, 16, 14336, 4096, "none")),
    Row(14, 2048, 128, 8192, torch.bfloat16, "head norms + RoPE", fusion=1.07, batch=80, one_a=True),
    *rows_of(torch.bfloat16, (15, 2048, 57344, 8192, "SwiGLU", False, True, 1.07), (16, 2048, 8192, 28672, "residual + row squares", False, True, 1.02),
             (17, 32, 7168, 8192, "SwiGLU", False, True, 1.07), (18, 32, 8192, 3584, "residual", False, True, 1.13)),
    Row(19, 2048, 57344, 8192, E4M3, "row x column scales, SwiGLU, amax", fusion=1.12, fast=True),
    Row(119, 2048, 57344, 8192, E4M3, "row x column scales, SwiGLU, amax", fusion=1.12),
    Row(20, 16, 57344, 8192, E4M3, "row x column scales, SwiGLU", fusion=1.02, fast=True),
    Row(120, 16, 57344, 8192, E4M3, "row x column scales, SwiGLU", fusion=1.02),
    Row(121, 4096, 4096, 4096, E4M3, "row x column scales", fast=True),
    Row(122, 4096, 4096, 4096, E4M3, "row x column scales"),
    Row(28, 1024, 28672, 4096, torch.bfloat16, "SwiGLU", fusion=1.13, batch=8),
    *rows_of(torch.bfloat16, (30, 4096, 4096, 1024, "bias + GELU + pre-activation", False, True, 1.58), (31, 4096, 4096, 1024, "dGELU + bias gradient", False, False, 1.58),
             (32, 4096, 768, 3072, "bias + dropout + residual + row statistics", False, True, 1.20), (33, 12608, 4096, 1024, "bias + GELU", False, True, 1.54),
             (34, 12608, 1024, 4096, "bias * layer scale + residual", False, True, 1.09), (35, 4096, 1024, 12608, "accumulate f32", True, False, 1.04),
             (36, 65536, 512, 13, "bias + ReLU", False, True, 3.06), (37, 65536, 1024, 479, "bias + ReLU", False, True, 2.14),
             (38, 65536, 1, 256, "bias + sigmoid", False, True, 1.23)),
    Row(39, 4096, 4096, 4096, torch.float32, "bias + ReLU", fusion=1.08), Row(40, 4096, 4096, 4096, torch.int8, "row x column dequantize + bias", fusion=1.27),
]
