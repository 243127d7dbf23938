# SPDX-License-Identifier: Apache-2.0
"""A three-layer MLP, 784-4096-4096-10 with ReLU, in f32 on one core: a library of ours against PyTorch (eager, torch.compile, and its
oneDNN graph fuser), in turn, on the same tensors.
Usage: mlp.py CODETTA [--batches 1,16,...] [--seconds S] [--threads N] [--tune SECONDS] [--out FILE.md]     needs PyTorch

The library is built for these sizes as hints (one function, a table of kernels by size), with --tune by measurement, as torch.compile is; the
weights are its constants, as they are for PyTorch (frozen). Each round runs all contenders in a new order. Times are processor times of the process where there is one thread, since
other work on the machine then counts least, and wall times otherwise; a ratio is the median over rounds of the fastest peer's time (by its
median) over ours, brackets hold its 95 % interval. Every output is checked against float64 before the measurement and after it."""
import argparse
import ctypes
import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile
import time

SIZES = (784, 4096, 4096, 10)
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
LEAST_ROUNDS, MOST_ROUNDS = 11, 61
TOLERANCE = 1e-4  # of the largest output
PROGRAM = """def mlp(x: f32["batch", 784], w1: f32[784, 4096], b1: f32[4096], w2: f32[4096, 4096], b2: f32[4096], w3: f32[4096, 10], b3: f32[10]):
    h = relu(x @ w1 + b1)
    g = relu(h @ w2 + b2)
    y = g @ w3 + b3
    return y
"""


def floor_of(batch):
    return 1.3 if batch <= 16 else 1.0 if batch >= 256 else None


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(ctypes.string_at(tensor.data_ptr(), tensor.numel() * 4))


def build(codetta, folder, tensors, options):
    write_safetensors(folder / "mlp.safetensors", tensors)
    (folder / "mlp.py").write_text(PROGRAM)
    subprocess.run([codetta, "build", folder / "mlp.py", "-o", folder / "libmlp.so", "--weights", folder / "mlp.safetensors", "--hint", f"batch={options.batches}",
                    "--threads", str(options.threads), *(["--tune", "--budget", str(options.tune)] if options.tune else [])], check=True)
    return ctypes.CDLL(str(folder / "libmlp.so"))


def ours(library, x, y):
    call = library.mlp_mlp
    arguments = (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(x.shape[0]), None)

    def run():
        if call(*arguments) != 0:
            library.mlp_get_last_error.restype = ctypes.c_char_p
            raise RuntimeError(library.mlp_get_last_error().decode())
        return y
    return run


def peers(torch, model, x):
    """What a user of PyTorch may do. What fails is told, and left out."""
    import torch._inductor.config as inductor
    inductor.freezing = True
    inductor.max_autotune = True
    found = {"eager": lambda: model(x)}

    def compiled():
        torch._dynamo.reset()
        return torch.compile(model, dynamic=False)

    def onednn_graph():
        torch.jit.enable_onednn_fusion(True)
        return torch.jit.freeze(torch.jit.trace(model, x))
    for name, make in (("torch.compile", compiled), ("oneDNN graph", onednn_graph)):
        try:
            function = make()
            for _ in range(3):
                function(x)
            found[name] = lambda function=function: function(x)
        except Exception as error:  # whatever a compiler of theirs says
            print(f"{name} is left out: {type(error).__name__}: {error}".splitlines()[0])
    return found


def race(contenders, seconds, clock):
    once = {}
    for name, run in contenders.items():
        run()
        start = clock()
        run()
        once[name] = clock() - start
    inner = {name: max(1, min(1000, int(2e-3 / max(t, 1e-7)))) for name, t in once.items()}
    rounds = int(seconds / max(sum(once[name] * inner[name] for name in once), 1e-6))
    times = {name: [] for name in contenders}
    order = list(contenders)
    for _ in range(max(LEAST_ROUNDS, min(MOST_ROUNDS, rounds))):
        random.shuffle(order)
        for name in order:
            run, start = contenders[name], clock()
            for _ in range(inner[name]):
                run()
            times[name].append((clock() - start) / inner[name])
    return times


def interval(samples):
    samples = sorted(samples)
    half, last = 0.98 * math.sqrt(len(samples)), len(samples) - 1
    at = lambda position: samples[min(max(int(position), 0), last)]
    return statistics.median(samples), at(math.floor(len(samples) / 2 - half)), at(math.ceil(len(samples) / 2 + half))


def row(torch, library, model, exact, batch, seconds, clock):
    x, y = torch.randn(batch, SIZES[0]), torch.full((batch, SIZES[-1]), float("nan"))
    expected = exact(x.double())
    contenders = {"ours": ours(library, x, y), **peers(torch, model, x)}

    def check():
        worst = {}
        for name, run in contenders.items():
            y.fill_(float("nan"))
            worst[name] = ((run().double() - expected).abs().max() / expected.abs().max()).item()
            if not worst[name] <= TOLERANCE:
                raise SystemExit(f"batch {batch}: {name} is wrong by {worst[name]} of the largest output")
        return worst["ours"]
    check()
    times = race(contenders, seconds, clock)
    error = check()
    medians = {name: statistics.median(t) for name, t in times.items()}
    best = min((name for name in medians if name != "ours"), key=medians.get)
    ratio, low, high = interval([theirs / mine for theirs, mine in zip(times[best], times["ours"])])
    wanted = floor_of(batch)
    verdict = "" if wanted is None else f"{wanted}: " + ("met" if ratio >= wanted else "**SHORT**" if high < wanted else "undecided")
    cells = [f"{medians[name] * 1e6:,.0f}" if name in medians else "" for name in ("ours", "eager", "torch.compile", "oneDNN graph")]
    return f"| {batch} | " + " | ".join(cells) + f" | {best} | {ratio:.2f} [{low:.2f}, {high:.2f}] | {verdict} | {error:.1e} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codetta", type=pathlib.Path)
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tune", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import torch
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    layers = [torch.nn.Linear(a, b) for a, b in zip(SIZES, SIZES[1:])]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2]).eval()
    tensors = {}
    for i, layer in enumerate(layers):
        tensors[f"w{i + 1}"], tensors[f"b{i + 1}"] = layer.weight.detach().t().contiguous(), layer.bias.detach()
    wide = [(layer.weight.detach().double(), layer.bias.detach().double()) for layer in layers]

    def exact(x):
        for i, (weight, bias) in enumerate(wide):
            x = x @ weight.t() + bias
            x = x if i + 1 == len(wide) else x.relu()
        return x
    lines = ["| batch | ours, us | eager | torch.compile | oneDNN graph | best peer | best peer / ours | target | error |", "|" + "---|" * 9]
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        library = build(options.codetta.resolve(), pathlib.Path(folder), tensors, options)
        if library.mlp_set_thread_pool(options.threads, None, None) != 0:
            raise SystemExit("the library takes no thread pool")
        print("\n".join(lines))
        for batch in map(int, options.batches.split(",")):
            lines.append(row(torch, library, model, exact, batch, options.seconds, clock))
            print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
