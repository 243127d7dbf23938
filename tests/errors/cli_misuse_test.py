#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Misuse of the command line that once went unheeded, or was answered in another form than asked for.
#   cli_misuse_test.py PATH-OF-CODETTA
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

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


def before_the_work(folder, cache):
    """What can't end well is refused before data is made or time is spent."""
    huge = 2147483648
    for command in ("gemm", "kernels", "emit", "compile"):
        begun = time.monotonic()
        done = subprocess.run(["sh", "-c", 'ulimit -v 40000000; exec "$@"', "sh", COMMAND, command, "--m", str(huge), "--n", str(huge), "--k", "1",
                               *map(str, cache)], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 1 or "E0603" not in done.stderr or time.monotonic() - begun > 30:
            FAILURES.append(f"{command} of a product beyond all memory: {done.returncode} {done.stdout}{done.stderr}")
    limited = subprocess.run(["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", COMMAND, "kernels", "--m", str(huge), "--n", "1", "--k", "1",
                              *map(str, cache)], capture_output=True, text=True, timeout=120, check=False)
    if limited.returncode != 0 or "cpu_" not in limited.stdout:
        FAILURES.append(f"kernels of a large product under a limit: {limited.returncode} {limited.stderr}")
    out = folder / "D.npy"
    expect(2, "would not be written", "tune", *SIZES, *cache, "--out", f"D={out}", "--candidates", 1)
    expect(2, "would not be written", "bench", *SIZES, *cache, "--out", f"D={out}")
    expect(0, "", "bench", *SIZES, *cache, "--out", "D=[M,N]:bf16", "--candidates", 1)
    done = expect(3, "E0623", "tune", *SIZES, *cache, "--report", folder / "no" / "x.html")
    if "candidate" in done.stdout:
        FAILURES.append("a report that can't be written was found out after the tuning")
    times = folder / "times.txt"
    for option in (["--m", 5], ["--kernel", "z"], ["--candidates", 3], ["--report", "r.html"]):
        expect(2, f"{option[0]} is not for --export", "tune", *cache, "--export", times, *option)
        expect(2, f"{option[0]} is not for --import", "tune", *cache, "--import", times, *option)
    expect(0, "exported to", "tune", *cache, "--export", times)


def words_of_the_command(folder, cache):
    """Options are told by their names here, not by those of the library."""
    expect(2, "leave out --compile-timeout", "gemm", *SIZES, "--compile-timeout", 0)
    expect(1, "say --transpose-b if B lies as [N, K]", "gemm", *cache, "--a", array(folder / "x.npy", (4, 3)), "--b", array(folder / "y.npy", (7, 3)))
    done = expect(2, "cannot read nope", "run", folder / "p.py", *cache, "--kernel", "a=nope")
    if "def" in done.stderr or "the kernel's source" not in done.stderr:
        FAILURES.append(f"a kernel that is not there: {done.stderr}")
    expect(1, "with a point: 99999999999999999999.0", "gemm", *SIZES, *cache, "--epilogue",
           "def f(accum): D = accum + 99999999999999999999; return D")
    for word in ("--dtype=", "--epilogue="):
        expect(2, f"{word[:-1]}: nothing is given to it", "gemm", word, *SIZES, *cache)
    text = "def f(accum, alpha): D = accum + alpha; return D"
    expect(0, "pass", "gemm", *SIZES, *cache, "--check", "--epilogue", text, "--scalar", "alpha=1e-400")
    expect(2, "'1e400' does not fit", "gemm", *SIZES, *cache, "--epilogue", text, "--scalar", "alpha=1e400")
    for text_of, said in (("1e400", "pass alpha=inf for infinity"), ("-1e400", "pass alpha=-inf for minus infinity")):
        expect(2, said, "gemm", *SIZES, *cache, "--epilogue", text, "--scalar", f"alpha={text_of}")
    bound = folder / "bound.py"
    bound.write_text("# bind: types=f32,zz\ndef f(accum):\n    D = accum\n    return D\n")
    expect(2, "element type 'zz' is not known", "gemm", *SIZES, *cache, "--epilogue", bound)
    expect(2, "did you mean 'bf16'?", "gemm", *SIZES, *cache, "--dtype", "bf61")
    expect(2, "did you mean 'f16'?", "gemm", *SIZES, *cache, "--dtype", "float16")
    expect(2, "did you mean 'tf32'?", "gemm", *SIZES, *cache, "--math", "tf23")
    expect(2, "did you mean 'source'?", "emit", *SIZES, *cache, "--what", "sorce")
    expect(2, "did you mean 'packed'?", "gemm", *SIZES, *cache, "--kernel", "pcked")
    expect(2, "did you mean 'clear'?", "cache", "claer")
    home = folder / "home"
    home.mkdir()
    run("gemm", *SIZES, cwd=home, env={"PATH": os.environ["PATH"], "HOME": "relative", "CODETTA_CACHE_RO": "1"})
    if list(home.iterdir()):
        FAILURES.append("a HOME that is no absolute path is a folder of the current one")
    place = run("cache", "path", cwd=home, env={"PATH": os.environ["PATH"], "HOME": "relative", "CODETTA_CACHE_RO": "1"})
    if "relative" in place.stdout:
        FAILURES.append(f"cache path: {place.stdout}")


def interrupted(folder):
    """Who presses Ctrl-C is told that, and of no flag."""
    asked = folder / "asked"
    slow = folder / "slow-to-answer"
    slow.write_text(f"#!/bin/sh\n: >{asked}\nexec sleep 60\n")
    slow.chmod(0o755)
    process = subprocess.Popen([COMMAND, "compile", *map(str, SIZES), "--cache-dir", folder / "cold", "--compiler", slow, "--epilogue",
                                "def f(accum): D = tanh(accum); return D"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while process.poll() is None and not asked.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    if process.returncode != 130 or "E0510" not in said or "the command was interrupted" not in said or "flag" in said:
        FAILURES.append(f"an interrupted search for a compiler: {process.returncode} {said}")


def literals(cache):
    """Arithmetic between literals is that of 64 bits, whatever the other operand is."""
    for expression, first in (("accum + 2**40", "i64"), ("minimum(accum, 2**40)", "i64"), ("accum + 2**33 // 2", "i64"),
                              ("cast(accum, u8) + 2**8", "i32"), ("cast(accum, u16) - True * 0", "u16"), ("relu6(accum)", "i32")):
        done = expect(0, "output", "emit", "--what", "graph", *SIZES, "--dtype", "i8", *cache, "--epilogue",
                      f"def f(accum): D = {expression}; return D", "--out", "D=[M,N]:i64")
        results = [line for line in done.stdout.splitlines() if line.startswith("%")]
        if f":{first}[" not in (results or [""])[-1]:
            FAILURES.append(f"{expression} is not computed in {first}:\n{done.stdout}")
    expect(0, "pass", "gemm", "--m", 3, "--n", 2, "--k", 1, "--dtype", "i8", *cache, "--check", "--epilogue",
           "def f(accum): D = accum ** (2**1) + 2**40; return D", "--out", "D=[M,N]:i64")


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
        before_the_work(folder, cache)
        words_of_the_command(folder, cache)
        interrupted(folder)
        literals(cache)
    print("\n".join(FAILURES) or "ok")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
