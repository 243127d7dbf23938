# SPDX-License-Identifier: Apache-2.0
"""The command watches runs on a GPU as on a CPU: --check over kernels of the user's, --values, --trap, --save-values, --trace, --bisect, --debug, and says what ran where a size is 0, over the emulator in the
place of AMD's runtime. Arguments: the codetta command, the emulated runtime."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from quick_compiler import quick_compiler  # noqa: E402

USER = ROOT / "examples" / "user_kernel"
QUICK = ("g++",)  # what Codetta takes where it is there
FAILURES = []


class Machine:
    """A search path without a Clang, which would compile for AMD's own instructions, and with the emulated runtime."""

    def __init__(self, command, runtime, folder):
        self.command, self.folder = command, folder
        tools, libraries = folder / "bin", folder / "lib"
        tools.mkdir()
        libraries.mkdir()
        for tool in ("c++", "g++", "gcc", "as", "ld", "ld.bfd", "ld.gold"):
            found = shutil.which(tool)
            if found and "clang" not in os.path.realpath(found):
                (tools / tool).symlink_to(quick_compiler(found, ROOT, folder / f"quick_{tool}") if tool in QUICK else found)
        (libraries / "libamdhip64.so.6").symlink_to(runtime)
        (libraries / "libhiprtc.so.6").symlink_to("libamdhip64.so.6")
        before = os.environ.get("LD_LIBRARY_PATH")
        self.environment = {**os.environ, "PATH": str(tools), "LD_LIBRARY_PATH": ":".join(filter(None, (str(libraries), before))), "CODETTA_CACHE_DIR": str(folder / "cache")}

    def run(self, *arguments, status=0, said=()):
        done = subprocess.run([self.command, *map(str, arguments)], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300)
        lacking = [text for text in said if text not in done.stdout + done.stderr]
        if done.returncode != status or lacking:
            FAILURES.append(f"codetta {' '.join(map(str, arguments))}: status {done.returncode}, wanted {status} and {lacking} in:\n{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments, status=0):
        done = self.run(*arguments, "--json", status=status)
        return json.loads(done.stdout) if done.stdout else {}


def checks(machine):
    """What kernels of the user's computed is taken as given, between products and where it is handed over."""
    given = "running_sums: its results are taken as the run left them"
    between = ["run", USER / "program.py", "--kernel", f"running_sums={USER / 'running_sums.hip'}", "--dim", "m=5", "--target", "hip", "--check"]
    handed = ["run", USER / "hooked.py", "--kernel", f"running_sums={USER / 'hooked_sums.hip'}", "--dim", "m=5", "--dim", "n=24", "--target", "hip", "--check"]
    machine.run(*between, said=(given, "40 of 40 elements checked, 0 wrong"))
    machine.run(*handed, said=(given, "120 of 120 elements checked, 0 wrong"))
    found = machine.json(*between, "--values")
    if found.get("check", {}).get("given") != ["running_sums"] or found["check"]["verdict"] != "pass":
        FAILURES.append(f"run --check --json: {found}")


def by_name(found):
    return {value["name"]: value for step in found["steps"] for value in step["written"] if step["kernel"]}


def values(machine):
    """The same values on both, as statistics, as files, and where one of them is no number."""
    program = machine.folder / "layers.py"
    program.write_text('def layers(x: f32["n", 7], w: f32[7, 5], v: f32[5, 4]):\n    h = log(x @ w)\n    y = relu(x @ w) @ v\n    return h, y\n')
    watched = ["run", program, "--dim", "n=6"]
    here, there = (by_name(machine.json(*watched, "--values", "--target", target)) for target in ("cpu:generic", "hip"))
    common = here.keys() & there.keys()
    if not {"h", "y"} <= common:
        FAILURES.append(f"run --values: {here}, {there}")
    for name in common:
        one, other = here[name], there[name]
        same = all(one[key] == other[key] for key in ("elements", "nan", "infinite", "form"))
        near = all(abs(one[key] - other[key]) < 1e-4 * max(1, abs(one[key])) for key in ("least", "greatest", "mean"))
        if not same or not near:
            FAILURES.append(f"run --values of {name}: {one}, {other}")
    if there["h"]["nan"] == 0:
        FAILURES.append(f"the logarithms of negative numbers: {there['h']}")
    trap = machine.run(*watched, "--target", "hip", "--trap", "nan", "--out", "h=h.npy", status=1, said=("error[E0619]", "layers.py:2: h = log(x @ w)"))
    if (machine.folder / "h.npy").exists():
        FAILURES.append(f"a run that ends in a trap writes: {trap.stdout}")
    machine.run(*watched, "--target", "hip", "--out", "h=h.npy", "--save-values", "kept", "--trace", "trace.json")
    files = sorted((machine.folder / "kept").iterdir())
    own = next((file for file in files if file.name.endswith("_h.npy")), None)
    if own is None or own.read_bytes() != (machine.folder / "h.npy").read_bytes():
        FAILURES.append(f"run --save-values: {files}")
    events = json.loads((machine.folder / "trace.json").read_text())["traceEvents"]
    if not any("layers.py:2: h = log(x @ w)" in event["args"].get("origins", ()) for event in events):
        FAILURES.append(f"run --trace: {events}")


def bisects(machine):
    program = machine.folder / "mlp.py"
    program.write_text('def mlp(x: f32["m", 8], w: f32[8, 16], v: f32[16, 8]):\n    h = relu(x @ w)\n    y = h @ v\n    return y\n')
    found = machine.json("run", program, "--dim", "m=5", "--target", "hip", "--bisect")
    checked = [(value["checked"], value["wrong"]) for step in found["steps"] for value in step["values"]]
    if found["first_wrong"] != -1 or checked != [(80, 0), (40, 0)]:
        FAILURES.append(f"run --bisect: {found}")
    machine.run("run", program, "--dim", "m=5", "--target", "hip", "--debug=dump:plan,dump:memory,time:passes", "--values", said=("launch", "mlp.py:3: y = h @ v"))


def instead(machine):
    """Without rows h is made by other kernels, which are named; with rows there are none."""
    words = ["gemm", "--target", "hip", "--n", 5, "--k", 7, "--tensor", "g=[N]:f32", "--epilogue", "def e(accum, g): h = exp(g); D = accum * h; return D, h", "--check"]
    machine.run(*words, "--m", 0, said=("\ninstead   codetta_", ", since a size is 0\n", "h: 5 of 5 elements checked, 0 wrong"))
    none, some = (machine.json(*words, "--m", rows) for rows in (0, 2))
    if len(none.get("instead", [])) < 2 or "instead" in some or not some["kernel"]:
        FAILURES.append(f"gemm --json without rows: {none}; with rows: {some}")


def main():
    if shutil.which("g++") is None:
        print("skipped: the emulator needs a g++")
        return 77
    with tempfile.TemporaryDirectory() as path:
        machine = Machine(*(pathlib.Path(argument).resolve() for argument in (*sys.argv[1:3], path)))
        checks(machine)
        values(machine)
        bisects(machine)
        instead(machine)
    print("\n".join(FAILURES))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
