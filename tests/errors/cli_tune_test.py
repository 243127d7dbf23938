# SPDX-License-Identifier: Apache-2.0
"""`codetta tune PROGRAM`: what is told of the configurations of kernels of the user's, what later commands make of it, and what is refused. No test asks
which of two is the faster one. Argument: the built command."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile

from cli_support import COMMAND, FAILURES, array, expect, outcome, run, wait_for

PROGRAM = 'def f(x: f32["n", 8], by: f32):\n    h = x + 1.0\n    y = user_kernel("own", h, by, out="f32[n, 8]")\n    return y\n'
SOURCE = """#pragma codetta config(WAY = 0) config(WAY = 1) config(WAY = 2) config(WAY = 3) config(WAY = 4)
void own(Tensor<const float, 2> x, float by, Tensor<float, 2> y) {
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t c = 0; c < 8; ++c) y(r, c) = x(r, c) * by;
#if WAY == 2
  if (x.size(0) > 3) y(3, 5) += 1;
#elif WAY == 3
  __builtin_trap();
#elif WAY == 4
  no_such_name = 1;
#endif
}
"""
ENDLESS = SOURCE.replace("__builtin_trap();", "for (volatile int turn = 0;;) turn = turn + 1;")
CALL = "own(f32[6, 8], f32) -> f32[6, 8]"


def told(folder, cache):
    """Times, or why not, in text and JSON; what explain, emit, compile, build and another cache then take."""
    words = [folder / "p.py", "--kernel", f"own={folder / 'own.cc'}", *cache]
    expect(0, "the first of 5 configurations, none of which is measured for these sizes", "explain", *words, "--hint", "n=6")
    text = expect(0, "5 candidates in", "tune", *words, "--dim", "n=6").stdout
    for part in (f"{CALL}\n", "user_own_WAY_0  ", "user_own_WAY_1  ", "us  spread", "out: its results are not those of user_own_WAY_0: [3, 5] is ",
                 "1 of 48 elements differ", "out: crashed in its first run: signal 4", "out: E0313: ", "no_such_name", "; kept in "):
        if part not in text:
            FAILURES.append(f"tune does not tell {part!r}:\n{text}")
    done = expect(0, "", "tune", *words, "--dim", "n=6", "--json", "--candidates", 3)
    results = json.loads(done.stdout)["results"]
    if [one["call"] for one in results] != [CALL] * 3 or [one["failure"] == "" for one in results] != [True, True, False]:
        FAILURES.append(f"tune --json: {results}")
    best = results[0]["kernel"]
    explained = json.loads(expect(0, "", "explain", *words, "--hint", "n=6", "--json").stdout)
    own = next(kernel for kernel in explained["kernels"] if kernel["picked"].startswith("user_own"))
    measured = {one["name"]: one["measured_us"] for one in own["candidates"]}
    wanted = {one["kernel"]: None if one["failure"] else one["median_us"] for one in results} | {"user_own_WAY_3": None, "user_own_WAY_4": None}
    if own["picked"] != best or measured != wanted:
        FAILURES.append(f"explain picks {own['picked']} by {measured}, and tune has measured {wanted}")
    macro = f"#define WAY {best[-1]}\n"
    expect(0, macro, "emit", *words, "--hint", "n=6", "--what", "source")
    expect(0, "#define WAY 0\n", "emit", *words, "--hint", "n=7", "--what", "source")
    expect(0, "run  ", "run", *words, "--dim", "n=6")
    expect(1, "proves nothing", "run", *words, "--dim", "n=6", "--check")  # its results are all that there is
    times, other = folder / "times.txt", ["--cache-dir", folder / "other"]
    expect(0, "exported", "tune", *cache, "--export", times)
    expect(0, "1 problem imported", "tune", *other, "--import", times)
    elsewhere = json.loads(expect(0, "", "explain", *words[:3], *other, "--hint", "n=6", "--json").stdout)
    if elsewhere["kernels"] != explained["kernels"]:
        FAILURES.append(f"times in another cache: {elsewhere['kernels']}")
    # Given tensors, and a program without a choice.
    x = array(folder / "x.npy", (6, 8))
    expect(0, CALL, "tune", *words, "--tensor", f"x={x}", "--scalar", "by=0.5", "--candidates", 2)
    one = folder / "one.cc"
    one.write_text(SOURCE.partition("\n")[2])
    expect(0, "note: the program calls no kernel of its own that has several configurations", "tune", folder / "p.py", "--kernel", f"own={one}", *cache)


def built(folder):
    """A library that is tuned while it is built, and one that takes what was measured then."""
    words = [folder / "p.py", "--kernel", f"own={folder / 'own.cc'}", "--hint", "n=6", "--cache-dir", folder / "built"]
    done = expect(0, f"f: {CALL} takes user_own_WAY_", "build", *words, "-o", folder / "libtuned.so", "--tune", "--budget", 60, "--trial", 5)
    tuning = json.loads((folder / "tuned.json").read_text())["tuning"]["f"]
    (picked,) = tuning["configurations"]
    measured = {one["kernel"]: one for one in picked["measured"]}
    if picked["call"] != CALL or sorted(measured) != [f"user_own_WAY_{way}" for way in range(5)] or tuning["sizes"] != {"n": 6}:
        FAILURES.append(f"configurations of the manifest: {tuning}")
    for way, part in enumerate(("", "", "its results are not those of user_own_WAY_0", "crashed in its first run", "E0313: ")):
        one = measured[f"user_own_WAY_{way}"]
        if part not in one.get("failure", "") or ("microseconds" in one) != (part == ""):
            FAILURES.append(f"the manifest says of WAY = {way}: {one}")
    if picked["picked"] != picked["measured"][0]["kernel"] or f"{CALL} takes {picked['picked']}" not in done.stdout + done.stderr:
        FAILURES.append(f"picked while building: {picked}\n{done.stdout}{done.stderr}")
    expect(0, "", "build", *words, "-o", folder / "liblater.so")
    kernels = [set(re.findall(r"codetta_own_\w{8}", str(json.loads((folder / f"{name}.json").read_text())["programs"]))) for name in ("tuned", "later")]
    if len(kernels[0]) != 1 or kernels[0] != kernels[1]:
        FAILURES.append(f"kernels of a tuned library, and of one after it: {kernels}")


def refused(folder, cache):
    words = ["tune", folder / "p.py", "--kernel", f"own={folder / 'own.cc'}", *cache]
    x = array(folder / "x.npy", (6, 8))
    for said, *more in (("--m is for a GEMM", "--m", 5), ("--report is for the tuning of a GEMM", "--report", folder / "r.html"), 
                        ("--out is for a GEMM", "--out", "y=y.npy"), ("contradicts the tensors", "--tensor", f"x={x}", "--dim", "n=7"),
                        ("--seed has no effect", "--tensor", f"x={x}", "--scalar", "by=1", "--seed", 3), ("the program has no parameter 'z'", "--scalar", "z=1"),
                        ("x is given twice", "--tensor", f"x={x}", "--tensor", f"x={x}"), ("'n' gives no size", "--dim", "n"), ("--budget", "--budget", 0),
                        ("--candidates", "--candidates", 0)):
        expect(2, said, *words, *more)
    expect(1, "the program has no size q", *words, "--dim", "q=3")
    expect(1, "error[E0311]", "tune", folder / "p.py", *cache)
    expect(1, "error[E0209]: the program calls no kernel other", "tune", folder / "p.py", *cache, "--kernel", f"other={folder / 'own.cc'}")
    expect(2, "cannot read", "tune", folder / "none.py", *cache)
    expect(2, "--dim is for a program", "tune", "--m", 5, "--n", 7, "--k", 3, *cache, "--dim", "n=6")
    expect(2, "a program is not for --export", "tune", folder / "p.py", *cache, "--export", folder / "times.txt")


def interrupted(folder):
    """Ctrl-C while a configuration hangs: what was measured is kept, and nothing is left running."""
    cache = folder / "interrupted"
    words = [folder / "p.py", "--kernel", f"own={folder / 'endless.cc'}", "--cache-dir", cache]
    command = [COMMAND, "tune", *words, "--dim", "n=6", "--budget", "1000", "--candidates", "4"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as tuning:
        wait_for(lambda: list(cache.rglob("*.tune")) or tuning.poll() is not None)
        tuning.send_signal(signal.SIGINT)
        out, err = tuning.communicate(timeout=120)
    if tuning.returncode != 130 or "stopped after" not in out or "hung" in out:
        FAILURES.append(f"tune of a program ended by Ctrl-C: status {tuning.returncode}\n{out}{err}")
    if "us measured, of 5 configurations" not in run("explain", *words, "--hint", "n=6").stdout:
        FAILURES.append(f"tune of a program ended by Ctrl-C kept nothing:\n{out}{err}")


PRODUCTS = 'def g(x: f32["n", 64], a: f32[64, 48], b: f32[64, 48]):\n    y = relu(x @ a) * (x @ b)\n    return y\n'


def whole(folder):
    """What a program is made of: timed, kept, told by explain, taken by runs; nothing unasked."""
    (folder / "g.py").write_text(PRODUCTS)
    cache, other = ["--cache-dir", folder / "whole"], ["--cache-dir", folder / "whole2"]
    program = [folder / "g.py", *cache]
    if "measured" in expect(0, "picked", "explain", *program, "--hint", "n=40").stdout:
        FAILURES.append("something is measured unasked")
    text = expect(0, "; kept in ", "tune", *program, "--dim", "n=40", "--budget", 30, "--candidates", 3).stdout
    if "kernel 0: " not in text or "g.py:2" not in text:
        FAILURES.append(f"tune of a program does not say what it times:\n{text}")
    done = json.loads(expect(0, "", "tune", *program, "--dim", "n=40", "--budget", 30, "--candidates", 3, "--json").stdout)
    calls = {}
    for one in done["results"]:
        calls.setdefault(one["call"], []).append(one)
    kernels = [results for call, results in calls.items() if call.startswith("kernel ")]
    if not done["complete"] or not kernels or any(one["failure"] or one["median_us"] <= 0 for one in done["results"]):
        FAILURES.append(f"tune of a program: {done}")
    explained = json.loads(expect(0, "", "explain", *program, "--hint", "n=40", "--json").stdout)
    picked = [kernel["picked"] for kernel in explained["kernels"]]
    if any(results[0]["kernel"] not in picked for results in kernels):
        FAILURES.append(f"explain picks {picked} of {kernels}")
    for decision in explained["measured"]:
        times = decision["program_us"]
        if (times["apart"] < times["together"]) != (decision["picked"] == "apart"):
            FAILURES.append(f"a decision by time: {decision}")
    times = folder / "whole.txt"
    expect(0, "exported", "tune", *cache, "--export", times)
    expect(0, "1 problem imported", "tune", *other, "--import", times)
    if json.loads(expect(0, "", "explain", folder / "g.py", *other, "--hint", "n=40", "--json").stdout) != explained:
        FAILURES.append("times in another cache are not taken")
    expect(0, "pass", "run", *program, "--dim", "n=40", "--check")
    tuned = expect(0, "run  ", "run", folder / "g.py", "--cache-dir", folder / "whole3", "--dim", "n=24", "--tune", "--budget", 30)
    if "tuned: " not in tuned.stderr or "measured" not in expect(0, "", "explain", folder / "g.py", "--cache-dir", folder / "whole3", "--hint", "n=24").stdout:
        FAILURES.append(f"run --tune: {tuned.stdout}{tuned.stderr}")
    expect(2, "--tune and --hint exclude each other", "run", *program, "--dim", "n=40", "--hint", "n=40", "--tune")
    expect(2, "--tune", "run", *program, "--dim", "n=40", "--budget", 3)


def memory(folder):
    """Text and JSON say the same."""
    words = ["emit", folder / "g.py", "--cache-dir", folder / "whole", "--what=memory", "--hint", "n=24"]
    text = expect(0, "workspace: ", *words).stdout
    said = json.loads(expect(0, "", *words, "--json").stdout)["memory"]
    run_of = json.loads(expect(0, "", "run", folder / "g.py", "--cache-dir", folder / "whole", "--dim", "n=24", "--json").stdout)
    if f"workspace: {said['workspace']['devices'][0]['bytes']} bytes" not in text or run_of["workspace_bytes"] != said["workspace"]["devices"][0]["bytes"]:
        FAILURES.append(f"memory of a program: {said['workspace']}, a run takes {run_of['workspace_bytes']}\n{text}")
    gemm = ["emit", "--m", 5, "--n", 7, "--k", 3, "--what=memory", "--cache-dir", folder / "whole"]
    if "workspace" not in json.loads(expect(0, "", *gemm, "--json").stdout)["memory"] or "workspace: " not in expect(0, "", *gemm).stdout:
        FAILURES.append("memory of a GEMM")


def main():
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        (folder / "p.py").write_text(PROGRAM)
        (folder / "own.cc").write_text(SOURCE)
        (folder / "endless.cc").write_text(ENDLESS)
        cache = ["--cache-dir", folder / "cache"]
        told(folder, cache)
        built(folder)
        refused(folder, cache)
        interrupted(folder)
        whole(folder)
        memory(folder)
    return outcome()


if __name__ == "__main__":
    raise SystemExit(main())
