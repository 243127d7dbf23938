# SPDX-License-Identifier: Apache-2.0
"""Fused GEMMs on one NVIDIA GPU: ours against cuBLAS (through PyTorch), cuBLASLt's own epilogue where it has this one, PyTorch eager and
torch.compile, in turn, on the same tensors and stream.
Usage: suite.py BRIDGE.so [--rows 1,2,...] [--tune N] [--seconds S] [--compile] [--autotune] [--vendor] [--stream] [--out FILE.md]

Every row: normal random data, results checked against float64 on a sample of rows, buffers rotated past twice the L2 cache where memory
is the limit, CUDA graphs of 24 calls or half a millisecond replayed in turn and in random order, medians. A ratio is the best peer's time over ours. Ours are kernels of our own; --vendor adds
what is picked where those of cuBLASLt compete (tuned over the same number, if any). --compile adds torch.compile by its defaults, --autotune
with max-autotune; --stream enqueues calls one by one instead of replaying graphs, so that the host's time counts where it is the longer.
The last ratio is against the fastest product and one kernel for all that follows (torch.compile by its defaults); beside it what 85 % of the
gain would be that the bytes saved allow."""
import argparse
import ctypes
import os
import random
import statistics
import subprocess
import sys
import time

import torch

from rows import DROPPED, E4M3, EPILOGUES, MASK, ROWS

NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int8: "i8", torch.int32: "i32", torch.int64: "i64", E4M3: "f8e4m3"}


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 3), ("strides", ctypes.c_int64 * 3)]


class Scalar(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class Bridge:
    def __init__(self, path):
        self.code = ctypes.CDLL(path)
        # All are declared: undeclared, an integer that goes over the stack is 32 bits wide, whatever lies above them.
        text, integer, size = ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64
        for name, result, arguments in (
                ("prepare", ctypes.c_void_p, [text, ctypes.POINTER(Tensor), integer, ctypes.POINTER(Scalar), integer, text, text, integer, integer, text, size]),
                ("kernels", integer, [text, ctypes.POINTER(Tensor), integer, text, text, size]),
                ("run", integer, [ctypes.c_void_p, ctypes.c_void_p, text, size]),
                ("describe", None, [ctypes.c_void_p, text, size]), ("release", None, [ctypes.c_void_p])):
            function = getattr(self.code, f"bridge_{name}")
            function.restype, function.argtypes = result, arguments
        self.message = ctypes.create_string_buffer(8192)

    @staticmethod
    def items(tensors):
        items = (Tensor * len(tensors))()
        for item, (name, value) in zip(items, tensors.items()):
            pad = (0,) * (3 - value.dim())
            item.name, item.data, item.dtype, item.rank = name.encode(), value.data_ptr(), NAMES[value.dtype].encode(), value.dim()
            item.shape, item.strides = (ctypes.c_int64 * 3)(*value.shape, *pad), (ctypes.c_int64 * 3)(*value.stride(), *pad)
        return items

    def prepare(self, case, tensors, only="", candidates=0, vendor=False, text=None):
        items, message = self.items(tensors), ctypes.create_string_buffer(8192)
        handle = self.code.bridge_prepare((case.text if text is None else text).encode(), items, len(items), (Scalar * 0)(), 0, case.math, only.encode(), int(vendor), candidates, message, len(message))
        if not handle:
            raise RuntimeError(message.value.decode())
        return ctypes.c_void_p(handle)

    def kernels(self, case, tensors):
        """Names and estimated microseconds, best first."""
        items, room = self.items(tensors), ctypes.create_string_buffer(1 << 16)
        if self.code.bridge_kernels(case.text.encode(), items, len(items), case.math, room, len(room)):
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


def random_of(shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype, device="cuda")
    if dtype == torch.int64:
        return torch.randint(0, 512, shape, dtype=dtype, device="cuda")
    return torch.randn(shape, device="cuda").to(dtype)


def poison(tensor):
    """No result of a kernel: a NaN, in 8-bit floats too."""
    if tensor.dtype == E4M3:
        tensor.view(torch.int8).fill_(127)
    else:
        tensor.fill_(float("nan") if tensor.is_floating_point() else 77)


class Case:
    """One row's tensors, `copies` times, and ways to compute it as functions of a copy's number."""

    def __init__(self, row):
        self.row, self.epilogue = row, EPILOGUES[row.epilogue]
        m, n, k, dtype, items = row.m, row.n, row.k, row.dtype, (row.batch,) if row.batch else ()
        self.m, self.text, self.outputs, self.mask = m, self.epilogue.text, list(self.epilogue.outputs), None
        # What the peers are allowed: PyTorch multiplies float32 as TF32 here, and cuBLASLt sums 8-bit floats in two levels without fast accumulation.
        self.math = b"tf32" if dtype == torch.float32 else b"fp8_fast_accum" if row.fast else b"fp8_two_level_accum" if dtype == E4M3 else b"strict"
        bytes_once = (m * k + k * n + m * n) * max(row.batch, 1) * torch.empty((), dtype=dtype).element_size()
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.copies = 1 if bytes_once > 8 * l2 else max(1, min(16, -(-2 * l2 // bytes_once) + 1))
        byte = torch.empty((), dtype=dtype).element_size() == 1
        default = torch.bfloat16 if byte else dtype
        self.sets = []
        for _ in range(self.copies):
            a_items = (1,) if row.one_a else items
            a = random_of((*a_items, k, m), dtype).mT if row.a_columns else random_of((*a_items, m, k), dtype)
            b = random_of((*items, n, k) if row.b_columns else (*items, k, n), dtype)
            if not byte:
                b = b * (1 / k**0.5)
            tensors = {"A": a.expand(row.batch, m, k) if row.one_a else a, "B": b.mT if row.b_columns else b}
            for key, (shape, kind) in self.epilogue.parameters.items():
                tensors[key] = random_of(shape(m, n), kind or default)
            if dtype == E4M3:
                tensors["c"] /= k**0.5
            for key, (shape, kind) in self.epilogue.outputs.items():
                # Items that share A are columns of one matrix, as their B are of one weight.
                lies = (m, row.batch, *shape(m, n)[1:]) if row.one_a else (*items, *shape(m, n))
                result = torch.empty(lies, dtype=kind or default, device="cuda")
                poison(result)
                tensors[key] = result.transpose(0, 1) if row.one_a else result
            self.sets.append(tensors)
        self.one = torch.ones((), device="cuda")

    def poison(self):
        for key in self.outputs:
            poison(self.sets[0][key])

    def product(self, t, scaled=False):
        """What cuBLAS is asked for; 8-bit floats with scales of rows and columns, if any, or with one that is 1."""
        if self.row.dtype == torch.int8:
            return torch._int_mm(t["A"], t["B"])
        if self.row.dtype == E4M3:
            scales = (t["r"], t["c"][None]) if scaled else (self.one, self.one)
            return torch._scaled_mm(t["A"], t["B"], *scales, out_dtype=torch.bfloat16, use_fast_accum=self.row.fast)
        if self.row.one_a:
            x = t["A"][0] @ t["B"].mT.flatten(0, 1).t()
            return x.unflatten(1, (self.row.batch, -1)).transpose(0, 1)
        return t["A"] @ t["B"]

    def by_peer(self, t):
        return (self.epilogue.peer or self.epilogue.reference)(self.product(t, scaled=True), t)

    def eager(self, i):
        return self.by_peer(self.sets[i])

    def draw(self, bridge):
        """What dropout keeps, told by a kernel that does nothing else."""
        if DROPPED not in self.text:
            return
        t = self.sets[0]
        tensors = {"A": t["A"], "B": t["B"], "D": torch.empty_like(t["D"], dtype=torch.float32)}
        handle = bridge.prepare(self, tensors, text=MASK)
        bridge.run(handle)
        torch.cuda.synchronize()
        bridge.code.bridge_release(handle)
        self.mask = tensors["D"]

    def check(self):
        """The largest error over 64 sampled rows, relative to the largest true value; reductions over rows need the whole and are checked whole."""
        t = {**self.sets[0], **({} if self.mask is None else {"mask": self.mask})}
        rows = torch.randperm(self.m, device="cuda")[:64]
        wide = {key: v.double() for key, v in t.items() if key not in self.outputs}

        def part(v):
            """Of a tensor that has M the sampled rows; vectors of N and single values have none."""
            at = list(v.shape).index(self.m) if v.dim() > 1 and self.m in v.shape else None
            return v if at is None else v.index_select(at, rows)

        parts = {key: part(v) for key, v in wide.items() if key not in ("A", "B")}
        some = self.epilogue.reference(wide["A"].index_select(-2, rows) @ wide["B"], parts)
        errors = []
        for at, key in enumerate(self.outputs):
            true, got = some[at], t[key].double()
            if got.dim() == 1:  # over all rows
                true = self.epilogue.reference(wide["A"] @ wide["B"], wide)[at]
            else:
                got = part(got)
            errors.append(((got - true.double()).abs().max() / true.double().abs().max()).item())
        return max(errors)


class Calls:
    """All copies, so many times over, one call after the other, as a program without graphs has them."""

    def __init__(self, call, copies, rounds=1):
        self.call, self.calls, self.copies = call, copies * rounds, copies
        self.replay()

    def replay(self):
        for i in range(self.calls):
            self.call(i % self.copies)


def graph_of(call, copies, rounds=1):
    """All copies in one CUDA graph, so many times over."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(copies):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(copies * rounds):
            call(i % copies)
    return graph


def rounds_of(call, copies):
    """How often a graph goes through all copies: 24 calls, or half a millisecond of longer ones. The beginning and the end of a
    graph would else be a tenth of a short kernel's time."""
    took = measure({"": graph_of(call, copies)}, copies, 0.005, least=3)[""] * copies
    return max(1, min(-(-24 // copies), round(500 / took)))


def measure(graphs, calls, seconds, least=50):
    """Medians of microseconds a call, the graphs replayed in turn, each round in another order: what runs behind a graph
    that leaves the GPU hot, or its L2 full, is up to 2 % slower, and would be so in every round. The GPU waits until a graph has been
    handed to it, so that the host's time for this counts where calls are made one by one only."""
    times = {name: [] for name in graphs}
    turns, order = list(graphs.items()), random.Random(1)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(next(iter(times.values()))) < least:
        order.shuffle(turns)
        for name, graph in turns:
            if not isinstance(graph, Calls):
                torch.cuda._sleep(60_000)  # clocks: 30 us
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e3 / calls)
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


def compiled_of(case, **options):
    """torch.compile of the whole row."""
    torch._dynamo.reset()
    compiled = torch.compile(case.by_peer, **options)
    return lambda i: compiled(case.sets[i])


def main():
    parser = parser_of_rows()
    parser.add_argument("--tune", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="add torch.compile (inductor) as a peer")
    parser.add_argument("--autotune", action="store_true", help="add torch.compile with max-autotune, which takes minutes")
    parser.add_argument("--vendor", action="store_true", help="add a column with the vendor family among our candidates")
    parser.add_argument("--stream", action="store_true", help="calls one by one instead of graphs")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    bridge, wanted = start(options)
    way = Calls if options.stream else graph_of
    head = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=os.path.dirname(os.path.abspath(__file__))).stdout.strip()
    columns = ["row", "M x N x K", "dtype", "epilogue", "ours us", "kernel", "tuned us", "with vendor us", "cuBLAS alone", "cuBLASLt's own", "eager", "compiled", "autotuned",
               "best peer / ours", "/ tuned", "/ with vendor", "compiled / best of ours (85 % of the gain)", "error"]
    lines = [head + (f", commit {commit}" if commit else "") + (", plain stream" if options.stream else ", graphs"), "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    print("\n".join(lines), flush=True)
    for row in ROWS:
        if not wanted(row.number):
            continue
        items = f"{row.batch} x " if row.batch else ""
        cells = [str(row.number), f"{items}{row.m} x {row.n} x {row.k}", NAMES[row.dtype] + (", fast sums" if row.fast else ""), row.epilogue]
        try:
            case = Case(row)
            plain = row.epilogue == "none"
            handles = [bridge.prepare(case, t) for t in case.sets]
            kernel, milliseconds = bridge.describe(handles[0])
            rounds = rounds_of(lambda i: bridge.run(handles[i]), case.copies)

            def timed(call):
                return way(call, case.copies, rounds)

            graphs = {"ours": timed(lambda i: bridge.run(handles[i]))}
            torch.cuda.synchronize()
            case.draw(bridge)
            error = case.check()
            chosen = ""
            if options.tune > 0:
                tuned = [bridge.prepare(case, t, candidates=options.tune if i == 0 else 0) for i, t in enumerate(case.sets)]
                chosen = bridge.describe(tuned[0])[0]
                if chosen != kernel:
                    graphs["tuned"] = timed(lambda i: bridge.run(tuned[i]))
                handles += tuned
            with_vendor = ""
            if options.vendor:
                both = [bridge.prepare(case, t, vendor=True, candidates=options.tune if i == 0 else 0) for i, t in enumerate(case.sets)]
                with_vendor = bridge.describe(both[0])[0]
                if with_vendor not in (kernel, chosen):
                    case.poison()
                    graphs["with vendor"] = timed(lambda i: bridge.run(both[i]))
                    torch.cuda.synchronize()
                    error = max(error, case.check())
                handles += both
            graphs["cuBLAS alone"] = timed(lambda i: case.product(case.sets[i]))
            peers = {}
            if case.epilogue.menu:
                peers["cuBLASLt's own"] = lambda: lambda i: case.epilogue.menu(case.sets[i])
            if not plain:
                peers["eager"] = lambda: case.eager
            if options.compile and not plain:
                peers["compiled"] = lambda: compiled_of(case)
            if options.autotune and not plain:
                peers["autotuned"] = lambda: compiled_of(case, mode="max-autotune-no-cudagraphs")
            for name, peer in peers.items():
                try:
                    graphs[name] = timed(peer())
                except Exception as problem:  # a peer that fails is no peer of this row
                    print(f"row {row.number}: {name} fails: {' '.join(str(problem).split())[:200]}", file=sys.stderr, flush=True)
                    torch.cuda.synchronize()
            took = measure(graphs, case.copies * rounds, options.seconds)
            peer = min([took[x] for x in peers if x in took] or [took["cuBLAS alone"]])
            best = min(took["ours"], took.get("tuned", took["ours"]))
            # The same kernel is not timed twice.
            third = took.get("with vendor", took.get("tuned", took["ours"]) if with_vendor == chosen else took["ours"])
            time_of = {name: f"{us:.2f}" for name, us in took.items()}
            gain = f"{took['compiled'] / best:.3f} ({1 + 0.85 * (row.fusion - 1):.3f})" if row.fusion and "compiled" in took else ""
            cells += [time_of["ours"], kernel.removeprefix("cuda_").removesuffix("_sm_90a"),
                      f"{best:.2f} {chosen.removeprefix('cuda_').removesuffix('_sm_90a')}" if "tuned" in took else "",
                      f"{third:.2f} {with_vendor.removeprefix('cuda_').removesuffix('_sm_90a')}" if options.vendor else "",
                      *(time_of.get(name, "") for name in ("cuBLAS alone", "cuBLASLt's own", "eager", "compiled", "autotuned")),
                      f"{peer / took['ours']:.3f}", f"{peer / best:.3f}", f"{peer / third:.3f}" if options.vendor else "", gain, f"{error:.1e}"]
            for handle in handles:
                bridge.code.bridge_release(handle)
            del graphs, peers, case
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
