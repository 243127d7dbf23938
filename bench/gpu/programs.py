# SPDX-License-Identifier: Apache-2.0
"""A Llama-style decoder block in bf16 on one NVIDIA GPU: our library against PyTorch eager and torch.compile, in turn, on the same tensors.
Usage: programs.py --build CODETTA FOLDER [--tune SECONDS]     libraries, one for each batch x sequence as hints; needs no GPU, but to tune
       programs.py --run FOLDER [--beside FOLDER,...] [--profile] [--peers eager,compile] [--only 1x1,...] [--seconds S] [--out FILE.md]
                                                              --beside: libraries of other builds, tuned ones say, in turn with these

All sides compute attention by plain softmax. CUDA graphs replayed in turn, medians of 11 rounds or more; a ratio is the best peer's time over
ours. Every row of every item is checked against the same block in float64, before the measurement and again after it. --profile: of each
of our kernels the time from the end of the one before to its own, and how long it was there, its wait for that end included.

A sequence of one token is a constant of our program, as it is of the peers' (dynamic=False)."""
import argparse
import ctypes
import pathlib
import statistics
import subprocess
import time

DIM, HEADS, HEAD, HIDDEN = 4096, 32, 128, 14336
SIZES = [(1, 1), (8, 1), (1, 512), (4, 2048)]
LEAST_ROUNDS = 11  # of a median
TOLERANCE = 0.03   # of an item's largest element, in bf16
PROGRAM = f"""def llama(
    x: bf16["b", "s", {DIM}], attention_weight: bf16[{DIM}],
    wq: bf16[{DIM}, {DIM}], wk: bf16[{DIM}, {DIM}], wv: bf16[{DIM}, {DIM}], wo: bf16[{DIM}, {DIM}],
    cosines: f32["s", {HEAD // 2}], sines: f32["s", {HEAD // 2}], mlp_weight: bf16[{DIM}],
    w_gate: bf16[{DIM}, {HIDDEN}], w_up: bf16[{DIM}, {HIDDEN}], w_down: bf16[{HIDDEN}, {DIM}],
):
    h = cast(rms_norm(x, attention_weight), bf16)
    q = cast(rope(permute(reshape(h @ wq, (b, s, {HEADS}, {HEAD})), (0, 2, 1, 3)), cosines, sines), bf16)
    k = cast(rope(permute(reshape(h @ wk, (b, s, {HEADS}, {HEAD})), (0, 2, 1, 3)), cosines, sines), bf16)
    v = cast(permute(reshape(h @ wv, (b, s, {HEADS}, {HEAD})), (0, 2, 1, 3)), bf16)
    scores = cast(softmax(cast(q @ transpose(k), bf16) * {HEAD ** -0.5}), bf16)
    context = cast(reshape(permute(scores @ v, (0, 2, 1, 3)), (b, s, {DIM})), bf16)
    r = cast(x + context @ wo, bf16)
    n = cast(rms_norm(r, mlp_weight), bf16)
    g = cast(silu(cast(n @ w_gate, bf16)) * (n @ w_up), bf16)
    y = cast(r + g @ w_down, bf16)
    return y
"""


def program(sequence):
    return PROGRAM if sequence > 1 else PROGRAM.replace('"s"', "1").replace("(b, s, ", "(b, 1, ")


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
                ("strides", ctypes.c_int64 * 8)]


def library(folder, batch, sequence):
    return folder / f"libllama_{batch}x{sequence}.so"


def build(codetta, folder, only, tune):
    folder.mkdir(parents=True, exist_ok=True)
    for batch, sequence in SIZES:
        if only and f"{batch}x{sequence}" not in only:
            continue
        (folder / "llama.py").write_text(program(sequence))
        hints = ["--hint", f"b={batch}", *(["--hint", f"s={sequence}"] if sequence > 1 else [])]
        subprocess.run([codetta, "build", folder / "llama.py", "-o", library(folder, batch, sequence), "--target", "cuda:sm_90a", *hints,
                        *(["--tune", "--budget", str(tune)] if tune else [])], check=True)


def inputs(torch, batch, sequence):
    def normal(*shape, scale=1.0):
        return (torch.randn(*shape, device="cuda") * scale).bfloat16()
    angles = torch.arange(sequence, device="cuda")[:, None] * 10000.0 ** (-torch.arange(HEAD // 2, device="cuda") / (HEAD // 2))
    return dict(x=normal(batch, sequence, DIM), attention_weight=normal(DIM), wq=normal(DIM, DIM, scale=DIM ** -0.5),
                wk=normal(DIM, DIM, scale=DIM ** -0.5), wv=normal(DIM, DIM, scale=DIM ** -0.5), wo=normal(DIM, DIM, scale=DIM ** -0.5),
                cosines=angles.cos().float(), sines=angles.sin().float(), mlp_weight=normal(DIM), w_gate=normal(DIM, HIDDEN, scale=DIM ** -0.5),
                w_up=normal(DIM, HIDDEN, scale=DIM ** -0.5), w_down=normal(HIDDEN, DIM, scale=HIDDEN ** -0.5))


def block_of(torch, wide):
    """The block in PyTorch; `wide`: the type of what lies between the kernels' roundings."""
    def norm(t, weight):
        t = t.to(wide)
        return t * torch.rsqrt(t.square().mean(-1, keepdim=True) + 1e-5) * weight.to(wide)

    def turn(t, cosines, sines):
        a, b = t.to(wide).chunk(2, -1)
        c, s = cosines.to(wide), sines.to(wide)
        return torch.cat((a * c - b * s, a * s + b * c), -1)

    def block(x, attention_weight, wq, wk, wv, wo, cosines, sines, mlp_weight, w_gate, w_up, w_down):
        batch, sequence = x.shape[:2]
        kept = x.dtype

        def heads(t):
            return t.view(batch, sequence, HEADS, HEAD).transpose(1, 2)
        h = norm(x, attention_weight).to(kept)
        q, k = (turn(heads(h @ w), cosines, sines).to(kept) for w in (wq, wk))
        logits = (q @ k.transpose(-1, -2)).to(wide) * HEAD ** -0.5
        e = torch.exp(logits - logits.amax(-1, keepdim=True))  # written out: torch.compile puts no flash attention in its place
        context = ((e / e.sum(-1, keepdim=True)).to(kept) @ heads(h @ wv)).transpose(1, 2).reshape(batch, sequence, DIM)
        r = x + context @ wo
        n = norm(r, mlp_weight).to(kept)
        return r + (torch.nn.functional.silu(n @ w_gate) * (n @ w_up)) @ w_down
    return block


def ours(torch, folder, tensors, output):
    batch, sequence = tensors["x"].shape[:2]
    code = ctypes.CDLL(str(library(folder, batch, sequence)))
    name = library(folder, batch, sequence).stem[3:]
    call, error = getattr(code, f"{name}_llama_tensors"), getattr(code, f"{name}_get_last_error")
    size = getattr(code, f"{name}_llama_workspace_size")
    error.restype, size.restype = ctypes.c_char_p, ctypes.c_int64
    every = [*tensors.values(), output]
    items = (Tensor * len(every))()
    for item, t in zip(items, every):
        pad = (0,) * (8 - t.dim())
        item.data, item.dtype, item.rank = t.data_ptr(), {torch.bfloat16: 12, torch.float32: 13}[t.dtype], t.dim()
        item.shape, item.strides = (ctypes.c_int64 * 8)(*t.shape, *pad), (ctypes.c_int64 * 8)(*t.stride(), *pad)
    need = size(ctypes.c_int64(batch), *([ctypes.c_int64(sequence)] if sequence > 1 else []))
    if need < 0:
        raise RuntimeError(error().decode())
    workspace = torch.empty(max(need, 256), dtype=torch.uint8, device="cuda")

    def run():
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if call(items, len(every), ctypes.c_void_p(workspace.data_ptr()), ctypes.c_int64(workspace.numel()), stream) != 0:
            raise RuntimeError(error().decode())
    run.keep = (code, items, workspace)
    return run, need


def captured(torch, run):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def in_turn(torch, sides, seconds):
    """Medians in microseconds; every side runs once a round."""
    times = {name: [] for name in sides}
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for replay in sides.values():
        for _ in range(3):
            replay()
    torch.cuda.synchronize()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times["codetta"]) < LEAST_ROUNDS:
        for name, replay in sides.items():
            begin.record()
            replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1000)
    return {name: statistics.median(all_of) for name, all_of in times.items()}


def largest_error(torch, tensors, output):
    """Of any item, relative to its largest element; items are computed one by one, for float64 takes four times the memory. NaN where one is."""
    wide = {name: t.double() for name, t in tensors.items() if name != "x"}
    block = block_of(torch, torch.float64)
    errors = []
    for i in range(output.shape[0]):
        want = block(x=tensors["x"][i:i + 1].double(), **wide)
        errors.append((output[i:i + 1].double() - want).abs().max() / want.abs().max())
    return torch.stack(errors).max().item()


def profile(torch, run):
    """Our kernels in their order: medians of the runs behind the first."""
    from torch.profiler import ProfilerActivity
    rounds = 7
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(rounds):
            run()
        torch.cuda.synchronize()
    kernels = sorted((e for e in record.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)
    count = len(kernels) // rounds
    for i in range(count):
        ranges = [kernels[r * count + i].time_range for r in range(1, rounds)]
        steps = [kernels[r * count + i].time_range.end - kernels[r * count + i - 1].time_range.end for r in range(1, rounds)]
        there = statistics.median(r.elapsed_us() for r in ranges)
        print(f"    {statistics.median(steps):9.1f} us, there for {there:9.1f}  {kernels[i].name[:90]}", flush=True)


def measure(options):
    import torch
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    peers = [p for p in options.peers.split(",") if p]
    only = [size for size in options.only.split(",") if size]
    beside = [pathlib.Path(folder) for folder in options.beside.split(",") if folder]
    others = [f"ours of {folder.name}" for folder in beside]
    table = ["| batch x sequence | ours, us | " + " | ".join(f"{side}, us" for side in others + peers) + " | best peer over ours | largest error |",
             "|---|---|" + "---|" * len(others + peers) + "---|---|"]
    for batch, sequence in SIZES:
        if only and f"{batch}x{sequence}" not in only:
            continue
        tensors = inputs(torch, batch, sequence)
        output = torch.full_like(tensors["x"], float("nan"))
        run, workspace = ours(torch, options.run, tensors, output)
        run()
        torch.cuda.synchronize()
        error = largest_error(torch, tensors, output)
        assert error < TOLERANCE, f"{batch}x{sequence}: {error} of the largest element"
        sides = {"codetta": captured(torch, run)}
        outputs = []  # which the graphs write
        for other, folder in zip(others, beside):
            made = torch.full_like(output, float("nan"))
            outputs.append(made)
            other_run, _ = ours(torch, folder, tensors, made)
            other_run()
            torch.cuda.synchronize()
            found = largest_error(torch, tensors, made)
            assert found < TOLERANCE, f"{batch}x{sequence}, {other}: {found} of the largest element"
            sides[other] = captured(torch, other_run)
        for peer in peers:
            block = block_of(torch, torch.float32)
            if peer == "compile":
                torch._dynamo.reset()
                block = torch.compile(block, mode="max-autotune-no-cudagraphs", dynamic=False)
            begin = time.perf_counter()
            with torch.no_grad():
                block(**tensors)
                sides[peer] = captured(torch, lambda block=block: block(**tensors))
            print(f"{batch}x{sequence}: {peer} ready in {time.perf_counter() - begin:.1f} s", flush=True)
        with torch.no_grad():
            output.fill_(float("nan"))
            times = in_turn(torch, sides, options.seconds)
        after = largest_error(torch, tensors, output)
        assert after < TOLERANCE, f"{batch}x{sequence}: {after} of the largest element when replayed"
        best = min((times[p] for p in peers), default=float("nan"))
        table.append(f"| {batch}x{sequence} | {times['codetta']:.1f} | " + " | ".join(f"{times[side]:.1f}" for side in others + peers) +
                     f" | {best / times['codetta']:.3f} | {error:.4f} |")
        print(table[-1], f"workspace {workspace / 2 ** 20:.1f} MiB", flush=True)
        if options.profile:
            profile(torch, run)
        del sides, run, output, tensors
        torch.cuda.empty_cache()
    text = "\n".join(table) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", nargs=2, metavar=("CODETTA", "FOLDER"))
    parser.add_argument("--run", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--tune", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--beside", default="", metavar="FOLDER,...")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--peers", default="eager,compile")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if options.build:
        build(options.build[0], pathlib.Path(options.build[1]), [size for size in options.only.split(",") if size], options.tune)
    if options.run:
        measure(options)


if __name__ == "__main__":
    main()
