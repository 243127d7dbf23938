#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Misuse of the command line that once went unheeded, or was answered in another form than asked for.
#   cli_misuse_test.py PATH-OF-CODETTA
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

COMMAND = sys.argv[1]
FAILURES = []
SIZES = ["--m", 16, "--n", 16, "--k", 16]


def run(*arguments, **options):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False, **options)


def expect(status, text, *arguments, **options):
    done = run(*arguments, **options)
    if done.returncode != status or text not in done.stdout + done.stderr:
        FAILURES.append(f"{' '.join(map(str, arguments))}: status {done.returncode}, wanted {status} with {text!r}\n"
                        f"{done.stdout}{done.stderr}")
    return done


def strict_json(text, what):
    def refused(constant):
        raise ValueError(f"{constant} is no JSON")
    try:
        return json.loads(text, parse_constant=refused)
    except ValueError as error:
        FAILURES.append(f"{what}: {error}: {text[:200]!r}")
        return {}


def array(path, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    count = 1
    for size in shape:
        count *= size
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{count}f", *range(count)))
    return path


def unheeded(program, folder, cache):
    """An option of other work than this is refused, never dropped."""
    library = folder / "libx.so"
    for verb in (["emit", program], ["explain", program], ["compile", program], ["build", program, "-o", library]):
        for option in (["--m", 3], ["--dtype", "bf16"], ["--epilogue", "def f(accum): D = accum; return D"], ["--strict"],
                       ["--scalar", "a=3"], ["--seed", 5], ["--kernel", "packed"], ["--out", "D=D.npy"]):
            if option[0] == "--kernel":  # of a program it is the source of a kernel of the user's
                expect(2, "is given for packed", *verb, *cache, *option)
                continue
            expect(2, f"{option[0]} is for a GEMM", *verb, *cache, *option)
    expect(2, "--function is for a GEMM", "emit", program, *cache, "--function", "p")
    expect(2, "--tile is for CUTLASS", "build", program, "-o", library, *cache, "--tile", "128x128x64")
    expect(2, "--cutlass-dir is for CUTLASS", "build", program, "-o", library, *cache, "--cutlass-dir", folder)
    for option in (["--tile", "128x128x64"], ["--no-cd"], ["--nondeterministic"], ["--buffer", "C=b"], ["--name", "N"]):
        expect(2, f"{option[0]} is for CUTLASS", "emit", *SIZES, *cache, *option)
    expect(2, "a program is not for CUTLASS", "emit", program, "--what", "evt", "--target", "cutlass:sm_90a", *cache)
    expect(2, "--weights is not for CUTLASS", "build", "--via", "cutlass", *SIZES, "-o", library, "--weights", "w", *cache)
    expect(2, "--dim is for --repro", "build", program, "-o", library, *cache, "--dim", "n=5")
    for option in (["--header", "h.h"], ["--manifest", "m.json"], ["--name", "q"], ["--no-checks"], ["--embed-weights"], ["--budget", 3],
                   ["--tune"], ["--show"], ["--weights", "w"], ["--constant", "w=w.npy"]):
        expect(2, f"{option[0]} is not for --repro", "build", program, "-o", folder / "repro", *cache, "--repro", "relu", *option)
    metal = ["build", program, "-o", folder / "metal", "--target", "metal", *cache]
    expect(1, "not tuned", *metal, "--tune")
    for option in ("--header", "--manifest"):
        expect(1, "lie in one folder", *metal, option, folder / "elsewhere")
    if library.exists() or (folder / "metal").exists() or (folder / "repro").exists():
        FAILURES.append("a refused build left its library")
    a, b, items = array(folder / "a.npy", (6, 5)), array(folder / "b.npy", (5, 7)), array(folder / "i.npy", (2, 6, 5))
    files = ["gemm", *cache, "--b", b, "--check"]
    expect(2, "--batch 3 contradicts the files", *files, "--a", a, "--batch", 3)
    expect(0, "pass", *files, "--a", items, "--batch", 2)
    expect(0, "pass", "gemm", *cache, "--a", a, "--n", 3, "--batch", 2, "--check")


def full_on_metal(folder, cache):
    """A number that fills a tensor is of the type that it meets: no f64, which Metal lacks."""
    for number, (name, text) in enumerate((("mul", "x * full(0.5, n, 8)"), ("concat", "concat(x, full(0.5, n, 8), dim=1)"))):
        program = folder / f"{name}.py"
        program.write_text(f'def p(x: f32["n", 8]):\n    y = {text}\n    return y\n')
        expect(0, "CODETTA_KERNEL", "emit", program, "--target", "metal", *cache)
        expect(0, "pass", "run", program, "--check", "--dim", f"n={number + 2}", *cache)


def larger_than_the_machine(cache):
    """Who asks what would be done needs no memory for it."""
    large = ["--m", 262144, "--n", 262144, "--k", 65536, "--dtype", "bf16", "--tensor", "C=[M,N]:bf16", "--epilogue",
             "def f(accum, C): D = relu(accum) + C; F = accum; return D, F"]
    expect(0, "sm90", "kernels", *large, "--target", "cuda:sm_90a", *cache)
    expect(0, "cuda:sm_90a", "explain", *large, "--target", "cuda:sm_90a", *cache)
    expect(0, "cpu_", "explain", *large, *cache)
    expect(0, "Sm90", "emit", "--what", "evt", *large, "--target", "cutlass:sm_90a", *cache)


def as_json(program, folder, cache):
    """--json holds for all that is said, also of a command line that is cut short."""
    for words in (["nonsense", "--json"], ["gemm", "--m", "99999999999999999999", "--json"], ["gemm", "--json", "--m", "x"],
                  ["run", "--json"], ["tune", *SIZES, "--budget", "nan", "--json"], ["gemm", "--bad", "--json"]):
        done = expect(2, "E0701", *words)
        strict_json(done.stderr, words)
    shown = expect(0, "", "build", program, "-o", folder / "libx.so", "--show", "--json", *cache)
    if "x_p(" not in strict_json(shown.stdout, "build --show").get("text", ""):
        FAILURES.append(f"build --show --json: {shown.stdout[:200]}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cache = ["--cache-dir", folder / "cache"]
        program = folder / "p.py"
        program.write_text('def p(x: f32["n", 8], w: f32[8, 4]):\n    y = relu(x @ w)\n    return y\n')
        unheeded(program, folder, cache)
        as_json(program, folder, cache)
        full_on_metal(folder, cache)
        larger_than_the_machine(cache)
    print("\n".join(FAILURES) or "ok")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
