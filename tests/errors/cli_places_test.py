#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# What a command reads is never overwritten by what it writes, two results never go to one file, and what is read is a
# file or a pipe.
#   cli_places_test.py PATH-OF-CODETTA
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

from cli_support import COMMAND, FAILURES, array, expect, outcome, wait_for

SIZES = ["--m", 5, "--n", 7, "--k", 3]
PROGRAM = 'def p(x: f32["n", 8], w: f32[8, 4]):\n    y = relu(x @ w)\n    return y\n'


def files_below(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(folder, said, *arguments):
    """E0701 that names what would be lost, before anything is written."""
    before = files_below(folder)
    done = expect(2, said, *arguments)
    if "error[E0701]" not in done.stderr or "read by this command" not in done.stderr:
        FAILURES.append(f"{' '.join(map(str, arguments))}: {done.stderr}")
    if files_below(folder) != before:
        FAILURES.append(f"{' '.join(map(str, arguments))} changed {folder}")


def libraries(folder, cache):
    """build: library, header and manifest against program, weights, constants and kernels."""
    program = folder / "q.py"
    program.write_text(PROGRAM)
    refused(folder, "the library would overwrite", "build", program, "-o", program, *cache)
    linked, hard = folder / "linked.so", folder / "hard.so"
    linked.symlink_to(program)
    os.link(program, hard)
    refused(folder, "the library would overwrite", "build", program, "-o", linked, *cache)
    refused(folder, "the library would overwrite", "build", program, "-o", hard, *cache)
    refused(folder, "the header would overwrite", "build", program, "-o", folder / "x.so", "--header", folder / "." / "q.py", *cache)
    refused(folder, "the manifest would overwrite", "build", program, "-o", folder / "x.so", "--manifest", program, *cache)
    text = folder / "q.h"
    text.write_text(PROGRAM)
    refused(folder, "the header would overwrite", "build", text, "-o", folder / "libq.so", *cache)
    text = folder / "q.json"
    text.write_text(PROGRAM)
    refused(folder, "the benchmark would overwrite", "build", program, "-o", folder / "x.so", "--benchmark", program, *cache)
    refused(folder, "the manifest would overwrite", "build", text, "-o", folder / "libq.so", *cache)
    sources = folder / "sources"
    sources.mkdir()
    (sources / "build.sh").write_text(PROGRAM)
    refused(sources, "build.sh would overwrite", "build", sources / "build.sh", "-o", sources, "--form", "nvcc", "--target", "cuda:sm_80",
            *cache)
    archive, w = folder / "wt.safetensors", array(folder / "w.npy", (8, 4))
    expect(0, "", "gemm", "--m", 8, "--n", 4, "--k", 2, *cache, "--out", f"D={archive}:w")
    for more in ([], ["--embed-weights"]):
        refused(folder, "the library would overwrite", "build", program, "-o", archive, "--weights", archive, *more, *cache)
    refused(folder, "the library would overwrite", "build", program, "-o", w, "--constant", f"w={w}", *cache)
    refused(folder, "the header would overwrite", "build", program, "-o", folder / "x.so", "--header", archive, "--constant", f"w={archive}:w", *cache)
    expect(2, "the library and the header would be written to the same place", "build", program, "-o", folder / "x.so",
           "--header", f"{folder}/../{folder.name}/x.so", *cache)
    (folder / "null.so").symlink_to("/dev/null")
    expect(3, "a device or a pipe", "build", program, "-o", folder / "null.so", *cache)
    if (folder / "null.h").exists():
        FAILURES.append("a library that went nowhere left its header")
    expect(0, "", "build", program, "-o", folder / "x.so", "--header", "/dev/null", "--manifest", "/dev/null", *cache)
    expect(0, "", "build", program, "-o", folder / "y.so", *cache)
    expect(0, "", "build", program, "-o", folder / "y.so", *cache)  # what an earlier build made is replaced
    # Folders of several files: the names are known once the text is made.
    expect(0, "", "build", program, "-o", folder / "metal", "--target", "metal", *cache)
    for made in sorted((folder / "metal").iterdir()):
        kernel = folder / made.name
        kernel.write_text(PROGRAM)
        refused(folder, f"{made.name} would overwrite", "build", kernel, "-o", folder, "--name", "metal", "--target", "metal", *cache)
    text = folder / "plan.txt"
    text.write_text(PROGRAM)
    refused(folder, "plan.txt would overwrite", "build", text, "-o", folder, "--repro", "relu", *cache)


def kernels_of_the_user(folder, cache):
    program, source = folder / "q.py", folder / "own.cpp"
    program.write_text('def p(x: f32[4, 4]):\n    y = user_kernel("own", x, out="f32[4, 4]")\n    return y\n')
    source.write_text('extern "C" int own(const float* x, float* y) { for (int i = 0; i < 16; ++i) y[i] = x[i]; return 0; }\n')
    own = ["--kernel", f"own={source}", *cache]
    refused(folder, "the trace would overwrite", "run", program, *own, "--trace", source)
    refused(folder, "the report would overwrite", "explain", program, *own, "--report", source)
    refused(folder, "the library would overwrite", "build", program, *own, "-o", source)


def runs(folder, cache):
    """run: --out, --trace and --save-values."""
    program = folder / "tr.py"
    program.write_text(PROGRAM)
    x, w = array(folder / "x.npy", (4, 8)), array(folder / "w.npy", (8, 4))
    given = ["run", program, *cache, "--tensor", f"x={x}", "--tensor", f"w={w}"]
    refused(folder, "the trace would overwrite", "run", program, "--trace", program, *cache)
    refused(folder, "the trace would overwrite", *given, "--trace", x)
    refused(folder, "y would overwrite", *given, "--out", f"y={w}")
    both = folder / "both.npy"
    expect(2, "y and the trace would be written to the same place", *given, "--out", f"y={both}", "--trace", both)
    expect(2, "y and the trace would be written to the same place", *given, "--out", f"y={folder}/a.safetensors:y", "--trace", folder / "a.safetensors")
    expect(3, "E0623", *given, "--trace", folder / "no" / "trace.json")
    steps = folder / "steps"
    expect(0, "", *given, "--save-values", steps)
    names = sorted(path.name for path in steps.iterdir())
    expect(0, "", *given, "--save-values", steps)  # of an earlier run
    if not names:
        FAILURES.append("no step was saved")
        return
    own = array(steps / names[0], (4, 8))
    refused(folder, "would overwrite", "run", program, *cache, "--tensor", f"x={own}", "--tensor", f"w={w}", "--save-values", steps)
    expect(2, "would be written to the same place", *given, "--save-values", steps, "--out", f"y={own}")
    expect(0, "", "run", program, *cache, "--tensor", f"x={own}", "--tensor", f"w={w}", "--save-values", steps, "--force")
    # Where a value cannot be written, nothing is left behind, no folder either.
    large, new = ["run", program, *cache, "--dim", "n=100000"], folder / "new" / "inner"
    expect(0, "", *large)
    expect(3, "nothing was left behind", *large, "--save-values", new, restore_signals=False,
           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    if new.parent.exists():
        FAILURES.append(f"run --save-values without room left {new.parent}")
    expect(0, "", *large, "--save-values", new)
    if not new.is_dir() or not list(new.iterdir()):
        FAILURES.append("run --save-values: nothing in a new folder")
    expect(0, "", *given, "--trace", "/dev/null", "--out", "y=/dev/null")
    expect(0, "", *given, "--trace", x, "--force")
    if not x.read_bytes().startswith(b"{"):
        FAILURES.append("--force wrote no trace")


def pages(folder, cache):
    """--report of explain, compile and tune; tuning files; outputs of GEMMs."""
    epilogue, program, a = folder / "e.py", folder / "p.py", array(folder / "a.npy", (5, 3))
    epilogue.write_text("def f(accum, C): D = accum + C; return D\n")
    program.write_text(PROGRAM)
    c = array(folder / "c.npy", (5, 7))
    gemm = ["--a", a, "--n", 7, "--epilogue", epilogue, "--tensor", f"C={c}", *cache]
    for verb in (["explain"], ["compile"], ["tune", "--candidates", 1]):
        for file in (epilogue, a, c):
            refused(folder, "the report would overwrite", *verb, *gemm, "--report", file)
    for verb in ("explain", "compile"):
        refused(folder, "the report would overwrite", verb, program, "--report", program, *cache)
    for verb in ("gemm", "verify"):
        for file in (a, c):
            refused(folder, "D would overwrite", verb, *gemm, "--out", f"D={file}@[5,7]:f32")
    times = folder / "times.txt"
    expect(0, "exported", "tune", *cache, "--export", times)
    refused(folder, "the tuning file would overwrite", "tune", *cache, "--import", times, "--export", times)
    expect(0, "", "explain", *gemm, "--report", c, "--force")
    if not c.read_bytes().lstrip().startswith(b"<"):
        FAILURES.append("--force wrote no report")


def limited(kilobytes, *arguments):
    return subprocess.run(["sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh", COMMAND, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, stdin=subprocess.DEVNULL, check=False)


def readable(folder, cache):
    """Devices, sockets and folders are refused at once; pipes are read until they close; no memory is no bug of ours."""
    a, b, program = array(folder / "a.npy", (5, 3)), array(folder / "b.npy", (3, 7)), folder / "p.py"
    program.write_text(PROGRAM)
    zero, socket_file = folder / "z.npy", folder / "s.npy"
    zero.symlink_to("/dev/zero")
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(socket_file))
    (folder / "z.safetensors").symlink_to("/dev/zero")
    begun = time.monotonic()
    for file, said in ((zero, "it is a device"), (f"{folder}/z.safetensors:a", "it is a device"), (socket_file, "it is a socket"), (folder, "it is a folder")):
        done = expect(3, said, "gemm", "--a", file, "--b", b, *cache)
        if "E0620" not in done.stderr:
            FAILURES.append(done.stderr)
    expect(3, "it is a device", "run", program, "--tensor", f"x={zero}", *cache)
    expect(3, "it is a device", "build", program, "-o", folder / "l.so", "--weights", zero, *cache)
    expect(3, "it is a device", "build", program, "-o", folder / "l.so", "--constant", f"w={zero}", *cache)
    expect(2, "it is a device", "run", "/dev/zero", *cache)
    expect(2, "it is a device", "run", program, "--kernel", "k=/dev/zero", *cache)
    expect(2, "it is a device", "tune", "--import", "/dev/zero", *cache)
    expect(2, "it is a socket", "gemm", *SIZES, "--epilogue", socket_file, *cache)
    if time.monotonic() - begun > 30:
        FAILURES.append("what is no file was read")
    bound.close()
    done = limited(300000, "gemm", "--a", zero, "--b", b, *cache)
    if done.returncode != 3 or "E0620" not in done.stderr:
        FAILURES.append(f"a device and little memory: {done.returncode} {done.stderr}")
    piped = subprocess.run([COMMAND, "gemm", "--a", "/dev/stdin", "--b", b, "--check", *map(str, cache)], input=a.read_bytes(), capture_output=True, timeout=300, check=False)
    if piped.returncode != 0:
        FAILURES.append(f"A from a pipe: {piped.stderr}")
    endless = subprocess.run(["sh", "-c", 'ulimit -v 400000; cat /dev/zero | "$@"', "sh", COMMAND, "gemm", "--a", "/dev/stdin", "--b", b, *map(str, cache)],
                             capture_output=True, text=True, timeout=300, check=False)
    if endless.returncode != 3 or "error[E0606]" not in endless.stderr:
        FAILURES.append(f"a pipe without end and little memory: {endless.returncode} {endless.stderr}")
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["sh", "-c", f'cat "{a}" >"{fifo}"']):
        expect(0, "pass", "gemm", "--a", fifo, "--b", b, "--check", *cache)
    begun = time.monotonic()
    expect(3, "nobody has opened for writing", "gemm", "--a", fifo, "--b", b, *cache)
    expect(2, "nobody has opened for writing", "gemm", *SIZES, "--epilogue", fifo, *cache)
    if time.monotonic() - begun > 60:
        FAILURES.append("the command waited for a writer that never came")


def no_room(folder, cache):
    """A limit of the size of files is told as such, and leaves nothing partial."""
    tanh = ["--epilogue", "def f(accum): D = tanh(accum) * 1.125; return D"]
    done = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 9; exec "$@"', "sh", COMMAND, "compile", *map(str, SIZES), *tanh, "--no-cache"],
                          capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 3 or "error[E0507]" not in done.stderr or "File too large" not in done.stderr or "ulimit -f" not in done.stderr:
        FAILURES.append(f"a compile under a limit of the size of files: {done.returncode} {done.stderr}")
    out = folder / "D.npy"
    out.write_text("former")
    for target in (f"D={out}", f"D={folder}/D.safetensors"):
        done = subprocess.run(["sh", "-c", 'ulimit -f 9; exec "$@"', "sh", COMMAND, "gemm", "--m", "300", "--n", "300", "--k", "2", *map(str, cache), "--out", target],
                              capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 3 or "error[E0623]" not in done.stderr or out.read_text() != "former" or list(folder.iterdir()) != [out]:
            FAILURES.append(f"--out under a limit of the size of files: {done.returncode} {done.stderr} {list(folder.iterdir())}")


def has_bytes(folder):
    """Not the empty file by which a build looks in front of all work whether it may write there."""
    try:
        return any(path.stat().st_size > 0 for path in folder.iterdir())
    except FileNotFoundError:  # renamed meanwhile
        return False


def interrupted_build(folder, cache):
    """A signal that comes while the files of a library are written leaves all of them; one before, none."""
    program, slow = folder / "q.py", folder / "slow.so"
    program.write_text(PROGRAM)
    (folder / "slow.c").write_text("#include <unistd.h>\nint fsync(int fd) { (void)fd; usleep(700000); return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", folder / "slow.c", "-o", slow], check=True)
    env = {**os.environ, "LD_PRELOAD": str(slow), "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
    for delay in (0, 0.3):
        made = folder / f"made{delay}"
        made.mkdir()
        command = [COMMAND, "build", program, "-o", made / "libq.so", *cache]
        with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as building:
            if delay:
                wait_for(lambda: has_bytes(made))
            time.sleep(delay)
            building.send_signal(signal.SIGINT)
            said = building.communicate(timeout=120)
        wanted = {"libq.so", "q.h", "q.json"} if delay else set()
        if {path.name for path in made.iterdir()} != wanted:
            FAILURES.append(f"a build interrupted {'while it wrote' if delay else 'at once'}: {building.returncode} {list(made.iterdir())} {said}")


def beside(folder, cache):
    """What is written beside its place is as private as what it replaces, nobody else's, and has a name of its own length."""
    pipe, out = folder / "pipe", folder / "D.npy"
    os.mkfifo(pipe)
    array(out, (1, 1))
    out.chmod(0o600)
    two = ["--epilogue", "def f(accum): D = accum; F = relu(accum); return D, F", "--out", f"D={out}", "--out", f"F={pipe}"]
    with subprocess.Popen([COMMAND, "gemm", *map(str, SIZES + cache + two)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writing:
        wait_for(lambda: len(list(folder.iterdir())) == 3)  # D is written, and waits for F, which waits for a reader
        modes = {oct(path.stat().st_mode & 0o777) for path in folder.iterdir() if path not in (out, pipe)}
        pipe.read_bytes()
        said = writing.communicate(timeout=60)
    if writing.returncode != 0 or modes != {"0o600"} or out.stat().st_mode & 0o777 != 0o600 or len(out.read_bytes()) < 5 * 7 * 4:
        FAILURES.append(f"beside a private file: {writing.returncode} {modes} {said}")
    long = folder / ("l" * 251 + ".npy")
    expect(0, "wrote", "gemm", *SIZES, *cache, "--out", f"D={long}")
    report = folder / ("r" * 250 + ".html")
    expect(0, "", "explain", *SIZES, *cache, "--report", report)
    if {path for path in folder.iterdir()} != {pipe, out, long, report}:
        FAILURES.append(f"left beside: {list(folder.iterdir())}")


def interrupted(folder, cache):
    """Ctrl-C leaves every output whole or not at all, and no file under another name."""
    pipe, out = folder / "pipe", folder / "D.npy"
    os.mkfifo(pipe)
    two = ["--epilogue", "def f(accum): D = accum; F = relu(accum); return D, F", "--out", f"D={out}", "--out", f"F={pipe}"]
    for times in (1, 2):
        with subprocess.Popen([COMMAND, "gemm", *map(str, SIZES + cache + two)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writing:
            wait_for(lambda: len(list(folder.iterdir())) == 2)  # D is written, and waits for F, which waits for a reader
            for _ in range(times):
                writing.send_signal(signal.SIGINT)
                time.sleep(0.1)
            said = writing.communicate(timeout=60)
        if writing.returncode not in (-signal.SIGINT, 130) or list(folder.iterdir()) != [pipe]:
            FAILURES.append(f"interrupted {times} times: {writing.returncode} {said} {list(folder.iterdir())}")
    whole = expect(0, "wrote", "gemm", "--m", 600, "--n", 600, "--k", 300, *cache, "--out", f"D={out}")
    wanted = out.read_bytes()
    ended = []
    for delay in range(0, 60, 3):
        out.unlink(missing_ok=True)
        with subprocess.Popen([COMMAND, "gemm", "--m", "600", "--n", "600", "--k", "300", "--check", *map(str, cache), "--out", f"D={out}"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            time.sleep(delay / 1000)
            running.send_signal(signal.SIGINT)
            said = running.communicate(timeout=60)
        ended.append(running.returncode)
        if out.exists() and out.read_bytes() != wanted:
            FAILURES.append(f"interrupted after {delay} ms: a partial file ({whole.stdout})")
        if out.exists() and "wrote" not in said[0] or {path for path in folder.iterdir()} - {out, pipe}:
            FAILURES.append(f"interrupted after {delay} ms: {running.returncode} {said} {list(folder.iterdir())}")
    if 130 not in ended and -signal.SIGINT not in ended:
        FAILURES.append(f"no signal came in time: {ended}")


def main():
    with tempfile.TemporaryDirectory() as name:
        cache = ["--cache-dir", pathlib.Path(name) / "cache"]
        for test in (libraries, kernels_of_the_user, runs, pages, readable, no_room, beside, interrupted, interrupted_build):
            folder = pathlib.Path(name) / test.__name__
            folder.mkdir()
            test(folder, cache)
    return outcome()


if __name__ == "__main__":
    sys.exit(main())
