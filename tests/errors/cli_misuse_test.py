#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Misuse of the command line that once went unheeded, or was answered in another form than asked for.
#   cli_misuse_test.py PATH-OF-CODETTA
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

from cli_support import COMMAND, FAILURES, array, expect, outcome, run

SIZES = ["--m", 16, "--n", 16, "--k", 16]


def strict_json(text, what):
    def refused(constant):
        raise ValueError(f"{constant} is no JSON")
    try:
        return json.loads(text, parse_constant=refused)
    except ValueError as error:
        FAILURES.append(f"{what}: {error}: {text[:200]!r}")
        return {}


def unheeded(program, folder, cache):
    """An option of other work than this is refused, never dropped."""
    library = folder / "libx.so"
    for verb in (["emit", program], ["explain", program], ["compile", program], ["build", program, "-o", library]):
        for option in (["--m", 3], ["--dtype", "bf16"], ["--epilogue", "def f(accum): D = accum; return D"], ["--as-unfused"],
                       ["--scalar", "a=3"], ["--seed", 5], ["--kernel", "packed"], ["--out", "D=D.npy"]):
            if option[0] == "--kernel":  # of a program it is the source of a kernel of the user's
                expect(2, "is given for packed", *verb, *cache, *option)
                continue
            expect(2, f"{option[0]} is for a GEMM", *verb, *cache, *option)
    expect(1, "the text has no function 'nope'", "emit", program, *cache, "--function", "nope")
    several = folder / "several.py"
    several.write_text('def helper(x):\n    return x * 2.0\n\ndef one(x: f32["n", 8]):\n    y = helper(x) + 1.0\n    return y\n\n'
                       'def two(x: f32["n", 8]):\n    z = helper(x) - 1.0\n    return z\n')
    for function, output in (("one", "y"), ("two", "z")):
        for words in (["emit", "--what", "graph"], ["explain", "--target", "cpu:avx2"], ["compile", "--no-compiler"], ["run", "--check", "--no-compiler"]):
            if words[0] in ("emit", "explain"):
                expect(0, f'"{output}"' if words[0] == "emit" else output, words[0], several, *words[1:], *cache, "--function", function)
            else:
                expect(0, "", words[0], several, *words[1:], *cache, "--function", function)
    expect(0, "z: 128 of 128 elements checked", "run", several, "--check", "--no-compiler", *cache)
    expect(0, "y: 128 of 128 elements checked", "run", several, "--check", "--no-compiler", *cache, "--function", "one")
    expect(2, "--tile is for CUTLASS", "build", program, "-o", library, *cache, "--tile", "128x128x64")
    expect(2, "--cutlass-dir is for CUTLASS", "build", program, "-o", library, *cache, "--cutlass-dir", folder)
    for option in (["--tile", "128x128x64"], ["--no-cd"], ["--nondeterministic"], ["--buffer", "C=b"], ["--name", "N"]):
        expect(2, f"{option[0]} is for CUTLASS", "emit", *SIZES, *cache, *option)
    expect(2, "a program is not for CUTLASS", "emit", program, "--what", "evt", "--target", "cutlass:sm_90a", *cache)
    expect(2, "target 'hip:gfx942' has no visitor trees", "build", "--via", "cutlass", "--target", "hip:gfx942", *SIZES, "-o", library, *cache)
    expect(2, "`codetta kernels` is not asked about CUTLASS here", "kernels", "--target", "metal", *SIZES, "--tile", "128x128x64", *cache)
    expect(2, "--weights is not for CUTLASS", "build", "--via", "cutlass", *SIZES, "-o", library, "--weights", "w", *cache)
    expect(2, "--dim is for --repro", "build", program, "-o", library, *cache, "--dim", "n=5")
    for option in (["--header", "h.h"], ["--manifest", "m.json"], ["--name", "q"], ["--no-checks"], ["--embed-weights"], ["--budget", 3],
                   ["--tune"], ["--show"], ["--weights", "w"], ["--constant", "w=w.npy"]):
        expect(2, f"{option[0]} is not for --repro", "build", program, "-o", folder / "repro", *cache, "--repro", "relu", *option)
    expect(1, "the size n is given twice", "build", program, "-o", folder / "repro", *cache, "--repro", "relu", "--hint", "n=1,64")
    for option in (["--header", "h.h"], ["--manifest", "m.json"], ["--benchmark", "b.py"], ["--engine-dir", folder]):
        expect(2, f"{option[0]} has no effect with --show", "build", program, "-o", library, *cache, "--show", *option)
    nvcc = ["build", program, "-o", folder / "nvcc", "--form", "nvcc", "--target", "cuda:sm_80", *cache]
    expect(2, "--form is not for --repro", *nvcc, "--repro", "relu")
    expect(2, "--engine-dir has no effect with --form nvcc", *nvcc, "--engine-dir", folder)
    expect(2, "--embed-weights has no effect without --weights", "build", program, "-o", library, *cache, "--embed-weights")
    expect(2, "--form is not for CUTLASS", "build", "--via", "cutlass", *SIZES, "-o", library, "--form", "nvcc", *cache)
    expect(1, "error[E0440]: there are no sources for nvcc for cpu:avx2", "build", program, "-o", folder / "nvcc", "--form", "nvcc",
           "--target", "cpu:avx2", *cache)
    expect(1, "error[E0440]: the sources for nvcc lie in one folder", *nvcc, "--header", folder / "n.h")
    expect(3, "error[E0543]", "build", program, "-o", folder / "none/nvcc", "--form", "nvcc", "--target", "cuda:sm_80", *cache)
    expect(3, "it is no folder", "build", program, "-o", program, "--form", "nvcc", "--target", "cuda:sm_80", *cache)
    # A folder that takes no files, though root may write to it, is seen before anything is compiled.
    early = expect(3, "error[E0543]: /proc/library.so cannot be written", "build", program, "-o", "/proc/library.so", *cache)
    assert "compiled" not in early.stderr, early.stderr
    assert not (folder / "nvcc").exists()
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


def no_control_on_metal(folder, cache):
    """What Metal's host text has no form of is told where it is written."""
    program = folder / "halved.py"
    program.write_text("def more(i, y, n):\n    return i < n\n\ndef half(i, y, n):\n    return i + 1, y * 0.5, n\n\n"
                       "def p(x: f32[8, 8], n: i64):\n    k, z, _ = while_loop(more, half, 0, x, n)\n    return z\n")
    for verb in (["build", "-o", folder / "halved"], ["emit"]):
        expect(1, "halved.py:8:15", *verb[:1], program, *verb[1:], "--target", "metal", *cache)
        expect(1, "choose a cpu, cuda or hip target", *verb[:1], program, *verb[1:], "--target", "metal", *cache)
    expect(0, "", "emit", program, "--target", "cpu", *cache)


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
    # Numbers for such an operand would take a minute.
    epilogue = ["--epilogue", "def f(accum, bias): D = accum + bias; return D", "--tensor", "bias=[4000000001]:i8"]
    for command in ("gemm", "verify", "bench", "tune"):
        begun = time.monotonic()
        expect(1, "error[E0207]", command, *SIZES, *epilogue, *cache)
        if time.monotonic() - begun > 15:
            FAILURES.append(f"{command} made data for operands that do not fit: {time.monotonic() - begun:.0f} s")
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
    x, y = array(folder / "x.npy", (4, 3)), array(folder / "y.npy", (7, 3))
    expect(1, "--transpose-b is for a B that lies as [N, K]", "gemm", *cache, "--a", x, "--b", y)
    expect(1, "--transpose-b is for a B that lies as [N, K]", "gemm", *cache, "--a", y, "--b", array(folder / "z.npy", (3, 4)), "--transpose-b")
    expect(1, "--transpose-a is for an A that lies as [K, M]", "gemm", *cache, "--a", x, "--b", array(folder / "w.npy", (4, 7)))
    done = expect(2, "cannot read nope", "run", folder / "p.py", *cache, "--kernel", "a=nope")
    if "def" in done.stderr or "the kernel's source" not in done.stderr:
        FAILURES.append(f"a kernel that is not there: {done.stderr}")
    # Kernels in Python are told by what they are.
    (folder / "user.py").write_text("def f(x: f32[8]):\n    y = user_kernel('k', x, out='f32[8]')\n    return y\n")
    for language, text in (("Triton", "@triton.jit\ndef k(x, y): pass\n"), ("CuTe DSL", "import cutlass.cute as cute\n@cute.kernel\ndef k(x, y): pass\n")):
        (folder / "k.py").write_text(text)
        done = expect(1, f"the source of k is {language}", "run", folder / "user.py", *cache, "--kernel", f"k={folder / 'k.py'}")
        if "help: give the source of k in a language that the target takes" not in done.stderr:
            FAILURES.append(f"a kernel in {language}: {done.stderr}")
    expect(1, "with a point: 99999999999999999999.0", "gemm", *SIZES, *cache, "--epilogue",
           "def f(accum): D = accum + 99999999999999999999; return D")
    for word in ("--dtype=", "--epilogue="):
        expect(2, f"{word[:-1]}: nothing is given to it", "gemm", word, *SIZES, *cache)
    text = "def f(accum, alpha): D = accum + alpha; return D"
    expect(0, "pass", "gemm", *SIZES, *cache, "--check", "--epilogue", text, "--scalar", "alpha=1e-400")
    expect(2, "'1e400' does not fit", "gemm", *SIZES, *cache, "--epilogue", text, "--scalar", "alpha=1e400")
    for text_of, said in (("1e400", "pass alpha=inf for infinity"), ("-1e400", "pass alpha=-inf for minus infinity")):
        expect(2, said, "gemm", *SIZES, *cache, "--epilogue", text, "--scalar", f"alpha={text_of}")
    for number in ("18446744073709551616", "-9223372036854775809", "+99999999999999999999"):  # none becomes a float unasked
        expect(2, f"'{number}' does not fit\nnote: whole numbers have 64 bits: -9223372036854775808 to 18446744073709551615\n"
                  f"help: for a float write it with a point: alpha={number}.0", "gemm", *SIZES, *cache, "--epilogue", text, "--scalar", f"alpha={number}")
    expect(0, "pass", "gemm", *SIZES, *cache, "--check", "--epilogue", text, "--scalar", "alpha=18446744073709551615.0")
    expect(0, "pass", "gemm", *SIZES, *cache, "--check", "--epilogue", text, "--scalar", "alpha=+18446744073709551615")
    bound = folder / "bound.py"
    bound.write_text("# bind: types=f32,zz\ndef f(accum):\n    D = accum\n    return D\n")
    expect(2, "element type 'zz' is not known", "gemm", *SIZES, *cache, "--epilogue", bound)
    expect(2, "did you mean 'bf16'?", "gemm", *SIZES, *cache, "--dtype", "bf61")
    expect(2, "write --scalar alpha=2", "gemm", *SIZES, *cache, "--epilogue", text, "--tensor", "alpha=2")
    for tensor in ("x.npy", "w.safetensors:x", "[M,N]:f32"):
        expect(2, f"write --tensor alpha={tensor}", "gemm", *SIZES, *cache, "--epilogue", text, "--scalar", f"alpha={tensor}")
    for shape in ("M N", "99999999999999999999"):
        expect(2, f"'{shape}' is not a size\nnote: in the shape [{shape}]\nhelp: use numbers below 2^63", "gemm", *SIZES, *cache, "--epilogue", text,
               "--tensor", f"alpha=[{shape}]:f32")
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


def in_our_words(folder, cache):
    """What the parser refuses has a reason and a next step, and nothing of the parser's own words."""
    library = folder / "libw.so"
    for said, then, words in (
            ("--threads stands before the command", "write codetta gemm --threads", ["--threads", 2, "gemm", *SIZES]),
            ("codetta has no option --nope", "see codetta --help", ["--nope", "gemm"]),
            ("there is no command 'gmm'", "did you mean 'gemm'?", ["gmm", *SIZES]),
            ("there is no command 'zzzzz'", "the commands are gemm, verify", ["zzzzz"]),
            ("there is no command 'version'", "did you mean '--version'?", ["version"]),
            ("no command is given", "the commands are gemm, verify", []),
            ("--m is given 2 times", "it takes one value, and gets 16 and 7", ["gemm", *SIZES, "--m", 7]),
            ("--kernel is given 2 times", "leave all but one out", ["gemm", *SIZES, "--kernel", "a", "--kernel", "b"]),
            ("--n needs a value", "write --n N", ["gemm", "--m", 5, "--n"]),
            ("--out needs a value", "NAME=FILE", ["gemm", *SIZES, "--out"]),
            ("cannot read -x", "a text would have a def", ["gemm", *SIZES, "--epilogue", "-x"]),
            ("-o is required", "-o libNAME.so", ["build", "p.py"]),
            ("program is required", "codetta run PROGRAM.py", ["run"]),
            ("there is no form 'nvc'", "did you mean 'nvcc'?", ["build", "p.py", "-o", library, "--form", "nvc"]),
            ("nothing is built via 'cutlas'", "did you mean 'cutlass'?", ["build", "p.py", "-o", library, "--via", "cutlas"]),
            ("'extra' is not expected", "gemm takes options only", ["gemm", *SIZES, "extra"]),
            ("'check' is not expected", "did you mean '--check'?", ["gemm", *SIZES, "check"]),
            ("'b' is not expected", "run takes one word that is no option (program)", ["run", "a", "b"]),
            ("bench has no option --check", "gemm and run take it", ["bench", *SIZES, "--check"]),
            ("gemm has no option --tset", "codetta help gemm", ["gemm", *SIZES, "--tset", 4]),
            ("gemm has no option --thread", "did you mean '--threads'?", ["gemm", *SIZES, "--thread", 4]),
            ("gemm has no option --version", "write codetta --version", ["gemm", "--version"]),
            ("--json takes no value", "write --json alone", ["gemm", *SIZES, "--json=5"]),
            ("--check takes no value", "it is given 'maybe'", ["gemm", *SIZES, "--check=maybe"]),
            ("'abc' is not a number of seconds", "codetta help gemm", ["gemm", *SIZES, "--compile-timeout", "abc"])):
        done = expect(2, said, *words)
        if then not in done.stderr or (words and words[-1] != "--json=5" and not done.stderr.startswith("error[E0701]: ")):
            FAILURES.append(f"{words} lacks {then!r}: {done.stderr}")
        for raw in ("The following", "At Most", "Could not convert", "not in {", "required but", "missing"):
            if raw in done.stderr:
                FAILURES.append(f"{words}: the parser's own words: {done.stderr}")
    # Options of other commands, and those without an effect.
    for verb in ("kernels", "emit", "bench"):
        expect(2, f"{verb} has no option --force", verb, *SIZES, *cache, "--force")
    for option in (["--target", "cpu"], ["--threads", 2], ["--device", 0], ["--compiler", "x"], ["--debug", "time:passes"]):
        expect(2, f"cache has no option {option[0]}", "cache", *option)
        expect(2, f"help has no option {option[0]}", "help", "gemm", *option)
    for verb in ("run", "build"):
        expect(2, f"{verb} has no option --no-vendor", verb, "p.py", "--no-vendor")
    for option, said in ((["--device", 3], "numbers devices"), (["--devices", "0,1"], "numbers devices"), (["--cuda-home", "/x"], "CUDA toolkit"), (["--no-vendor"], "cuBLASLt"),
                         (["--math", "tf32"], "a CPU multiplies exactly"), (["--force"], "writes no file"),
                         (["--no-compiler", "--compiler", "x"], "no compiler is looked for")):
        for verb in ("gemm", "explain"):
            done = expect(2, "has no effect", verb, *SIZES, *cache, *option)
            if said not in done.stderr:
                FAILURES.append(f"{option}: {done.stderr}")
    expect(2, "--device has no effect with the target cpu:avx2", "doctor", "--target", "cpu:avx2", "--device", 1)
    for both in (["--device", 1, "--devices", "1,0"], ["--devices", "1,0", "--device", 1]):
        expect(2, "--device is not for a command with --devices\nnote: what runs on one device runs on the first of --devices\nhelp: leave out --device", "doctor", *both)
    expect(2, "--devices", "doctor", "--devices", "0,-1")
    expect(2, "--no-vendor has no effect with the target hip:gfx942", "emit", *SIZES, "--target", "hip:gfx942", "--no-vendor")
    expect(2, "--pack has no effect with the target cuda\nnote: it packs B, which kernels of GPUs read where it lies, and is for CPUs", "gemm", *SIZES, "--target", "cuda", "--pack")
    expect(2, "--device has no effect with CUTLASS", "emit", "--what", "evt", *SIZES, "--target", "cutlass:sm_90a", "--device", 1)
    expect(0, "sm80", "kernels", *SIZES, *cache, "--target", "cuda:sm_80", "--no-vendor", "--math", "tf32", "--device", 0)
    expect(0, "", "gemm", *SIZES, *cache, "--math", "strict")
    p, library = folder / "p.py", folder / "libx.so"
    for verb in (["run", p], ["explain", p], ["emit", p], ["compile", p], ["build", p, "-o", library]):
        expect(2, "--math tf32 has no effect with the target cpu:avx2", *verb, *cache, "--target", "cpu:avx2", "--math", "tf32")
        for target in ("hip:gfx942", "metal:apple9"):
            expect(2, f"--math tf32 has no effect with the target {target}", *verb, *cache, "--target", target, "--math", "tf32")
        expect(2, "did you mean 'tf32'?", *verb, *cache, "--target", "cuda:sm_80", "--math", "tf23")
        expect(2, "--strict takes no value", *verb, *cache, "--strict=yes")
    expect(2, "--force has no effect", "gemm", *SIZES, *cache, "--force", "--out", "D=[M,N]:bf16")
    for option in (["--out", "y=y.npy"], ["--check"], ["--values"], ["--trap", "nan"], ["--save-values", folder / "values"], ["--trace", folder / "t.json"]):
        expect(2, f"{option[0]} has no effect with --bisect", "run", folder / "p.py", *cache, "--bisect", *option)
    expect(2, "--graph has no effect with the target cpu", "run", folder / "p.py", *cache, "--graph", "--target", "cpu")
    for option in (["--bisect"], ["--values"], ["--trap", "nan"], ["--save-values", folder / "values"], ["--trace", folder / "t.json"]):
        expect(2, f"--graph is not possible with {option[0]}", "run", folder / "p.py", *cache, "--target", "cuda", "--graph", *option)
    expect(2, "--graph is not possible with --check", "run", folder / "p.py", *cache, "--target", "cuda", "--graph", "--check", "--kernel", "k=k.cu")
    expect(2, "--hint m is given twice", "run", folder / "p.py", *cache, "--bisect", "--hint", "m=4", "--hint", "m=8")
    expect(2, "--compile-timeout has no effect with --no-compiler", "gemm", *SIZES, *cache, "--no-compiler", "--compile-timeout", 5)
    expect(2, "--cache-dir has no effect with --no-cache", "gemm", *SIZES, *cache, "--no-cache")
    a, b, x = array(folder / "seed_a.npy", (5, 3)), array(folder / "seed_b.npy", (3, 7)), array(folder / "seed_x.npy", (4, 3))
    for verb in ("explain", "kernels", "emit", "compile"):
        expect(2, "--seed has no effect", verb, *SIZES, *cache, "--seed", 3)
    for verb in ("gemm", "bench", "tune"):
        expect(2, "--seed has no effect", verb, "--a", a, "--b", b, *cache, "--seed", 3)
    expect(0, "check", "gemm", "--a", a, "--b", b, *cache, "--seed", 3, "--check")
    expect(0, "check", "verify", "--a", a, "--b", b, *cache, "--seed", 3)
    expect(0, "", "gemm", "--a", a, "--n", 7, *cache, "--seed", 3)
    adds = ["gemm", "--a", a, "--b", b, *cache, "--epilogue", "def f(accum, C): D = accum + C; return D", "--seed", 3]
    expect(0, "", *adds, "--tensor", "C=[N]:f32")
    expect(2, "--seed has no effect", *adds, "--tensor", f"C={array(folder / 'seed_c.npy', (7,))}")
    sums = folder / "sums.py"
    sums.write_text("def p(x: f32['m', 3], y: f32['m', 3]):\n    z = x + y\n    return z\n")
    given = ["run", sums, *cache, "--seed", 3, "--tensor", f"x={x}"]
    expect(0, "", *given, "--dim", "m=4")
    expect(0, "", *given, "--tensor", f"y={x}", "--check")
    expect(2, "--seed has no effect", *given, "--tensor", f"y={x}")
    expect(1, "leave out --pack, or say --kernel packed", "gemm", *SIZES, *cache, "--pack", "--kernel", "in_place")
    expect(2, "help: pass a part of one of these names", "gemm", *SIZES, *cache, "--kernel", "zzzzzz")
    expect(0, "wrote", "gemm", *SIZES, *cache, "--force", "--out", f"D={folder / 'forced.npy'}")


def helped():
    """help: verbs with their options in groups, pages of errors, all of it as JSON, too."""
    pages = pathlib.Path(__file__).parents[2] / "docs" / "errors"
    listed = expect(0, "E0207  shapes do not broadcast", "help", "errors").stdout.splitlines()
    if [line.split()[0] for line in listed] != sorted(page.stem for page in pages.glob("E*.md")):
        FAILURES.append("help errors does not list the pages")
    for word in ("E0207", "e0207", "207"):
        if expect(0, "", "help", word).stdout != (pages / "E0207.md").read_text():
            FAILURES.append(f"help {word} is not the page")
    page = strict_json(expect(0, "", "help", "E0701", "--json").stdout, "help E0701 --json")
    if page.get("headline") != "command line is not understood" or page.get("page") != (pages / "E0701.md").read_text():
        FAILURES.append(f"help E0701 --json: {page}")
    if {row["code"] for row in strict_json(expect(0, "", "help", "errors", "--json").stdout, "help errors")} != {line.split()[0] for line in listed}:
        FAILURES.append("help errors --json lists others")
    expect(2, "did you mean E0207?", "help", "E0270")
    expect(2, "no error has the code E9999", "help", "E9999")
    expect(2, "did you mean 'kernels'?", "help", "kernel")
    expect(2, "did you mean 'errors'?", "help", "error")
    if "version" not in strict_json(expect(0, "", "--version", "--json").stdout, "--version"):
        FAILURES.append("--version --json has no version")
    verbs = [row["command"] for row in strict_json(expect(0, "", "help", "--json").stdout, "help").get("commands", [])]
    if len(verbs) < 13:
        FAILURES.append(f"help --json lists {verbs}")
    order = ["Arguments", "Input", "Epilogue", "Target", "CUTLASS", "Checking and measuring", "Output", "Cache", "Other"]
    for verb in verbs:
        shown = expect(0, "", verb, "--help").stdout
        if shown != expect(0, "", "help", verb).stdout:
            FAILURES.append(f"help {verb} is not {verb} --help")
        groups = [line[:-1] for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
        if groups != sorted(groups, key=order.index):
            FAILURES.append(f"{verb} --help: groups {groups}")
        if max(map(len, shown.splitlines())) > 110:
            FAILURES.append(f"{verb} --help has long lines")
        options = strict_json(expect(0, "", "help", verb, "--json").stdout, verb).get("options", [])
        # Every option of the verb has a place in help: one that has none is refused as unknown only if it is unknown.
        names = {name for row in options for name in row["option"].split()[0].split(",")}
        if "--help" not in names or "--json" not in names:
            FAILURES.append(f"help {verb} --json lists {names}")
        if any(not row["group"] or not row["text"] for row in options):
            FAILURES.append(f"help {verb} --json: {options}")


def doctor(folder, cache):
    """doctor tells of a target whether what it needs is here; nothing is both ok and none."""
    expect(2, "did you mean", "doctor", "--target", "cpuu", *cache)
    done = expect(2, "E0401", "doctor", "--target", "zz", *cache)
    if done.stdout:
        FAILURES.append(f"doctor --target zz: {done.stdout}")
    whole = expect(0, "host compiler", "doctor", *cache).stdout
    if "ok       none" in whole:
        FAILURES.append(f"doctor: ok and none: {whole}")
    expect(0, "all that cpu:generic needs is here", "doctor", "--target", "cpu:generic", *cache)
    expect(0, "Apple's tools", "doctor", "--target", "metal", *cache)
    rows = {row["what"]: row for row in strict_json(expect(0, "", "doctor", "--json", "--target", "cpu", *cache).stdout, "doctor")}
    if not rows["target"]["ok"] or not rows["host compiler"]["needed"] or rows["NVIDIA driver"]["needed"] or rows["HIP runtime"]["needed"]:
        FAILURES.append(f"doctor --target cpu: {rows}")
    # A folder of the cache's that others may write.
    kept = folder / "kept"
    for name, mode in (("a0", 0o755), ("b9", 0o775), ("c1", 0o777), ("locks", 0o777)):
        (kept / name).mkdir(parents=True)
        (kept / name).chmod(mode)
    said = f"its group (mode 775) may write to {kept}/b9 (chmod 700 closes it), and another of its folders cannot be used; kernels that belong there are compiled but not kept"
    row = next(row for row in strict_json(expect(3, "", "doctor", "--json", "--cache-dir", kept).stdout, "doctor") if row["what"] == "cache")
    if row["ok"] or row["detail"] != said or f"`chmod -R go-w {kept}`" not in row["help"]:
        FAILURES.append(f"doctor of a cache that others may write: {row}")
    expect(0, said, "cache", "--cache-dir", kept)
    subprocess.run(["chmod", "-R", "go-w", kept], check=True)
    for words in (["doctor"], ["cache"]):
        if "may write" in expect(0, " entries, ", *words, "--cache-dir", kept).stdout:
            FAILURES.append(f"{words} of a cache that is closed")
    for target, driver in (("cuda", "NVIDIA driver"), ("cuda:sm_90a", "NVIDIA driver"), ("hip", "HIP runtime")):
        done = run("doctor", "--json", "--target", target, *cache)
        rows = {row["what"]: row for row in strict_json(done.stdout, target)}
        if not rows[driver]["needed"] or rows["host compiler"]["needed"] or done.returncode != (0 if all(r["ok"] for r in rows.values() if r["needed"]) else 3):
            FAILURES.append(f"doctor --target {target}: {done.returncode} {rows}")
        if not rows[driver]["ok"]:
            expect(3, f"something that {target} needs is missing", "doctor", "--target", target, *cache)
    done = expect(3, "no GPU of this machine has this number", "doctor", "--device", 1000, *cache)
    if "device 1000      missing" not in done.stdout:
        FAILURES.append(f"doctor --device 1000: {done.stdout}")
    empty = {key: value for key, value in os.environ.items() if key != "CODETTA_CUTLASS_DIR"}
    expect(3, "no folder of CUTLASS is named", "doctor", "--target", "cutlass:sm_90a", *cache, env=empty)


def fusion(cache):
    """explain and --debug explain:fusion tell of every GEMM what is fused and what became strides."""
    epilogue = "def f(accum, bias, C): D = relu((accum + bias) * 1.0) + C; s = sum(D, 1); return D, s"
    given = [*SIZES, "--transpose-b", "--tensor", "bias=[N]:f32", "--tensor", "C=[M,N]:f32", "--epilogue", epilogue, *cache]
    wanted = ["x * 1 = x (1 times)", "3 operations (add, relu, add) on the accumulators", "input bias: read where it is used, one value a column",
              "input C: read where it is used, element by element", "output s: written once", "the sum of each row is collected",
              "A: lies as [M, K], read as it is", "B: lies as [N, K]; the transposition is in its strides"]
    said = expect(0, "", "explain", *given).stdout
    lines = strict_json(expect(0, "", "explain", *given, "--json").stdout, "explain").get("fusion", [])
    logged = expect(0, "", "gemm", *given, "--debug", "explain:fusion").stderr
    for part in wanted:
        if part not in said or part not in logged or not any(part in line for line in lines):
            FAILURES.append(f"explain lacks {part!r}:\n{said}\n{lines}\n{logged}")
    for words in (["explain", *SIZES, *cache], ["explain", *SIZES, "--target", "cuda:sm_90a", "--dtype", "bf16", *cache]):
        expect(0, "rewrites: none applies", *words)
        expect(0, "epilogue: no operation; the accumulators are stored as they are", *words)
    for k, said in ((64, "before they leave the kernel"), (65536, "which slices of K leave in the workspace")):
        expect(0, said, "explain", "--target", "cuda:sm_90a", "--m", 64, "--n", 128, "--k", k, "--dtype", "bf16", "--epilogue", "def f(accum): D = relu(accum); return D", "--no-vendor", *cache)
    normalised = ("def f(accum): mu = mean(accum, axis='column'); x = accum - mu; v = mean(x * x, axis='column'); D = x / sqrt(v + 1e-5); "
                  "return D")
    said = expect(0, "kept in the workspace", "explain", "--m", 512, "--n", 512, "--k", 64, "--epilogue", normalised, *cache).stdout
    if not all(name in said for name in ("epilogue: ", "sqrt", "mul")) or "no operation" in said or "while they are in registers" in said:
        FAILURES.append(f"explain of operations in later phases: {said}")
    experts = "def f(accum): D = accum / sum(accum, axis='row'); return D"
    for said in ("of which a piece holds whole rows", "phases: 2, one behind the other in the product's own kernel"):
        expect(0, said, "explain", "--target", "cuda:sm_80", "--m", 4096, "--n", 64, "--k", 512, "--dtype", "bf16", "--epilogue", experts, "--no-vendor", *cache)
    expect(0, "accumulators are kept for 1 of them", "explain", "--target", "cuda:sm_80", "--m", 4096, "--n", 256, "--k", 512, "--dtype", "bf16", "--epilogue", experts, "--no-vendor", *cache)
    expect(2, "cpu_fused: the epilogue uses", "gemm", *SIZES, "--kernel", "fused", "--epilogue", normalised, *cache)
    if re.search(r"[0-9]\.[0-9]{5,} bytes/ns", said):
        FAILURES.append(f"explain prints every digit of a rate: {said}")
    logged = expect(0, "B: lies as [K, N], read as it is", "gemm", *SIZES, *cache, "--debug", "explain:fusion").stderr
    if "codetta: " not in logged or "[N, K]" in logged:
        FAILURES.append(f"explain:fusion of a plain product: {logged}")


def stages_of_programs(program, cache):
    """--debug tells the stages of a program as those of a GEMM, whether the cache has it or not."""
    for key, wanted in (("time:passes", r"codetta: fold_constants: [0-9.]+ us"), ("dump:graph", r"codetta: %0:f32\[n, 8\] = input \"x\""),
                        ("dump:plan", r"temporary|argument x: f32\[n, 8\]"), ("dump:memory", r"temporaries: 0 bytes"), ("dump:source", r"Generated by Codetta"),
                        ("explain:fusion", r"element by element: relu")):
        for _ in range(2):
            logged = expect(0, "", "run", program, *cache, "--debug", key).stderr
            if not re.search(wanted, logged):
                FAILURES.append(f"run --debug {key} of a program says {logged!r}")


def on_a_terminal(cache):
    """What takes its time is told on a terminal, in a line that goes away; elsewhere and with --json nothing is."""
    for more, told in (([], True), (["--json"], False)):
        ours, theirs = pty.openpty()
        subprocess.run([COMMAND, *map(str, ["gemm", *SIZES, "--check", *more, *cache])], stdout=subprocess.DEVNULL, stderr=theirs, timeout=120, check=True)
        os.set_blocking(ours, False)
        os.close(theirs)
        try:
            said = os.read(ours, 4096)
        except OSError:
            said = b""
        os.close(ours)
        if told != (b"comparing with the float64 oracle\r\x1b[K" in said) or (not told and said):
            FAILURES.append(f"gemm --check {more} on a terminal: {said}")
    if expect(0, "pass", "gemm", *SIZES, "--check", *cache).stderr:
        FAILURES.append("gemm --check tells of its progress where no terminal is")


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
        no_control_on_metal(folder, cache)
        larger_than_the_machine(cache)
        before_the_work(folder, cache)
        words_of_the_command(folder, cache)
        in_our_words(folder, cache)
        helped()
        doctor(folder, cache)
        fusion(cache)
        stages_of_programs(program, cache)
        on_a_terminal(cache)
        interrupted(folder)
        literals(cache)
    return outcome()


if __name__ == "__main__":
    sys.exit(main())
