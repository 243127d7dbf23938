# SPDX-License-Identifier: Apache-2.0
"""Fused GEMMs on one NVIDIA GPU: ours against cuBLAS (through PyTorch), PyTorch eager and torch.compile, in turn, on the same tensors and
stream. Usage: suite.py BRIDGE.so [--rows 1,2,...] [--tune N] [--seconds S] [--compile] [--vendor] [--out FILE.md]

Every row: normal random data, results checked against float64 on a sample of rows, buffers rotated past twice the L2 cache where memory
is the limit, CUDA graphs replayed in turn, medians. A ratio is the best peer's time over ours. Ours are kernels of our own; --vendor adds
what is picked where those of cuBLASLt compete (tuned over the same number, if any)."""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time

import torch

F = torch.nn.functional
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int8: "i8", torch.int32: "i32"}


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 3), ("strides", ctypes.c_int64 * 3)]


class Scalar(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class Bridge:
    def __init__(self, path):
        self.code = ctypes.CDLL(path)
        self.code.bridge_prepare.restype = ctypes.c_void_p
        self.message = ctypes.create_string_buffer(8192)

    @staticmethod
    def items(tensors):
        items = (Tensor * len(tensors))()
        for item, (name, value) in zip(items, tensors.items()):
            pad = (0,) * (3 - value.dim())
            item.name, item.data, item.dtype, item.rank = name.encode(), value.data_ptr(), NAMES[value.dtype].encode(), value.dim()
            item.shape, item.strides = (ctypes.c_int64 * 3)(*value.shape, *pad), (ctypes.c_int64 * 3)(*value.stride(), *pad)
        return items

    @staticmethod
    def math(tensors):
        """What the peers are allowed: PyTorch multiplies float32 as TF32 here."""
        return b"tf32" if tensors["A"].dtype == torch.float32 else b"strict"

    def prepare(self, epilogue, tensors, only="", candidates=0, vendor=False):
        items, message = self.items(tensors), ctypes.create_string_buffer(8192)
        handle = self.code.bridge_prepare(epilogue.encode(), items, len(items), (Scalar * 0)(), 0, self.math(tensors), only.encode(), int(vendor), candidates, message, len(message))
        if not handle:
            raise RuntimeError(message.value.decode())
        return ctypes.c_void_p(handle)

    def kernels(self, epilogue, tensors):
        """Names and estimated microseconds, best first."""
        items, room = self.items(tensors), ctypes.create_string_buffer(1 << 16)
        if self.code.bridge_kernels(epilogue.encode(), items, len(items), self.math(tensors), room, len(room)):
            raise RuntimeError(room.value.decode())
        return [(line.split()[0], float(line.split()[1])) for line in room.value.decode().splitlines()]

    def run(self, handle):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if self.code.bridge_run(handle, stream, self.message, len(self.message)):
            raise RuntimeError(self.message.value.decode())

    def describe(self, handle):
        self.code.bridge_describe(handle, self.message, len(self.message))
        name, milliseconds = self.message.value.decode().split("\n")
        return name, float(milliseconds)


def one_line(name, parameters, *statements):
    return f"def {name}({', '.join(['accum', *parameters])}): " + "; ".join(statements)


# The epilogues: our text, the tensors that it takes (name -> shape of m, n and dtype), its outputs, and the same in PyTorch.

EPILOGUES = {
    "none": ("", {}, {"D": (lambda m, n: (m, n), None)}, lambda x, t: (x,)),
    "bias + ReLU": (one_line("f", ["bias"], "D = relu(accum + bias)", "return D"), {"bias": (lambda m, n: (n,), None)},
                    {"D": (lambda m, n: (m, n), None)}, lambda x, t: (F.relu(x + t["bias"]),)),
    "bias + GELU": (one_line("f", ["bias"], 'D = gelu(accum + bias, approximate="tanh")', "return D"), {"bias": (lambda m, n: (n,), None)},
                    {"D": (lambda m, n: (m, n), None)}, lambda x, t: (F.gelu(x + t["bias"], approximate="tanh"),)),
    "bias + sigmoid": (one_line("f", ["bias"], "D = sigmoid(accum + bias)", "return D"), {"bias": (lambda m, n: (n,), None)},
                       {"D": (lambda m, n: (m, n), None)}, lambda x, t: (torch.sigmoid(x + t["bias"]),)),
    "relu_aux_store": (one_line("f", ["C"], "F = accum * 0.5 + C * 2.0", "D = relu(F)", "return D, F"), {"C": (lambda m, n: (m, n), None)},
                       {"D": (lambda m, n: (m, n), None), "F": (lambda m, n: (m, n), None)},
                       lambda x, t: (lambda v: (F.relu(v), v))(x * 0.5 + t["C"] * 2.0)),
    "residual + row squares": (one_line("f", ["C"], "D = accum + C", "S = sum_of_squares(D, dim=-1)", "return D, S"), {"C": (lambda m, n: (m, n), None)},
                               {"D": (lambda m, n: (m, n), None), "S": (lambda m, n: (m, 1), torch.float32)},
                               lambda x, t: (lambda v: (v, v.float().square().sum(-1, keepdim=True)))(x + t["C"])),
    "residual": (one_line("f", ["C"], "D = accum + C", "return D"), {"C": (lambda m, n: (m, n), None)},
                 {"D": (lambda m, n: (m, n), None)}, lambda x, t: (x + t["C"],)),
    "SwiGLU": (one_line("f", [], "g, u = split(accum, 2, dim=-1)", "D = silu(g) * u", "return D"), {},
               {"D": (lambda m, n: (m, n // 2), None)}, lambda x, t: (lambda g, u: (F.silu(g) * u,))(*x.chunk(2, -1))),
    "bias + GELU + pre-activation": (one_line("f", ["bias"], "Z = accum + bias", 'D = gelu(Z, approximate="tanh")', "return D, Z"),
                                     {"bias": (lambda m, n: (n,), None)}, {"D": (lambda m, n: (m, n), None), "Z": (lambda m, n: (m, n), None)},
                                     lambda x, t: (lambda z: (F.gelu(z, approximate="tanh"), z))(x + t["bias"])),
    "dGELU + bias gradient": (one_line("f", ["Z"], 'D = accum * dgelu(Z, approximate="tanh")', 'G = sum(D, axis="column")', "return D, G"),
                              {"Z": (lambda m, n: (m, n), None)}, {"D": (lambda m, n: (m, n), None), "G": (lambda m, n: (n,), torch.float32)},
                              lambda x, t: (lambda d: (d, d.float().sum(0)))(torch.ops.aten.gelu_backward(x, t["Z"], approximate="tanh"))),
    "bias * layer scale + residual": (one_line("f", ["bias", "scale", "C"], "D = (accum + bias) * scale + C", "return D"),
                                      {"bias": (lambda m, n: (n,), None), "scale": (lambda m, n: (n,), None), "C": (lambda m, n: (m, n), None)},
                                      {"D": (lambda m, n: (m, n), None)}, lambda x, t: ((x + t["bias"]) * t["scale"] + t["C"],)),
    "accumulate f32": (one_line("f", ["C"], "D = C + accum", "return D"), {"C": (lambda m, n: (m, n), torch.float32)},
                       {"D": (lambda m, n: (m, n), torch.float32)}, lambda x, t: (x.float() + t["C"],)),
    "row x column dequantize + bias": (one_line("f", ["r", "c", "bias"], "D = accum * r * c + bias", "return D"),
                                       {"r": (lambda m, n: (m, 1), torch.float32), "c": (lambda m, n: (n,), torch.float32), "bias": (lambda m, n: (n,), torch.float32)},
                                       {"D": (lambda m, n: (m, n), torch.bfloat16)}, lambda x, t: ((x * t["r"] * t["c"] + t["bias"]).bfloat16(),)),
}

# number of the suite (0: none), m, n, k, dtype, epilogue, whether A lies as [K, M] and B as [N, K] (weights of torch.nn.Linear)
ROWS = [
    (1, 8192, 8192, 8192, torch.bfloat16, "none", False, False), (101, 4096, 4096, 4096, torch.bfloat16, "none", False, False),
    (102, 1024, 1024, 1024, torch.bfloat16, "none", False, False), (103, 4096, 2112, 7168, torch.bfloat16, "none", False, True),
    (2, 4096, 4096, 4096, torch.bfloat16, "bias + GELU", False, True), (3, 1024, 1024, 1024, torch.bfloat16, "bias + ReLU", False, True),
    (104, 4096, 4096, 4096, torch.bfloat16, "relu_aux_store", False, True), (105, 1024, 1024, 1024, torch.bfloat16, "relu_aux_store", False, True),
    (5, 4096, 4096, 4096, torch.bfloat16, "residual + row squares", False, True), (6, 4096, 28672, 4096, torch.bfloat16, "SwiGLU", False, True),
    (7, 4096, 4096, 14336, torch.bfloat16, "residual + row squares", False, True), (10, 16, 28672, 4096, torch.bfloat16, "SwiGLU", False, True),
    (11, 16, 4096, 14336, torch.bfloat16, "residual + row squares", False, True), (12, 64, 28672, 4096, torch.bfloat16, "SwiGLU", False, True),
    (13, 128, 4096, 4096, torch.bfloat16, "residual + row squares", False, True), (106, 16, 14336, 4096, torch.bfloat16, "none", False, True),
    (17, 32, 7168, 8192, torch.bfloat16, "SwiGLU", False, True), (18, 32, 8192, 3584, torch.bfloat16, "residual", False, True),
    (30, 4096, 4096, 1024, torch.bfloat16, "bias + GELU + pre-activation", False, True),
    (31, 4096, 4096, 1024, torch.bfloat16, "dGELU + bias gradient", False, False), (33, 12608, 4096, 1024, torch.bfloat16, "bias + GELU", False, True),
    (34, 12608, 1024, 4096, torch.bfloat16, "bias * layer scale + residual", False, True),
    (35, 4096, 1024, 12608, torch.bfloat16, "accumulate f32", True, False), (36, 65536, 512, 13, torch.bfloat16, "bias + ReLU", False, True),
    (37, 65536, 1024, 479, torch.bfloat16, "bias + ReLU", False, True), (38, 65536, 1, 256, torch.bfloat16, "bias + sigmoid", False, True),
    (39, 4096, 4096, 4096, torch.float32, "bias + ReLU", False, True), (40, 4096, 4096, 4096, torch.int8, "row x column dequantize + bias", False, True),
]


def random_of(shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype, device="cuda")
    return torch.randn(shape, device="cuda").to(dtype)


class Case:
    """One row's tensors, `copies` times, and ways to compute it as functions of a copy's number."""

    def __init__(self, m, n, k, dtype, name, a_columns, b_columns):
        text, parameters, outputs, reference = EPILOGUES[name]
        self.m, self.n, self.k, self.dtype, self.text, self.reference = m, n, k, dtype, text, reference
        bytes_once = (m * k + k * n + m * n) * torch.empty((), dtype=dtype).element_size()
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.copies = 1 if bytes_once > 8 * l2 else max(1, min(16, -(-2 * l2 // bytes_once) + 1))
        default = torch.bfloat16 if dtype == torch.int8 else dtype
        scale = (1 / k**0.5) if dtype.is_floating_point else 1
        self.sets = []
        for _ in range(self.copies):
            a = random_of((k, m), dtype).t() if a_columns else random_of((m, k), dtype)
            b = random_of((n, k), dtype).t() if b_columns else random_of((k, n), dtype)
            if dtype.is_floating_point:
                b = (b * scale).t().contiguous().t() if b_columns else b * scale
            tensors = {"A": a, "B": b}
            for key, (shape, kind) in parameters.items():
                tensors[key] = random_of(shape(m, n), kind or default)
            for key, (shape, kind) in outputs.items():
                tensors[key] = torch.full(shape(m, n), float("nan") if (kind or default).is_floating_point else 77, dtype=kind or default, device="cuda")
            self.sets.append(tensors)
        self.outputs = list(outputs)

    def poison(self):
        for key in self.outputs:
            self.sets[0][key].fill_(float("nan") if self.sets[0][key].is_floating_point() else 77)

    def product(self, t):
        if self.dtype == torch.int8:
            return torch._int_mm(t["A"], t["B"])
        return t["A"] @ t["B"]

    def eager(self, i):
        return self.reference(self.product(self.sets[i]), self.sets[i])

    def check(self):
        """The largest error over 64 sampled rows, relative to the largest true value; reductions over rows need the whole and are checked whole."""
        t = self.sets[0]
        rows = torch.randperm(self.m, device="cuda")[:64]
        x = t["A"][rows].double() @ t["B"].double()
        part = {key: (v[rows] if v.dim() == 2 and v.shape[0] == self.m else v).double() for key, v in t.items() if key not in ("A", "B") and key not in self.outputs}
        errors = []
        for key, true in zip(self.outputs, self.reference(x, part)):
            got = t[key]
            if got.dim() == 1:  # over all rows
                true, got = self.reference(t["A"].double() @ t["B"].double(), {k: v.double() for k, v in t.items()})[self.outputs.index(key)].double(), got.double()
            else:
                got = got[rows].double()
            errors.append(((got - true.double()).abs().max() / true.double().abs().max()).item())
        return max(errors)


def graph_of(call, copies):
    """All copies in one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(copies):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(copies):
            call(i)
    return graph


def measure(graphs, copies, seconds, least=50):
    """Medians of microseconds a call, the graphs replayed in turn."""
    times = {name: [] for name in graphs}
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(next(iter(times.values()))) < least:
        for name, graph in graphs.items():
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e3 / copies)
        if time.monotonic() > until + 3 * seconds:
            break
    return {name: statistics.median(values[len(values) // 5:]) for name, values in times.items()}


def parser_of_rows():
    parser = argparse.ArgumentParser()
    parser.add_argument("bridge")
    parser.add_argument("--rows", default="")
    parser.add_argument("--seconds", type=float, default=1.0)
    return parser


def start(options):
    """The bridge, and whether a row is asked for; PyTorch's products as its users have them."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    wanted = {int(x) for x in options.rows.split(",") if x}
    return Bridge(options.bridge), lambda number: not wanted or number in wanted


def main():
    parser = parser_of_rows()
    parser.add_argument("--tune", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="add torch.compile (inductor) as a peer")
    parser.add_argument("--vendor", action="store_true", help="add a column with the vendor family among our candidates")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    bridge, wanted = start(options)
    lines = []
    head = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=os.path.dirname(os.path.abspath(__file__))).stdout.strip()
    lines += [head + (f", commit {commit}" if commit else ""), "", "| row | M x N x K | dtype | epilogue | ours us | kernel | tuned us | with vendor us | cuBLAS alone | eager | compiled | best peer / ours | / tuned | / with vendor | error |",
              "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    for number, m, n, k, dtype, name, a_columns, b_columns in ROWS:
        if not wanted(number):
            continue
        cells = [str(number), f"{m} x {n} x {k}", NAMES[dtype], name]
        try:
            case = Case(m, n, k, dtype, name, a_columns, b_columns)
            handles = [bridge.prepare(case.text, t) for t in case.sets]
            kernel, milliseconds = bridge.describe(handles[0])
            graphs = {"ours": graph_of(lambda i: bridge.run(handles[i]), case.copies)}
            torch.cuda.synchronize()
            error = case.check()
            chosen = ""
            if options.tune > 0:
                tuned = [bridge.prepare(case.text, t, candidates=options.tune if i == 0 else 0) for i, t in enumerate(case.sets)]
                chosen = bridge.describe(tuned[0])[0]
                if chosen != kernel:
                    graphs["tuned"] = graph_of(lambda i: bridge.run(tuned[i]), case.copies)
                handles += tuned
            with_vendor = ""
            if options.vendor:
                both = [bridge.prepare(case.text, t, vendor=True, candidates=options.tune if i == 0 else 0) for i, t in enumerate(case.sets)]
                with_vendor = bridge.describe(both[0])[0]
                if with_vendor not in (kernel, chosen):
                    case.poison()
                    graphs["with vendor"] = graph_of(lambda i: bridge.run(both[i]), case.copies)
                    torch.cuda.synchronize()
                    error = max(error, case.check())
                handles += both
            graphs["cuBLAS alone"] = graph_of(lambda i: case.product(case.sets[i]), case.copies)
            graphs["eager"] = graph_of(case.eager, case.copies)
            if options.compile and name != "none":
                try:
                    torch._dynamo.reset()
                    compiled = torch.compile(lambda t: case.reference(case.product(t), t))
                    graphs["compiled"] = graph_of(lambda i: compiled(case.sets[i]), case.copies)
                except Exception:  # a peer that fails is no peer of this row
                    torch.cuda.synchronize()
            took = measure(graphs, case.copies, options.seconds)
            peer = min(took[x] for x in took if x not in ("ours", "tuned", "with vendor", "cuBLAS alone")) if name != "none" else took["cuBLAS alone"]
            best = min(took["ours"], took.get("tuned", took["ours"]))
            # The same kernel is not timed twice.
            third = took.get("with vendor", took.get("tuned", took["ours"]) if with_vendor == chosen else took["ours"])
            cells += [f"{took['ours']:.2f}", kernel.removeprefix("cuda_").removesuffix("_sm_90a"),
                      f"{best:.2f} {chosen.removeprefix('cuda_').removesuffix('_sm_90a')}" if "tuned" in took else "",
                      f"{third:.2f} {with_vendor.removeprefix('cuda_').removesuffix('_sm_90a')}" if options.vendor else "", f"{took['cuBLAS alone']:.2f}", f"{took['eager']:.2f}",
                      f"{took['compiled']:.2f}" if "compiled" in took else "", f"{peer / took['ours']:.3f}", f"{peer / best:.3f}", f"{peer / third:.3f}" if options.vendor else "", f"{error:.1e}"]
            for handle in handles:
                bridge.code.bridge_release(handle)
            del graphs, case
        except Exception as problem:  # a row that cannot run is shown as such; the others go on
            cells += [" ".join(str(problem).split())[:160].replace("|", "/")]
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if options.out:
        with open(options.out, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
