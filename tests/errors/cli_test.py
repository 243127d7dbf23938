# SPDX-License-Identifier: Apache-2.0
"""The codetta command misused: codes, exit statuses, JSON, and no partial output file. Argument: the built command."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from cli_support import COMMAND, FAILURES, expect, outcome, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = ["--m", "5", "--n", "7", "--k", "3"]


def session_of(stat):
    try:
        return int(stat.read_text().rpartition(")")[2].split()[3])
    except OSError:  # ended meanwhile
        return None


def tune_interrupted(folder, how):
    """`codetta tune` ended by a signal after its first measurement: what was measured is kept."""
    cache = folder / f"tune_{how}"
    problem = ["--m", 300, "--n", 512, "--k", 256, "--epilogue", "def f(accum): D = tanh(accum); return D", "--cache-dir", cache]
    command = [COMMAND, "tune", *problem, "--budget", "1000", "--threads", "1"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as tuning:
        while tuning.poll() is None and not list(cache.rglob("*.tune")):
            time.sleep(0.005)
        tuning.send_signal(how)
        out, err = tuning.communicate(timeout=120)
    wanted = 130 if how == signal.SIGINT else -signal.SIGKILL
    if tuning.returncode not in (wanted, 0):  # 0: it was done before the signal came
        FAILURES.append(f"tune ended by {how}: status {tuning.returncode}, wanted {wanted}\n{out}{err}")
    listed = json.loads(run("kernels", *problem, "--threads", "1", "--json").stdout)["kernels"]
    if not any(kernel["tuned"] for kernel in listed):
        FAILURES.append(f"tune ended by {how} kept nothing")
    left = [stat for stat in pathlib.Path("/proc").glob("[0-9]*/stat") if session_of(stat) == tuning.pid]
    if how == signal.SIGINT and left:
        FAILURES.append(f"tune ended by SIGINT left {left} running")


def data_in_and_out(folder, cache):
    """Files of tensors, shapes on the command line, and what contradicts them."""
    plain, archive, relu = folder / "A.npy", folder / "data.safetensors", "def f(accum): D = relu(accum); F = accum; return D, F"
    expect(0, "", "gemm", *SIZES, *cache, "--out", f"D={plain}")  # 5 x 7
    expect(0, "", "gemm", *SIZES, *cache, "--epilogue", relu, "--out", f"D={archive}", "--out", f"F={archive}:raw")
    other = folder / "copy.npy"
    expect(0, "", "gemm", *cache, "--a", f"{archive}:raw", "--n", 4, "--check", "--out", f"D={other}")
    expect(0, "", "gemm", *cache, "--a", plain, "--m", 5, "--k", 7, "--n", 4, "--dtype", "f32", "--check")
    expect(2, "which tensor", "gemm", *cache, "--a", archive, "--n", 4)
    expect(2, "it holds D, raw", "gemm", *cache, "--a", f"{archive}:other", "--n", 4)
    for contradiction in (["--m", 6], ["--k", 6], ["--dtype", "bf16"], ["--batch", 2, "--m", 6]):
        expect(2, "contradicts", "gemm", *cache, "--a", plain, "--n", 4, *contradiction)
    expect(2, "contradicts", "gemm", *cache, "--b", plain, "--m", 4, "--k", 5, "--n", 6)
    add = ["gemm", *SIZES, *cache, "--epilogue", "def f(accum, C): D = accum + C; return D"]
    for spec, said, column in (("C=[4,:f32", "no closing", 6), ("C=[4,]:f32", "a size is missing", 6), ("C=[5,7]f32", "a ':' and a type", 8),
                               ("C=[5,7]:", "the type is missing", 9), ("C=[5,7]:f32:odd", "none of normal", 13)):
        told = json.loads(expect(2, said, *add, "--tensor", spec, "--json").stderr)["diagnostics"][0]
        if f'"column": {column},' not in json.dumps(told) or told["code"] != "E0701":
            FAILURES.append(f"{spec}: column {told}, wanted {column}")
    expect(2, "no closing", "gemm", *SIZES, *cache, "--out", "D=x.npy@[5,7")
    expect(2, "D and F would be written to the same place", "gemm", *SIZES, *cache, "--epilogue", relu, "--out", f"D={other}", "--out", f"F={other}")
    respelled = f"{pathlib.Path(other).parent}/./{pathlib.Path(other).name}"
    expect(2, "D and F would be written to the same place", "gemm", *SIZES, *cache, "--epilogue", relu, "--out", f"D={other}", "--out", f"F={respelled}")
    expect(2, "a name of its own", "gemm", *SIZES, *cache, "--epilogue", relu, "--out", f"D={archive}:x", "--out", f"F={archive}:x")
    for verb in ("gemm", "bench", "kernels", "emit"):
        expect(2, "no kernel named 'zzz'", verb, *SIZES, *cache, "--kernel", "zzz")
    for verb in ("tune", "explain"):
        expect(2, f"--kernel is not for {verb}", verb, *SIZES, *cache, "--kernel", "in_place")
    named = json.loads(expect(0, "", "kernels", *SIZES, *cache, "--kernel", "in_place", "--json").stdout)["kernels"]
    if not named or not all("in_place" in kernel["name"] for kernel in named):
        FAILURES.append(f"kernels --kernel in_place: {named}")
    odd = subprocess.run([COMMAND, "cache", "--json", "--cache-dir", os.fsencode(folder) + b"/x\xff"], capture_output=True, timeout=60)
    if odd.returncode != 0 or not json.loads(odd.stdout):
        FAILURES.append(f"a cache folder that is not UTF-8: {odd}")
    expect(2, "is a directory", "gemm", *SIZES, *cache, "--epilogue", folder)
    for bad in (["--budget", "nan"], ["--budget", "inf"], ["--budget", "0"], ["--candidates", "0"]):
        expect(2, "error[E0701]", "tune", *SIZES, *cache, *bad)
    expect(2, "error[E0701]", "bench", *SIZES, *cache, "--candidates", "0")
    expect(0, "temporaries", "gemm", *SIZES, *cache, "--debug", "dump:memory")
    expect(0, "==== memory ====", "emit", *SIZES, *cache, "--what", "manifest,memory")
    expect(0, "dump:memory", "gemm", "--help")
    program = folder / "p.py"
    program.write_text('def p(x: f32["n", 7], w: f32[7, 3]):\n    y = relu(x @ w)\n    return y\n')
    expect(0, "", "gemm", "--m", 7, "--n", 3, "--k", 2, *cache, "--out", f"D={folder / 'w.npy'}")
    inputs = ["run", program, *cache, "--tensor", f"x={archive}:raw", "--tensor", f"w={folder / 'w.npy'}"]
    result = json.loads(expect(0, "", *inputs, "--out", f"y={folder / 'y.safetensors'}", "--json").stdout)
    if result["outputs"][0]["shape"] != [5, 3] or len(result["kernels"]) != 1 or not (folder / "y.safetensors").exists():
        FAILURES.append(f"run --json: {result}")
    expect(2, "no output 'z'", *inputs, "--out", f"y={folder / 'no.npy'}", "--out", f"z={folder / 'no.npy'}")
    expect(2, "no parameter 'v'", *inputs, "--tensor", f"v={plain}")
    expect(2, "no parameter 'a'", *inputs, "--scalar", "a=x")
    if (folder / "no.npy").exists():
        FAILURES.append("a failing run wrote an output")
    checked = ["run", program, *cache, "--check"]
    result = json.loads(expect(0, "", *checked, "--dim", "n=5", "--out", f"y={folder / 'random.npy'}", "--json").stdout)
    if result["check"]["verdict"] != "pass" or result["sizes"] != {"n": 5} or result["check"]["outputs"][0]["checked"] != 15:
        FAILURES.append(f"run --check --json: {result}")
    expect(0, "n = 16", *checked)
    expect(0, "y: 15 of 15 elements checked, 0 wrong", *inputs, "--check")
    expect(1, "error[E0208]", "run", program, *cache, "--tensor", f"x={archive}:raw")
    expect(1, "known are n", *checked, "--dim", "m=5")
    expect(1, "error[E0210]: the size n is given twice", *checked, "--dim", "n=5", "--dim", "n=6")
    expect(2, "write --dim batch=8", *checked, "--dim", "n")
    expect(2, "write --hint batch=8", *checked, "--hint", "n=-1")
    layers = folder / "layers.py"
    layers.write_text('def layers(x: f32["n", 7], w: f32[7, 3], v: f32[3, 4]):\n    h = log(x @ w)\n    y = h @ v\n    return y\n')
    watched = ["run", layers, *cache, "--dim", "n=5"]
    kept, trace = folder / "kept", folder / "trace.json"
    shown = expect(0, "layers.py:2: h = log(x @ w)", *watched, "--values", "--trace", trace, "--save-values", kept)
    if "NaN" not in shown.stdout or "mean" not in shown.stdout:
        FAILURES.append(f"run --values: {shown.stdout}")
    names = [event["args"].get("origins") for event in json.loads(trace.read_text())["traceEvents"][1:]]
    if ["layers.py:3: y = h @ v"] not in names:
        FAILURES.append(f"run --trace: {names}")
    files = sorted(file.name for file in kept.iterdir())
    if len(files) != 2 or not files[1].endswith("_y.npy"):
        FAILURES.append(f"run --save-values: {files}")
    trapped = expect(1, "error[E0619]", *watched, "--trap", "nan", "--out", f"y={folder / 'trapped.npy'}")
    if "layers.py:2: h = log(x @ w)" not in trapped.stderr or (folder / "trapped.npy").exists():
        FAILURES.append(f"run --trap: {trapped.stderr}")
    expect(2, "nan or inf", *watched, "--trap", "zero")
    expect(3, "error[E0623]", *watched, "--save-values", plain)
    expect(3, "error[E0623]", *watched, "--trace", folder / "nofolder" / "t.json")
    expect(0, "no step is wrong", *watched, "--bisect")
    found = json.loads(expect(0, "", *watched, "--bisect", "--json").stdout)
    if found["first_wrong"] != -1 or sum(len(step["values"]) for step in found["steps"]) != 2:
        FAILURES.append(f"run --bisect --json: {found}")
    for name in ("program", "hooked"):  # code of the caller's, as a first run leaves it
        source = ROOT / "examples" / "user_kernel" / ("running_sums.cc" if name == "program" else "hooked_sums.cc")
        found = json.loads(expect(0, "", "run", source.with_name(f"{name}.py"), *cache, "--kernel", f"running_sums={source}", "--dim", "m=5",
                                  *(("--dim", "n=24") if name == "hooked" else ()), "--bisect", "--json").stdout)
        given = [step for step in found["steps"] if step["unchecked"] == "it is code of the caller's, taken as given"]
        if found["first_wrong"] != -1 or len(given) != 1 or (name == "program" and sum(len(step["values"]) for step in found["steps"]) != 2):
            FAILURES.append(f"run --bisect of {name}: {found}")
    picks = folder / "picks.py"
    picks.write_text('def picks(t: f32["v", 6], i: i32["n", 2], a: f32, flag: bool[1]):\n'
                     '    y = take(t, i) * a\n    z = where(flag, y, 0.0)\n    return y, z\n')
    expect(0, "0 wrong", "run", picks, *cache, "--check", "--dim", "v=3")
    large = folder / "large.py"
    large.write_text('def large(x: f32["n", "n"]):\n    t = sum(exp(x * 0.01), dim=0, keepdim=False)\n'
                     '    u = sum(t, dim=0)\n    return u\n')
    result = run("run", large, *cache, "--check", "--dim", "n=4200", "--json")
    said = json.loads(result.stdout)
    smaller = said.get("check_smaller", {})
    if result.returncode != 1 or said["check"]["verdict"] != "mistrusted" or smaller.get("verdict") != "pass" or smaller["sizes"] != {"n": 64}:
        FAILURES.append(f"run --check of a large program: {result}")


def told(arguments, *wanted, absent=()):
    """A usage error that says all of these, and none of those."""
    said = run(*arguments).stderr
    if "error[E0701]" not in said or not all(text in said for text in wanted) or any(text in said for text in absent):
        FAILURES.append(f"codetta {' '.join(map(str, arguments))}: wanted {wanted}, not {absent}, in:\n{said}")


def options_with_values(folder, cache):
    """NAME=VALUE, numbers, files of text, and what the user has not written."""
    plain, scale = ["gemm", *SIZES, *cache], "def f(accum, a): D = accum * a; return D"
    told([*plain, "--out", "D="], "no file or shape is given for D", "write --out D=D.npy")
    told([*plain, "--out", "D"], "no file or shape is given for D", "write --out D=D.npy")
    told([*plain, "--tensor", "=x.npy"], "'=x.npy' names nothing", "write --tensor C=C.npy")
    for text in ("a", "a="):
        told([*plain, "--epilogue", scale, "--scalar", text], "no number is given for a", "write --scalar a=0.5")
    for text in ("+3", "+0.5e1", "3", "-inf", "+inf"):
        expect(0, "", *plain, "--epilogue", scale, "--scalar", f"a={text}")
    for text in ("+", "++3", "+-3", "3x"):
        told([*plain, "--epilogue", scale, "--scalar", f"a={text}"], f"'{text}' is not a number")
    told([*plain, "--epilogue", scale, "--tensor", "a=[1]:f32", "--scalar", "a=1"], "a is given twice", "by --tensor and --scalar")
    told(["gemm", *SIZES, *cache, "--epilogue", "nofile.py"], "No such file or directory", "def f(accum)")
    for verb in (["run", "nofile.py"], ["emit", "--program", "nofile.py"], ["explain", "--program", "nofile.py"]):
        told(verb, "cannot read nofile.py", "No such file or directory", "def p(x: f32['n', 64]", absent=["accum"])
    program = folder / "values.py"
    program.write_text("def p(x: f32[5, 5], a: f32):\n    y = x @ x * a\n    return y\n")
    told(["run", program, "--scalar", "a"], "no number is given for a", "write --scalar a=0.5")
    told(["run", program, "--tensor", "x="], "no file or shape is given for x", "write --tensor x=x.npy")
    for given, stem in (("y.txt", "y"), (folder / "a.b" / "y.csv", folder / "a.b" / "y"), ("y.safetensors.bak", "y.safetensors")):
        told(["run", program, "--dim", "n=3", "--out", f"y={given}"], "no tensor is written as ." + str(given).rsplit(".", 1)[1],
             f"write --out y={stem}.npy or {stem}.safetensors")
        told([*plain, "--out", f"D={given}"], f"--out gives {given} for D", f"write --out D={stem}.npy or {stem}.safetensors")
    told(["run", program, "--out", "y"], "no file or shape is given for y", "write --out y=y.npy")
    # Nothing points into a text that the user has not written.
    for arguments in (["--tensor", "Q=[5,7]:f32"], ["--scalar", "D=1"], ["--out", "F=[5,7]:f32"]):
        told([*plain, *arguments], "there is no epilogue that knows " + arguments[1][0], absent=["-->", "plain_product"])
    for arguments in (["--out", "D=[5,8]:f32"], ["--accumulator", "i32"]):
        done = expect(1, "error[", *plain, *arguments)
        if "-->" in done.stderr or "plain_product" in done.stderr:
            FAILURES.append(f"an error of the plain product points into its text: {done.stderr}")
    expect(0, "", *plain, "--out", f"D={folder / 'D.npy'}", "--check")
    if len((folder / "D.npy").read_bytes()) < 5 * 7 * 4:
        FAILURES.append("the plain product's D was not written")
    damaged, strange = folder / "damaged.npy", folder / "strange.npy"
    damaged.write_bytes((folder / "D.npy").read_bytes()[:-4])
    strange.write_bytes((folder / "D.npy").read_bytes().replace(b"'<f4'", b"'>f4'"))
    for file, code in ((folder / "absent.npy", "E0620"), (damaged, "E0621"), (strange, "E0622")):
        expect(3, code, "gemm", *cache, "--a", file, "--n", 4)
    opaque = folder / "opaque.npy"  # as np.save writes an array of ml_dtypes.bfloat16
    opaque.write_bytes((folder / "D.npy").read_bytes()[:-5 * 7 * 2].replace(b"'<f4'", b"'<V2'"))
    expect(3, "FILE.npy:bf16 on the command line", "gemm", *cache, "--a", opaque, "--n", 4)
    expect(3, "E0622", "gemm", *cache, "--a", f"{opaque}:f32", "--n", 4)
    expect(2, "element type 'bf17' is not known", "gemm", *cache, "--a", f"{opaque}:bf17", "--n", 4)
    expect(2, "did you mean 'bf16'?", "gemm", *cache, "--a", f"{opaque}:bfloat16", "--n", 4)
    expect(2, "element type '' is not known", "gemm", *cache, "--a", f"{opaque}:", "--n", 4)
    named = folder / "D.npy:4"  # what is called so is meant
    named.write_bytes((folder / "D.npy").read_bytes())
    expect(0, "pass", "gemm", *cache, "--a", named, "--n", 4, "--check")
    expect(0, "pass", "gemm", *cache, "--a", f"{opaque}:bf16", "--n", 4, "--check")
    expect(2, "would overwrite", "gemm", *cache, "--a", f"{opaque}:bf16", "--n", 4, "--out", f"D={opaque}")


def switched_off(folder, cache):
    """The cache and compilers, where they are not to be used."""
    kernels = json.loads(run("kernels", *SIZES, *cache, "--json").stdout)
    if not kernels["rejections"] or not all(rejection["code"].startswith("E04") for rejection in kernels["rejections"]):
        FAILURES.append(f"kernels --json: {kernels['rejections']}")
    for kernel in kernels["kernels"]:
        if not kernel["target"].startswith("cpu") or kernel["config"]["mr"] < 1 or kernel["config"]["kc"] < 1:
            FAILURES.append(f"kernels --json: {kernel}")
    ran = json.loads(expect(0, "", "gemm", *SIZES, *cache, "--json").stdout)
    if not ran["source"].startswith(str(folder)) or not os.path.exists(ran["source"]):
        FAILURES.append(f"gemm --json: {ran}")
    if "source" in json.loads(expect(0, "", "gemm", *SIZES, "--no-cache", "--json").stdout):
        FAILURES.append("gemm --no-cache --json names a source")
    expect(0, "switched off, as asked", "doctor", "--no-cache")
    for action in ("stats", "path", "clear", "evict"):
        expect(3, "E0511", "cache", action, "--no-cache")
    if json.loads(expect(3, "", "cache", "--no-cache", "--json").stdout)["enabled"]:
        FAILURES.append("cache --no-cache --json: enabled")
    foreign = folder / "foreign"
    foreign.mkdir(mode=0o777)
    foreign.chmod(0o777)
    for action in (["doctor"], ["cache"], ["cache", "path"]):
        expect(3, str(foreign), *action, "--cache-dir", foreign)
    never = folder / "never.sh"
    never.write_text(f"#!/bin/sh\ntouch {folder / 'started'}\nexec c++ \"$@\"\n")
    never.chmod(0o755)
    source = ["emit", *SIZES, *cache, "--epilogue", "def f(accum): D = tanh(accum); return D", "--what"]
    tanh = [*source[:-1], "--compiler", never, "--what"]
    found = folder / "found"  # where a compiler that is not named would be found
    found.mkdir()
    for name in ("c++", "g++", "clang++"):
        (found / name).symlink_to(never)
    path = {**os.environ, "PATH": f"{found}:{os.environ['PATH']}"}
    expect(3, "E0503", *source, "asm", "--no-compiler", env=path)
    expect(0, "tanh", *source, "source", "--no-compiler", env=path)
    if (folder / "started").exists():
        FAILURES.append("emit --what asm --no-compiler started the compiler")
    expect(3, "E0503", *tanh, "asm", "--no-jit")
    expect(0, "codetta_epilogue", *tanh, "asm")


def leftovers(process):
    return [str(path) for parent in ("/dev/shm", "/tmp", "/var/tmp") for path in pathlib.Path(parent).glob(f"codetta-cc-{process}-*")]


def compile_interrupted(folder, how):
    """`codetta gemm` ended while its compiler hangs: neither the compiler nor its folder is left."""
    real = folder / "slow-c++"
    real.write_text('#!/bin/sh\ncase "$*" in *-shared*) echo $$ >' + str(folder / "slow.pid") + '; exec sleep 300;; esac\nexec c++ "$@"\n')
    real.chmod(0o755)
    (folder / "slow.pid").unlink(missing_ok=True)
    command = [COMMAND, "gemm", *map(str, SIZES), "--epilogue", "def f(accum): D = tanh(accum); return D", "--no-cache", "--compiler", str(real)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as compiling:
        deadline = time.time() + 60
        while compiling.poll() is None and not (folder / "slow.pid").exists() and time.time() < deadline:
            time.sleep(0.005)
        compiling.send_signal(how)
        out, err = compiling.communicate(timeout=120)
    if compiling.returncode not in (128 + how, -how) or "E0510" not in err:
        FAILURES.append(f"gemm ended by {how}: status {compiling.returncode}\n{out}{err}")
    if leftovers(compiling.pid):
        FAILURES.append(f"gemm ended by {how} left {leftovers(compiling.pid)}")
    left = [stat for stat in pathlib.Path("/proc").glob("[0-9]*/stat") if session_of(stat) == compiling.pid]
    if left:
        FAILURES.append(f"gemm ended by {how} left {left} running")


def program_interrupted(folder, how):
    """A program's kernels compile at the same time; interrupted, none of the compilers and of their folders is left."""
    program, started = folder / "interrupted.py", folder / "started"
    program.write_text("def p(x: f32['n', 8], w: f32[8, 8], v: f32[8, 8]):\n    y = exp(tanh(x @ w) @ v)\n    return y\n")
    slow = folder / "slow-program-c++"
    slow.write_text('#!/bin/sh\ncase "$*" in *-shared*) echo $$ >>' + str(started) + '; exec sleep 300;; esac\nexec c++ "$@"\n')
    slow.chmod(0o755)
    started.unlink(missing_ok=True)
    cache = folder / "interrupted"
    command = [COMMAND, "emit", "--program", program, "--what", "manifest", "--cache-dir", cache, "--compiler", slow]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as compiling:
        deadline = time.time() + 60
        while compiling.poll() is None and not started.exists() and time.time() < deadline:
            time.sleep(0.005)
        compiling.send_signal(how)
        out, err = compiling.communicate(timeout=120)
    if compiling.returncode not in (128 + how, -how) or "E0510" not in err:
        FAILURES.append(f"a program ended by {how}: status {compiling.returncode}\n{out}{err}")
    left = [str(stat) for stat in pathlib.Path("/proc").glob("[0-9]*/stat") if session_of(stat) == compiling.pid]
    left += leftovers(compiling.pid) + [str(path) for path in cache.rglob("*") if "codetta-cc" in path.name or ".tmp" in path.name]
    if left:
        FAILURES.append(f"a program ended by {how} left {left}")


def programs_explained(folder, cache):
    program = folder / "explained.py"
    program.write_text("def p(x: f32['n', 8], w: f32[8, 8], v: f32[8, 8]):\n    h = tanh(x @ w)\n    y = tanh(h @ v)\n    return y\n")
    text = expect(0, "explained.py:3: y = tanh(h @ v)", "explain", program, *cache).stdout
    for wanted in ("n is not given", "E0308: it is factor A", "kernels launched   2", "kernels distinct   1, of 1 sources", "bytes saved        128*n bytes"):
        if wanted not in text:
            FAILURES.append(f"explain lacks '{wanted}':\n{text}")
    facts = json.loads(expect(0, "", "explain", "--program", program, *cache, "--hint", "n=4", "--json").stdout)
    if facts["totals"]["bytes_saved"] != {"expression": "128*n", "value": 512} or facts["not_fused"][0]["code"] != "E0308":
        FAILURES.append(f"explain --json: {facts}")
    if [k["origins"][0]["line"] for k in facts["kernels"]] != [2, 3] or len({k["name"] for k in facts["kernels"]}) != 1:
        FAILURES.append(f"explain --json: {facts['kernels']}")
    told(["explain", program, *cache, "--hint", "n"], "'n' gives no size", "write --hint batch=8")
    told(["explain", *SIZES, *cache, "--hint", "n=1"], "--hint is for programs")
    expect(1, "error[E0209]", "explain", program, *cache, "--hint", "q=1")
    for shape, sizes in (("[1, 12]", "[12, 10]"), ("[10, 12]", "[12, 1]")):  # a value without dims, of one row or column
        single = folder / "single.py"
        single.write_text(f"def p(x: f32{shape}, w: f32{sizes}):\n    v = reshape(x @ w, (10,))\n    y = mean(v, dim=0) * 0.5\n    return y\n")
        expect(0, "pass", "run", single, "--check", *cache)
    told(["emit", *SIZES, *cache, "--hint", "n=1"], "--hint is for programs", "codetta emit PROGRAM.py")
    told(["compile", *SIZES, *cache, "--hint", "n=1"], "--hint is for programs", "codetta compile PROGRAM.py")
    expect(1, "error[E0209]", "compile", program, *cache, "--hint", "q=1")
    page = folder / "explained.html"
    expect(0, " compiled\n", "compile", program, "--hint", "n=4", *cache, "--report", page)
    if not page.read_text().startswith("<!DOCTYPE html>"):
        FAILURES.append("compile --report wrote no page")
    counted = folder / "counted.py"
    counted.write_text('def counted(x: f32["n", 64], w: f32[64, 32]):\n    y = relu(x @ w)\n    return y\n')
    expect(0, " compiled", "compile", counted, "--hint", "n=4", *cache, "--report", page)
    for part in ('aria-label="roofline"', "<summary>codetta_relu_", f'<td class="n">{2 * 4 * 32 * 64 + 4 * 32}</td><td class="n">{4 * (4 * 64 + 64 * 32 + 4 * 32)}</td>'):
        if part not in page.read_text():
            FAILURES.append(f"compile --report lacks {part}")
    made = json.loads(expect(0, "", "compile", program, "--hint", "n=4", *cache, "--json").stdout)
    if not made["kernels"] or not all(kernel["hit"] for kernel in made["kernels"]):
        FAILURES.append(f"compile of what was compiled: {made}")
    expect(3, "error[", "compile", program, *cache, "--report", folder / "missing" / "page.html")
    expect(0, "phase 0", "emit", program, *cache, "--hint", "n=4", "--what", "plan")
    # Stages that need no compiler: none is looked for, and what is planned for these sizes is not compiled on the way.
    for what in ("plan", "memory", "host"):
        expect(0, "", "emit", program, *cache, "--hint", "n=1234", "--what", what, "--compiler", "/nowhere/g++")
    expect(0, "phase 0", "emit", program, *cache, "--hint", "n=1234", "--what", "graph,plan", "--no-jit")
    for stage in ("source", "manifest"):
        expect(3, "error[E05", "emit", program, *cache, "--hint", "n=1234", "--what", stage, "--compiler", "/nowhere/g++")
    expect(1, "error[E0209]", "emit", program, *cache, "--hint", "nope=3", "--what", "plan")
    expect(1, "error[E0210]", "emit", program, *cache, "--hint", "n=3", "--hint", "n=3", "--what", "plan")
    # For Metal the host text is Objective-C++, whoever prints it.
    shown = expect(0, "#import <Metal/Metal.h>", "build", program, *cache, "--target", "metal", "-o", folder / "shown", "--show").stdout
    if expect(0, "", "emit", program, *cache, "--target", "metal", "--what", "host").stdout.count("\n") < 20 or not shown:
        FAILURES.append("emit --target metal --what host prints no host text")
    reason = expect(2, "host code is of programs", "emit", *SIZES, *cache, "--target", "metal", "--what", "host").stderr
    if "runs in this process" in reason:
        FAILURES.append(f"a kernel for Metal is said to run here: {reason}")
    # Nothing is said to be compiled that is not: without NVRTC E0530, with it E0503.
    expect(3, "error[E05", "compile", program, *cache, "--target", "cuda:sm_80", "--no-jit")
    expect(0, "phase 0", "emit", program, *cache, "--target", "cuda:sm_80", "--what", "plan", "--no-jit")
    expect(3, "error[E0403]", "compile", program, *cache, "--target", "metal:apple9")


def cache_is_honest(folder):
    """What is said about the cache is so: read-only, full, cleared."""
    cache, epilogue = folder / "honest", ["--epilogue", "def f(accum): D = sigmoid(accum); return D"]
    shown = {**os.environ, "CODETTA_CACHE_RO": "1"}
    expect(0, "kept in", "compile", *SIZES, *epilogue, "--cache-dir", cache)
    before = sorted(cache.rglob("*"))
    other = ["--epilogue", "def f(accum): D = tanh(accum) + 1.5; return D"]
    for arguments, status, said in ((["gemm", *SIZES, *other], 0, "prepare"), (["compile", *SIZES, *other], 0, "not kept: the cache is read-only"),
                                    (["tune", *SIZES, *other, "--candidates", 1], 0, "not kept"), (["cache", "clear"], 3, "error[E0511]"),
                                    (["gemm", *SIZES, *other, "--compiler", "false"], 3, "error[E0502]")):
        done = run(*arguments, "--cache-dir", cache, env=shown)
        if done.returncode != status or said not in done.stdout + done.stderr:
            FAILURES.append(f"read-only {arguments}: status {done.returncode}, wanted {status} and '{said}' in:\n{done.stdout}{done.stderr}")
    if sorted(cache.rglob("*")) != before:
        FAILURES.append(f"a read-only cache was written to: {set(cache.rglob('*')) - set(before)}")
    shown_path = [line.split()[1] for line in expect(0, "source", "gemm", *SIZES, *epilogue, "--cache-dir", cache).stdout.splitlines() if line.startswith("source")]
    if not shown_path or not pathlib.Path(shown_path[0]).is_file() or pathlib.Path(shown_path[0]).stat().st_mode & 0o777 != 0o600:
        FAILURES.append(f"the source {shown_path} is not there, or others may read it")
    expect(0, " 0 entries, 0 of", "cache", "clear", "--cache-dir", cache)
    left = [path for path in cache.rglob("*") if path.is_file() and path.name not in ("usage.log", "scan")]
    if left:
        FAILURES.append(f"cache clear left {left}")


def said_wrongly(folder, cache):
    """Arguments that used to be taken for others."""
    relu = "def f(accum): D = relu(accum); return D"
    for option in ("--epilogue", "--a", "--kernel", "--dtype"):
        expect(2, "error[E0701]", "gemm", *SIZES, *cache, option, "")
    expect(2, "no whole number", "gemm", "--m", 3, "--n", 4, "--k", 5, *cache, "--out", "D=[M,N/3]:f32")
    expect(0, "0 of 0 elements checked", "gemm", *SIZES, *cache, "--batch", 0, "--epilogue", relu, "--check")
    expect(0, "pass", "gemm", "--m", 5, "--n", 5, "--k", 5, *cache, "--epilogue", relu, "--pack", "--check")
    # Operands A and B are the product's own factors, where nothing else is bound to the names.
    own = "def f(accum, A, B): D = accum + A * 2.0 - B; return D"
    expect(0, "D: 25 of 25 elements checked, 0 wrong", "gemm", "--m", 5, "--n", 5, "--k", 5, *cache, "--epilogue", own, "--transpose-b", "--check")
    expect(1, "A has 3 columns but the accumulator has 5", "gemm", "--m", 5, "--n", 5, "--k", 3, *cache, "--epilogue", own)
    expect(0, "D: 25 of 25 elements checked, 0 wrong", "gemm", "--m", 5, "--n", 5, "--k", 3, *cache, "--epilogue", own, "--tensor", "A=[N]:f32", "--scalar", "B=2", "--check")
    expect(1, "help: compute some of the outputs by a second kernel", "gemm", *SIZES, *cache, "--epilogue", "def f(accum):\n" + "".join(f"    s{i} = sum(accum * {i + 1}.0, axis='row')\n" for i in range(70))
           + "    return " + ", ".join(f"s{i}" for i in range(70)) + "\n", *(f"--out=s{i}=[M,1]:f32" for i in range(70)))
    expect(1, "nothing to keep", "tune", *SIZES, *cache, "--epilogue", "def f(accum): D = floor(accum * 1e6); return D", "--candidates", 2)
    expect(2, "error[E0701]", "gemm", *SIZES, *cache, "--threads", 5000)
    program, data = folder / "twice.py", folder / "twice.npy"
    program.write_text("def p(x: f32[5, 5], a: f32):\n    y = x @ x * a\n    return y\n")
    expect(0, "", "gemm", "--m", 5, "--n", 5, "--k", 3, *cache, "--out", f"D={data}")
    good = ["run", program, *cache, "--tensor", f"x={data}"]
    expect(0, "", *good, "--scalar", "a=2.5", "--out", f"y={folder / 'scaled.npy'}")
    expect(0, "", *good, "--scalar", "a=1", "--out", f"y={folder / 'plain.npy'}")
    scaled, plain = (struct.unpack("<25f", (folder / name).read_bytes()[-100:]) for name in ("scaled.npy", "plain.npy"))
    if not all(abs(s - 2.5 * p) <= 1e-6 * abs(p) for s, p in zip(scaled, plain)) or not any(plain):
        FAILURES.append(f"run --scalar a=2.5: {scaled} for 2.5 times {plain}")
    expect(1, "argument a is not provided", *good)
    expect(1, "help: pass --scalar a=NUMBER; with --check or --dim,", *good)
    expect(1, "a is a tensor but is declared as a number", *good, "--tensor", f"a={data}")
    expect(1, "a is true but is declared as f32", *good, "--scalar", "a=true")
    expect(2, "no parameter 'b'", *good, "--scalar", "b=1")
    for more in (["--scalar", "a=2.5", "--tensor", f"x={data}"], ["--scalar", "a=2.5", "--scalar", "x=2.5"],
                 ["--scalar", "a=2.5", "--out", f"y={folder / 'y1.npy'}", "--out", f"y={folder / 'y2.npy'}"]):
        expect(2, "is given twice", *good, *more)


def on_a_gpu(cache):
    """What works without a GPU, and what is said where one is missing (device 99 is missing everywhere)."""
    cross = [*SIZES, *cache, "--target", "cuda:sm_90a"]
    expect(0, "simt", "kernels", *cross)
    expect(0, "waves", "explain", *cross)
    expect(0, "__global__", "emit", *cross)
    expect(0, "__global__", "emit", *cross, "--what", "source,manifest")
    if "launch" not in json.loads(expect(0, "", "explain", *cross, "--json").stdout):
        FAILURES.append("explain --json tells nothing of the launch")
    expect(2, "error[E0415]", "emit", *SIZES, *cache, "--what", "ptx")
    expect(3, "error[E064", "gemm", *SIZES, *cache, "--target", "cuda", "--device", "99")
    for verb in ("verify", "bench", "tune", "kernels"):
        expect(3, "error[E064", verb, *SIZES, *cache, "--target", "cuda", "--device", "99")
    expect(1, "error[E0412]", "compile", *SIZES, *cache, "--target", "cutlass:sm_90")
    large = ["--m", 4096, "--n", 4096, "--k", 4096, "--dtype", "f16", *cache]
    for arch, name in (("sm_80", "cutlass_sm80_"), ("sm_90a", "_pingpong_c2x1"), ("sm_100a", "_2sm_c2x1")):
        expect(0, name, "kernels", *large, "--target", f"cutlass:{arch}")
    expect(0, "cost terms", "explain", *large, "--target", "cutlass:sm_90a")
    found = json.loads(expect(0, "", "kernels", *large, "--target", "cutlass:sm_90a", "--json").stdout)["kernels"]
    times = [kernel["estimated_us"] for kernel in found]
    if not times or times != sorted(times):
        FAILURES.append("CUTLASS's candidates are not ranked")
    for kernel in found:
        if abs(sum(term["microseconds"] for term in kernel["terms"]) - kernel["estimated_us"]) > 1e-6:
            FAILURES.append(f"{kernel['name']}: its terms are not its estimate")
    one = [*large, "--target", "cutlass:sm_90a", "--tile", "128x64x64", "--schedule", "tma_warp_specialized_pingpong"]
    expect(0, "cutlass_sm90_128x64x64_pingpong", "kernels", *one)
    expect(1, "error[E0412]", "kernels", *large, "--target", "cutlass:sm_75")
    expect(3, "error[E0531]", "kernels", *large, "--target", "cuda:sm_90a", "--cutlass-dir", "/nowhere")
    rows = "def f(accum): D = accum + row_index(); return D"
    expect(1, "error[E0311]", "kernels", *large, "--target", "cutlass:sm_90a", "--epilogue", rows)
    expect(2, "error[E0402]", "kernels", *SIZES, *cache, "--target", "hip:gfx1030")
    expect(0, "hip_simt", "kernels", *SIZES, *cache, "--target", "hip:gfx942")
    hip = [*SIZES, *cache, "--target", "hip:gfx942"]
    expect(0, "compute unit (limit:", "explain", *hip)
    expect(0, "blocks a work-group processor (limit:", "explain", *SIZES, *cache, "--target", "hip:gfx1100")
    # No HIP runtime (E0654), or no such device (E0642).
    expect(3, "error[E06", "gemm", *hip, "--device", "99")
    for verb in ("verify", "bench", "tune", "kernels"):
        expect(3, "error[E06", verb, *SIZES, *cache, "--target", "hip", "--device", "99")
    expect(3, "error[E0403]", "gemm", *SIZES, *cache, "--target", "metal:apple9")
    expect(3, "-fno-fast-math -Wno-c++17-extensions -ffp-contract=fast -I SOURCES -c x.metal", "compile", *SIZES, *cache, "--target", "metal:apple9")
    expect(2, "error[E0402]", "kernels", *SIZES, *cache, "--target", "metal:apple99")
    expect(3, "error[E0536]", "compile", *hip, "--compiler", "/no/such/clang++")
    # A named compiler that is no Clang is for host code: the one for HIP is found as usual, if there is one.
    gcc = shutil.which("g++")
    if gcc and shutil.which("clang++-19") and shutil.which("ld.lld-19"):
        expect(0, "gfx942", "compile", *hip, "--compiler", gcc)
    expect(2, "--device", "gemm", *SIZES, *cache, "--target", "cuda", "--device", "-1")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cache = ["--cache-dir", folder / "cache"]
        out = folder / "D.npy"
        expect(2, "error[E0701]", "gem")
        expect(2, "did you mean 'gemm'", "gem")
        expect(2, "did you mean '--m'", "gemm", "--mm", 3)
        expect(2, "error[E0701]", "gemm", "--m", "three")
        expect(2, "error[E0701]", "gemm", "--m", -1, "--n", 2, "--k", 2)
        expect(1, "error[E0130]", "gemm", *SIZES, *cache, "--epilogue", "def f(accum): D = relu(acum); return D", "--out", f"D={out}")
        expect(2, "error[E0401]", "gemm", *SIZES, *cache, "--target", "gpu")
        expect(2, "error[E0402]", "gemm", *SIZES, *cache, "--target", "cpu:avx3")
        expect(2, "error[E0702]", "gemm", *SIZES, *cache, "--debug", "dump:grph")
        missing = run("gemm", *cache, "--a", folder / "none.npy", "--b", folder / "none.npy", "--out", f"D={out}")
        if missing.returncode != 3 or "none.npy" not in missing.stderr + missing.stdout:
            FAILURES.append(f"a missing file: status {missing.returncode}\n{missing.stderr}")
        (folder / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }")
        cut = run("gemm", *cache, "--a", folder / "cut.npy", "--b", folder / "cut.npy", "--out", f"D={out}")
        if cut.returncode != 3 or "error[E0621]" not in cut.stderr + cut.stdout:
            FAILURES.append(f"a truncated file: status {cut.returncode}\n{cut.stderr}")
        if list(folder.glob("D.npy*")):
            FAILURES.append(f"a failed call left {list(folder.glob('D.npy*'))}")
        good = expect(0, "", "gemm", *SIZES, *cache, "--epilogue", "def f(accum): D = relu(accum); return D", "--out", f"D={out}", "--check")
        if good.returncode == 0 and not out.exists():
            FAILURES.append("--out wrote nothing")
        data_in_and_out(folder, cache)
        said_wrongly(folder, cache)
        options_with_values(folder, cache)
        switched_off(folder, cache)
        cache_is_honest(folder)
        on_a_gpu(cache)
        programs_explained(folder, cache)
        for how in (signal.SIGINT, signal.SIGKILL):
            tune_interrupted(folder, how)
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            compile_interrupted(folder, how)
            program_interrupted(folder, how)
        ignoring = run("gemm", *SIZES, "--no-cache", "--epilogue", "def f(accum): D = erf(accum); return D",
                       preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        if "interpreted" in ignoring.stdout + ignoring.stderr or ignoring.returncode != 0:
            FAILURES.append(f"with SIGCHLD ignored: {ignoring.stdout}{ignoring.stderr}")
        for arguments in (["gemm", *SIZES, "--check"], ["kernels", *SIZES], ["explain", *SIZES], ["doctor"], ["cache", "stats"]):
            done = run(*arguments, *cache, "--json")
            try:
                for line in [done.stdout] if done.stdout.count("\n{") == 0 else done.stdout.splitlines():
                    json.loads(line)
            except ValueError as error:
                FAILURES.append(f"codetta {' '.join(arguments)} --json is no JSON ({error}): {done.stdout[:300]} {done.stderr[:300]}")
    return outcome()


if __name__ == "__main__":
    sys.exit(main())
