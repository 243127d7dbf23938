# SPDX-License-Identifier: Apache-2.0
"""What the codetta command makes of its arguments: names, sizes, types, `# bind:` lines, programs, a machine without a
compiler. Argument: the built command."""
import concurrent.futures
import json
import os
import pathlib
import resource
import shutil
import stat
import subprocess
import sys
import tempfile

from cli_support import COMMAND, FAILURES, array, expect, outcome, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = ["--m", "5", "--n", "7", "--k", "3"]
RELU = "def f(accum): D = relu(accum); return D"


def shape_of(path):
    text = path.read_bytes()[:200].decode("latin-1")
    return text[text.index("'shape':") + 9:text.index(")") + 1]


def names(folder, cache):
    """Operands may have any name; outputs and operands are not taken for each other."""
    for name in ("A", "B"):
        epilogue = ["--epilogue", f"def f(accum, {name}): D = accum + {name}; return D", "--tensor", f"{name}=[M,N]:f32"]
        expect(0, "pass", "verify", *SIZES, *cache, *epilogue)
        expect(0, "1 candidate in", "tune", *SIZES, *cache, *epilogue, "--candidates", 1)
    add = ["gemm", *SIZES, *cache, "--epilogue", "def f(accum, C): D = accum + C; return D"]
    expect(2, "C is an operand", *add, "--out", f"C={folder / 'C.npy'}")
    expect(2, "D is given twice", *add, "--tensor", "C=[M,N]", "--tensor", "D=[M,N]", "--out", f"D={folder / 'D.npy'}")
    expect(1, "Unexpected keyword arguments for epilogue: E", *add, "--tensor", "C=[M,N]", "--out", f"E={folder / 'E.npy'}")
    expect(1, "D is expected to be a output node", "gemm", *SIZES, *cache, "--epilogue", "def f(accum): F = accum * 2.0; return F", "--out", f"D={folder / 'D.npy'}")
    expect(2, "--function g names a function of no text", "gemm", *SIZES, *cache, "--function", "g")
    data = array(folder / "A.npy", (5, 3))
    before = data.read_bytes()
    expect(2, "would overwrite", "gemm", "--a", data, "--n", 3, *cache, "--out", f"D={folder}/../{folder.name}/A.npy")
    if data.read_bytes() != before:
        FAILURES.append("--out overwrote what --a read")
    expect(0, "", "gemm", "--a", data, "--n", 3, *cache, "--out", f"D={data}", "--force")
    turned = array(folder / "turned.npy", (3, 5))
    expect(2, "which --transpose-a turns to f32[5, 3]", "gemm", "--a", turned, "--transpose-a", "--m", 6, "--n", 3, *cache)
    strange = folder / "\x1b[31mred.npy"
    told = expect(0, "wrote", "gemm", *SIZES, *cache, "--out", f"D={strange}").stdout
    if "\x1b" in told or "\\x1b[31mred" not in told:
        FAILURES.append(f"an escape byte in: {told!r}")


def outputs(folder, cache):
    """Outputs may have no dims; a file that is replaced stays as private as it was."""
    total = ["gemm", *SIZES, *cache, "--epilogue", "def f(accum): D = accum; s = sum(accum, keepdim=False); return D, s", "--check"]
    private = folder / "private.npy"
    private.write_bytes(b"")
    private.chmod(0o600)
    for shape in ("[]", "[1]"):
        expect(0, "s: 1 of 1 elements checked", *total, "--out", f"s={shape}:f32")
        expect(0, "wrote", *total, "--out", f"s={private}@{shape}:f32")
        if shape_of(private) != f"({shape[1:-1]}{',' if shape == '[1]' else ''})":
            FAILURES.append(f"s={shape} is written with the shape {shape_of(private)}")
    if private.stat().st_mode & 0o777 != 0o600:
        FAILURES.append(f"a file of mode 600 is replaced by one of {private.stat().st_mode & 0o777:o}")
    expect(0, "s: 1 of 1 elements checked", *total)
    expect(1, "s is bound as [2] but its value has shape []", *total, "--out", "s=[2]:f32")
    # Shapes that nobody says are those of the values.
    text = "def f(accum): r = sum(accum, axis='row'); c = max(accum, axis='column'); i = mean(accum, dim=(-2, -1)); x, y = split(reshape(accum, (-1, 7, 2)), 2, dim=-1); D = x * y; return D, r, c, i"
    shaped = ["gemm", "--batch", 3, "--m", 5, "--n", 14, "--k", 3, *cache, "--check", "--epilogue", text]
    said = expect(0, "pass", *shaped).stdout
    for line in ("D: 105 of 105 ", "r: 15 of 15 ", "c: 42 of 42 ", "i: 3 of 3 "):
        if line not in said:
            FAILURES.append(f"no '{line}' in\n{said}")
    expect(0, "wrote", *shaped, "--out", f"D={folder / 'shaped.npy'}")
    if shape_of(folder / "shaped.npy") != "(15, 7, 1)":
        FAILURES.append(f"a shape that follows from the value is {shape_of(folder / 'shaped.npy')}")


def numbers(cache):
    """Sizes are decimal integers; types of integers follow the accumulator."""
    for size in ("010", "0x10", "3.5", "1e3", "+5", "-0", "", " 5", "9" * 30):
        expect(2, "error[E0701]", "gemm", "--m", size, "--n", 4, "--k", 4, *cache)
    expect(2, "'0x10' is not a whole number in decimal digits", "gemm", "--m", "0x10", "--n", 4, "--k", 4, *cache)
    expect(2, "out of range", "gemm", *SIZES, *cache, "--threads", 99999)
    for dtype, accumulator in (("i16", "i64"), ("i32", "i64"), ("i8", "i32"), ("u8", "i32")):
        wanted = f"{accumulator}[5, 7]" if accumulator == "i64" else ""
        text = "def f(accum): D = accum; F = accum; return D, F"
        expect(0, "pass", "gemm", *SIZES, *cache, "--dtype", dtype, "--check", "--epilogue", f"# bind: D=out[M,N]:{accumulator} F=out[M,N]:acc\n{text}")
        graph = expect(0, "", "emit", *SIZES, *cache, "--dtype", dtype, "--what", "graph").stdout
        if accumulator not in graph:
            FAILURES.append(f"{dtype}: the accumulator is not {accumulator} ({wanted}) in\n{graph}")
    for epilogue, stored in (("accum * 0.5", "f32"), ("gelu(accum)", "f32"), ("accum + 1", "i32"), ("accum > 3", "i32")):
        text = expect(0, "pass", "gemm", *SIZES, *cache, "--dtype", "u8", "--check", "--epilogue", f"def f(accum): D = {epilogue}; return D").stdout
        plan = expect(0, "", "emit", *SIZES, *cache, "--dtype", "u8", "--what", "plan", "--epilogue", f"def f(accum): D = {epilogue}; return D").stdout
        if f"output D: {stored}" not in plan:
            FAILURES.append(f"D = {epilogue} of u8 is not stored as {stored}:\n{plan}{text}")
    zero = expect(0, "pass", "verify", "--m", 64, "--n", 64, "--k", 0, *cache, "--epilogue", "def f(accum): D = accum; return D")
    if "proves nothing" in zero.stdout:
        FAILURES.append(zero.stdout)
    expect(1, "proves nothing", "verify", "--m", 64, "--n", 64, "--k", 9, *cache, "--epilogue", "def f(accum): D = accum % 1e-7; return D")


def factors(folder, cache):
    """What a file holds is said where it is no matrix."""
    vector = array(folder / "vector.npy", (5,))
    for more in ([], ["--n", 7], ["--m", 5, "--n", 7, "--k", 3], ["--n", 7, "--transpose-a"]):
        expect(2, "vector.npy holds no matrix for A", "gemm", "--a", vector, *more, *cache)
    expect(2, "vector.npy holds no matrix for B", "gemm", "--m", 3, "--k", 5, "--b", vector, *cache)
    expect(2, "no command is given")
    expect(2, "there is no command 'gemmm'", "gemmm", *SIZES)
    expect(2, "did you mean 'gemm'?", "gemmm", *SIZES)


def bind_lines(folder, cache):
    """The line of a text is all that is bound, and says something."""
    for path in sorted((ROOT / "examples/epilogues/failing").glob("*.py")):
        wanted = next(line for line in path.read_text().splitlines() if line.startswith("# expect: "))[10:].strip()
        expect(1, wanted, "gemm", *SIZES, *cache, "--epilogue", path)
    for line, said in (("C=tensor[M,N", "no closing"), ("the outputs", "'the' binds nothing"), ("D=output[M,N]", "binds nothing"), ("N=x", "binds nothing"),
                       ("Q=4", "binds nothing"), ("C=tensor[M,N]:T C=scalar:1", "bound twice"), ("C=scalar:x", "not a number")):
        epilogue = folder / "bind.py"
        epilogue.write_text(f"# bind: {line}\ndef f(accum, C):\n    D = accum + C\n    return D\n")
        expect(2, said, "gemm", *SIZES, *cache, "--epilogue", epilogue)
    inside = folder / "inside.py"
    inside.write_text("def f(accum):  # a comment: # bind: nonsense\n    D = relu(accum)\n    return D\n")
    expect(0, "", "gemm", *SIZES, *cache, "--epilogue", inside)
    for device in ("/dev/zero", "/dev/urandom"):
        expect(2, "it is a device", "gemm", *SIZES, *cache, "--epilogue", device)
    piped = subprocess.run([COMMAND, "gemm", *SIZES, *map(str, cache), "--epilogue", "/dev/stdin", "--check"], input=RELU, capture_output=True, text=True, timeout=120)
    if piped.returncode != 0:
        FAILURES.append(f"an epilogue from a pipe: {piped.stderr}")


def places(folder, cache):
    """Outputs go through links, and into pipes and devices, all of which stay what they are."""
    relu = ["gemm", *SIZES, *cache, "--epilogue", "def f(accum): D = relu(accum); F = accum; return D, F"]
    plain, link, pipe, beside = (folder / name for name in ("plain.npy", "link.npy", "pipe", "beside.npy"))
    expect(0, "", *relu, "--out", f"D={plain}")
    wanted = plain.read_bytes()
    plain.write_bytes(b"former")
    link.symlink_to(plain)
    expect(0, "", *relu, "--out", f"D={link}")
    if not link.is_symlink() or plain.read_bytes() != wanted:
        FAILURES.append("--out replaced a link, not the file behind it")
    # A link to a file that is not there yet makes that file, for two outputs as for one; links in a circle lead nowhere.
    ahead, absent, circle = (folder / name for name in ("ahead.npy", "absent.npy", "circle.npy"))
    ahead.symlink_to(absent.name)
    expect(2, "D and F would be written to the same place", *relu, "--out", f"D={ahead}", "--out", f"F={absent}")
    expect(0, "", *relu, "--out", f"D={ahead}")
    if not ahead.is_symlink() or not absent.exists() or absent.read_bytes() != wanted:
        FAILURES.append("--out did not make the file that a link leads to")
    circle.symlink_to(circle.name)
    for nowhere, why in ((circle, "Too many levels of symbolic links"), (folder / ("x" * 300 + ".npy"), "File name too long")):
        early = expect(3, f"cannot write {nowhere}\nnote: {why}", *relu, "--out", f"D={nowhere}")
        if early.stdout:
            FAILURES.append(f"{nowhere} was found not to be writable after the work\n{early.stdout}")
    if not circle.is_symlink():
        FAILURES.append("--out replaced a link that leads to itself")
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        expect(0, "", *relu, "--out", f"D={pipe}")
        if reader.poll() is None and not pipe.is_fifo():
            reader.kill()
        if reader.communicate(timeout=60)[0] != wanted or not pipe.is_fifo():
            FAILURES.append("--out did not write into a pipe")
    full = folder / "full"
    try:
        os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except OSError:  # only root may, and only root could replace the system's own
        full = pathlib.Path("/dev/full")
    if not full.is_char_device():
        return
    expect(3, f"cannot write {full}", *relu, "--out", f"D={beside}", "--out", f"F={full}")
    for nowhere in (folder / "missing" / "F.npy", folder):  # said before anything is computed
        early = expect(3, f"cannot write {nowhere}", *relu, "--out", f"D={beside}", "--out", f"F={nowhere}")
        if early.stdout or beside.exists():
            FAILURES.append(f"{nowhere} was found not to be writable after the work\n{early.stdout}")
    expect(3, f"cannot write {full}", "explain", *SIZES, *cache, "--report", full)
    if not full.is_char_device() or beside.exists():
        FAILURES.append("a full device was replaced, or an output that goes with it was written")


def no_room_for_results():
    """Results that standard output does not take are said to be lost, with a code."""
    for arguments in (["--version"], ["kernels", *SIZES, "--json"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        said = json.loads(done.stderr)["diagnostics"][0] if "--json" in arguments else {}
        as_json = not said or (said["code"] == "E0543" and said["name"] == "output_unwritable")
        as_text = said or "error[E0543]: the results cannot be written to standard output" in done.stderr
        if done.returncode != 3 or not (as_json and as_text):
            FAILURES.append(f"{arguments} into a full device: status {done.returncode}\n{done.stderr}")


def tuned_libraries(folder, cache):
    """Programs that do not end, or crash, while a library of them is tuned."""
    endless, kernel = folder / "endless.py", folder / "kernel.py"
    endless.write_text("def more(x: f32[8, 8]):\n    return sum(x * x) >= 0.0\n\n"
                       "def step(x: f32[8, 8]):\n    return relu(x @ x) * 0.0\n\n"
                       "def endless(x: f32[8, 8]):\n    y = while_loop(more, step, x)\n    return y\n")
    kernel.write_text('def calls(x: f32[4, 4]):\n    y = user_kernel("own", x, out="f32[4, 4]")\n    return y\n')
    tuned = ["-o", folder / "libtuned.so", *cache, "--tune", "--budget", "0.1"]
    expect(1, "error[E0651]: a run of endless takes longer than 0.5 s", "build", endless, *tuned, "--trial", "0.5")
    expect(2, "--trial: '0' is not a number of seconds", "build", endless, *tuned, "--trial", "0")
    for name, body, said in (("hangs", "for (volatile int i = 0; i < 1;) {}", "error[E0651]: a run of calls takes longer than 0.5 s"),
                             ("crashes", "*(volatile int*)8 = 1;", "error[E0617]: calls crashed in its first run while it was tuned")):
        own = folder / f"{name}.cc"
        own.write_text(f"void own(Tensor<const float, 2> x, Tensor<float, 2> y) {{ y(0, 0) = x(0, 0); {body} }}\n")
        expect(1, said, "build", kernel, *tuned, "--kernel", f"own={own}", "--trial", "0.5")
    if (folder / "libtuned.so").exists():
        FAILURES.append("a library was built though tuning it failed")
    source = ["--kernel", f"own={folder / 'hangs.cc'}"]
    expect(0, "picked   user_own", "explain", kernel, *cache, *source)
    expect(0, "own", "emit", kernel, *cache, *source, "--what", "plan")
    expect(0, "compiled", "compile", kernel, *cache, *source)
    expect(1, "error[E0311]", "explain", kernel, *cache)
    expect(1, "the program calls no kernel other", "explain", kernel, *cache, "--kernel", f"other={folder / 'hangs.cc'}")
    expect(2, "--kernel is given 2 times", "emit", *SIZES, *cache, "--kernel", "simt", "--kernel", "packed")


def programs(folder, cache):
    """Missing inputs are named where they are declared; outputs have the sizes that follow."""
    program = folder / "p.py"
    program.write_text('def p(x: f32["b", 6], w: f32[6, "n"]):\n    y = relu(x @ w)\n    return y\n')
    x, w = array(folder / "x.npy", (4, 6)), array(folder / "w.npy", (6, 8))
    missing = expect(1, "error[E0208]: argument w is not provided", "run", program, *cache, "--tensor", f"x={x}")
    expect(0, "y = f32[16, 16]", "run", program, *cache)
    if "help: pass --tensor w=FILE; with --check or --dim, parameters that are not given are random" not in missing.stderr:
        FAILURES.append(f"no option: {missing.stderr}")
    if "p.py:1:" not in missing.stderr:
        FAILURES.append(f"no position: {missing.stderr}")
    expect(0, "", "run", program, *cache, "--tensor", f"x={x}", "--tensor", f"w={w}")
    expect(2, "would overwrite", "run", program, *cache, "--tensor", f"x={x}", "--tensor", f"w={w}", "--out", f"y={w}")
    program.write_text('def p(x: f32["b", 6], w: f32[6, "n"]):\n    y = relu(x @ w)\n    return y\n')
    for more in ([], ["--check"]):
        expect(2, "--dim b=5 contradicts the tensors that are given", "run", program, *cache, "--tensor", f"x={x}", "--dim", "b=5", "--dim", "n=8", *more)
    expect(0, "pass", "run", program, *cache, "--tensor", f"x={x}", "--dim", "b=4", "--dim", "n=8", "--check")
    expect(2, "'[4,6]:f32' is no file", "run", program, *cache, "--tensor", "x=[4,6]:f32", "--check")
    # Epilogues and programs that are taken for each other.
    expect(1, "codetta run FILE", "gemm", *SIZES, *cache, "--epilogue", program)
    expect(1, "codetta gemm --epilogue FILE", "run", ROOT / "examples/epilogues/relu_aux_store.py", *cache)
    # Random indices are in range, also of branches.
    program.write_text('def one(t, i):\n    return take(t, i)\n\ndef two(t, i):\n    return take(t, i) * 2.0\n\ndef p(t: f32[7, 8], i: i32["n"], flag: bool):\n    y = cond(flag, one, two, t, i)\n    return y\n')
    expect(0, "pass", "run", program, *cache, "--check", "--dim", "n=50")
    # Too large for the oracle, and not to be had in the smallest sizes.
    program.write_text('def p(x: f32["n - 100", 256], b: f32["n", 1], w: f32[256, 256]):\n    y = relu((((x @ w) @ w) @ w) @ w)\n    s = sum(y) + sum(b)\n    return s\n')
    expect(1, "instead   random data, n = 128", "run", program, *cache, "--check", "--dim", "n=80000")
    program.write_text('def p(x: f32["b", 6], w: f32[6, "n"]):\n    gate, up = split(x @ w, 2, dim=-1)\n    y = relu(gate) * up\n    return y\n')
    out = folder / "y.npy"
    done = run("run", program, *cache, "--tensor", f"x={x}", "--tensor", f"w={w}", "--out", f"y={out}")
    if done.returncode == 0 and shape_of(out) != "(4, 4)":
        FAILURES.append(f"half of 8 columns: {shape_of(out)}")
    if done.returncode != 0 and ("error[E0701]" in done.stderr or "not known" in done.stderr):
        FAILURES.append(f"an output of derived size: {done.stderr}")
    # Outputs of which the run computes the size, with room for what bounds it, or as much as is said.
    program.write_text('def p(x: f32["b", 6], k: i64, m: i64):\n    y = x[:k] * 2.0\n    z = arange(m)\n    return y, z\n')
    sizes = ["--tensor", f"x={x}", "--scalar", "k=3", "--scalar"]
    expect(0, "y = f32[3, 6]\nz = i64[16]\n", "run", program, *cache, *sizes, "m=16", "--out", f"y={out}", "--force")
    if shape_of(out) != "(3, 6)":
        FAILURES.append(f"3 of 4 rows: {shape_of(out)}")
    expect(1, "note: it is 17, and 0 to 16 is wanted; room in dim 0 of output z", "run", program, *cache, *sizes, "m=17")
    expect(0, "z = i64[17]\n", "run", program, *cache, *sizes, "m=17", "--dim", "z_capacity=20", "--check")
    expect(1, "it is 3, and 0 to 2 is wanted; room in dim 0 of output y", "run", program, *cache, *sizes, "m=1", "--dim", "y_capacity=2")
    expect(1, "did you mean y_capacity?", "run", program, *cache, *sizes, "m=1", "--dim", "y_capacit=2")
    numbers = ["--dim", "b=9", "--scalar", "k=3", "--scalar", "m=5"]
    expect(0, "pass", "run", program, *cache, "--check", *numbers)
    expect(0, "no step is wrong", "run", program, *cache, "--bisect", *numbers)


def without_compiler(folder):
    """A warm cache serves where no compiler is; what is not in it is interpreted, or an error."""
    cache = ["--cache-dir", folder / "warm"]
    epilogue = ["--epilogue", "def f(accum): D = tanh(accum) * 1.75; return D"]
    expect(0, "compiled", "compile", *SIZES, *cache, *epilogue)
    bare = {**os.environ, "PATH": str(folder / "nothing")}
    warm = json.loads(expect(0, "", "gemm", *SIZES, *cache, *epilogue, "--json", env=bare).stdout or "{}")
    if warm.get("interpreted") is not False:
        FAILURES.append(f"a warm cache without a compiler: {warm}")
    expect(0, "kernel", "gemm", *SIZES, *cache, *epilogue, "--check", env={**bare, "CODETTA_NO_JIT": "1"})
    expect(0, "was compiled already", "compile", *SIZES, *cache, *epilogue, env=bare)
    other = ["--epilogue", "def f(accum): D = tanh(accum) * 2.75; return D"]
    expect(3, "error[E0503]", "gemm", *SIZES, *cache, *other, env={**bare, "CODETTA_NO_JIT": "1"})
    expect(3, "leave out --no-jit and CODETTA_NO_JIT", "gemm", *SIZES, *cache, *other, "--no-jit")
    expect(3, "error[E0501]", "compile", *SIZES, *cache, *other, env=bare)
    expect(3, "error[E0501]", "compile", *SIZES, *cache, *other, "--no-compiler")
    expect(0, "epilogue interpreted", "gemm", *SIZES, *cache, *other, env=bare)
    # What carries compiled code says what to install, and what takes no compiler.
    program = folder / "program.py"
    program.write_text("def doubled(x: f32[8]):\n    y = x * 2.0\n    return y\n")
    for words, command in (("(`--show`, host_text()) takes none", ["build", program, "-o", folder / "libprogram.so"]),
                           ("(`--what=host`) and the source take none", ["emit", "--program", program, "--what", "python"]),
                           ("or ask for the source, which needs none", ["emit", *SIZES, *other, "--what", "asm"])):
        refused = expect(3, "help: install GCC 12 or Clang 16 or a later one, or name one by its absolute path; ", *command, env=bare)
        said = refused.stderr.rpartition("help: ")[2]
        if words not in said or "interpreted" in said:
            FAILURES.append(f"no '{words}' in {refused.stderr}")
    expect(3, "where no compiler is used (no_compiler), runs interpret epilogues", "gemm", *SIZES, *other, "--compiler", "g++-99", "--cache-dir", folder / "cold")
    # One that answers questions and compiles nothing is broken, not missing.
    real, sleep = shutil.which("c++"), shutil.which("sleep")
    broken = folder / "broken"
    broken.mkdir()
    (broken / "g++").write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo "g++: no assembler" >&2; exit 1;; esac\nexec {real} "$@"\n')
    (broken / "g++").chmod(0o755)
    ill = {**os.environ, "PATH": str(broken)}
    expect(3, "compiles nothing", "doctor", "--cache-dir", folder / "ill", env=ill)
    (broken / "g++").write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    expect(0, "no C++ compiler that was found can be used", "gemm", *SIZES, *other, "--cache-dir", folder / "ill2", env=ill)
    # One that hangs is ended at the timeout, asked what it is as well as at work; nothing is interpreted then.
    def hang(hangs, timeout, is_named):
        broken = pathlib.Path(tempfile.mkdtemp(dir=folder))
        (broken / "g++").write_text(f'#!/bin/sh\ncase "$*" in {hangs}) exec {sleep} 300;; esac\nexec {real} "$@"\n')
        (broken / "g++").chmod(0o755)
        named = ["--compiler", broken / "g++"] if is_named else []
        late = expect(3, "error[E0505]", "gemm", *SIZES, "--no-cache", *other, "--compile-timeout", timeout, *named, env={**os.environ, "PATH": str(broken)})
        for words in ("timed out after", str(broken / "g++"), hangs.strip("*"), "raise --compile-timeout"):
            if words not in late.stderr:
                FAILURES.append(f"a compiler that hangs at {hangs}: no '{words}' in {late.stderr}")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for one in [pool.submit(hang, *how, is_named) for how in (("*-dM*", 0.3), ("*-shared*", 10)) for is_named in (False, True)]:
            one.result()
    expect(2, "error[E0703]", "gemm", *SIZES, "--no-cache", *other, "--compile-timeout", "-1")


def internal_errors(folder):
    """What led to status 70 is kept beside the cache."""
    text, cache, throws = folder / "kept.py", folder / "repro_cache", folder / "throws.so"
    text.write_text("def f(accum):\n    D = relu(accum)\n    return D\n")
    (folder / "throws.cpp").write_text('#include <stdexcept>\n#include "codetta/target.hpp"\nnamespace codetta {\n'
                                       'Result<Target> Target::parse(std::string_view) { throw std::logic_error("a bug of \\"ours\\""); }\n}\n')
    subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT / 'include'}", folder / "throws.cpp", "-o", throws], check=True)
    env = {**os.environ, "LD_PRELOAD": str(throws), "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
    done = expect(70, "", "gemm", *SIZES, "--target", "cpu", "--cache-dir", cache, "--epilogue", text, "--json", env=env)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    kept = pathlib.Path(next((line["repro"] for line in lines if "repro" in line), "none"))
    if lines[0]["diagnostics"][0]["code"] != "E0901" or 'a bug of "ours"' not in lines[0]["diagnostics"][0]["headline"] or kept.parent != cache:
        FAILURES.append(f"status 70 says {done.stderr}")
    elif (kept / "epilogue.py").read_text() != text.read_text() or "--epilogue" not in (kept / "command.txt").read_text():
        FAILURES.append(f"{kept} holds {list(kept.iterdir())}")


def little_memory(folder):
    """Too little memory, wherever it runs out, is told with a code of the machine's: no bug of ours."""
    text, cache = folder / "long.py", folder / "little_cache"
    text.write_text("def f(accum):\n    D = accum" + " + accum" * 60000 + "\n    return D\n")
    arguments = ["gemm", *SIZES, "--threads", 1, "--cache-dir", cache, "--epilogue", text, "--json"]
    ended = []
    for megabytes in range(16, 96, 4):
        limit = megabytes << 20
        done = run(*arguments, preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        ended.append(done)
        if done.returncode == 3 and json.loads(done.stderr.splitlines()[0])["diagnostics"][0]["code"] != "E0606":
            FAILURES.append(f"{megabytes} MB: {done.stderr}")
        if done.returncode not in (1, 3, 127):  # 127: too little to load the program
            FAILURES.append(f"{megabytes} MB: status {done.returncode}: {done.stderr}")
    if any("E0419" in one.stderr for one in ended) and not any("E0606" in one.stderr for one in ended):  # not under a sanitizer
        FAILURES.append(f"no limit of memory led to E0606: {[one.returncode for one in ended]}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cache = ["--cache-dir", folder / "cache"]
        names(folder, cache)
        outputs(folder, cache)
        numbers(cache)
        factors(folder, cache)
        bind_lines(folder, cache)
        places(folder, cache)
        no_room_for_results()
        tuned_libraries(folder, cache)
        programs(folder, cache)
        without_compiler(folder)
        internal_errors(folder)
        little_memory(folder)
        for asked in (["help"], ["--help"]):
            expect(0, "Usage: codetta COMMAND [OPTIONS]", *asked)
            expect(0, "How the epilogue is understood", *asked)
        for asked in (["help", "gemm"], ["gemm", "--help"]):
            expect(0, "Usage: codetta gemm [OPTIONS]", *asked)
            expect(0, "--epilogue", *asked)
        expect(2, "did you mean 'gemm'", "help", "gem")
        same = expect(2, "error[E0701]", "gemm", *SIZES, *cache, "gemm")
        if "did you mean 'gemm'" in same.stderr:
            FAILURES.append(f"the same word is suggested: {same.stderr}")
        counted = json.loads(expect(0, "", "cache", *cache, "--json").stdout)
        # What one process found or missed says nothing of the folder.
        if set(counted) != {"directory", "enabled", "warning", "entries", "bytes", "capacity_bytes"}:
            FAILURES.append(f"cache --json: {counted}")
        gelu = ["--epilogue", "def f(accum): D = accum * 1.0 + 0.0 * 2.0; return D"]
        for switch in ("skip:simplify_algebra", "stop:fold_constants"):
            expect(0, "pass", "gemm", *SIZES, *cache, *gelu, "--check", "--debug", switch)
        expect(2, "error[E0702]", "gemm", *SIZES, *cache, *gelu, "--debug", "skip:nothing")
    return outcome()


if __name__ == "__main__":
    sys.exit(main())
