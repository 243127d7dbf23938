# SPDX-License-Identifier: Apache-2.0
"""Tuning on a GPU, of GEMMs, programs and libraries: what crashes or hangs loses alone, in a second command, over the emulator in the place of AMD's runtime (which takes no times: it refuses captures).
Arguments: the codetta command, the emulated runtime. Without the runtime: on the NVIDIA GPU of this machine, with times."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from watch_test import FAILURES, Machine

TARGET, SUFFIX, NOT_TIMED = ("hip", "hip", "E0646: ") if len(sys.argv) > 2 else ("cuda", "cu", "")
# What a right kernel prints goes to the standard output of its process.
SAY = "#include <unistd.h>\n#define SAY() (void)!::write(1, \"right\\n\", 6)\n" if NOT_TIMED else "#define SAY() printf(\"right\\n\")\n"
SOURCE = SAY + """#pragma codetta kernel(x: f32[n], at: i32[1], out y: f32[n])
#pragma codetta config(WAY = 0) config(WAY = 1) config(WAY = 2) config(WAY = 3) config(WAY = 4) config(WAY = 5)
#pragma codetta block(64) grid(ceil_div(n, 64))
extern "C" __global__ void __launch_bounds__(64) twice(const float* x, const int* at, float* y) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (WAY == 1) *(volatile int*)0 = 1;
  if (WAY == 2) { for (volatile int spin = 0; spin >= 0;) spin = 1; }
  if (WAY == 3) y[(long long)i << 40] = 1;
  if (WAY == 5 && at[0] != 12) *(volatile int*)0 = 1;
  if (WAY == 0 && i == 0) SAY();
  y[i] = 2 * x[i] + (WAY == 4 ? 1 : 0);
}
"""
PROGRAM = """def f(x: f32["n"], w: f32["n"], at: i32[1]):
    h = x * w
    k = at + 5
    y = user_kernel("twice", h, k, out="f32[n]")
    return y
"""
STATUS = 1 if NOT_TIMED else 0
CRASHED = "crashed in its first run: E0644: a kernel that ran on the device has failed"


class OnGpu(Machine):
    """This machine as it is."""

    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.environment = {**os.environ, "CODETTA_CACHE_DIR": str(folder / "cache")}


def failures(found):
    return {result["kernel"].removeprefix("user_twice_WAY_"): result["failure"] for result in found.get("results", [])}


def measured(machine, tuned):
    done = machine.run(*tuned, "--json", status=STATUS)
    return json.loads(done.stdout.replace("right\n", "") or "{}")


def each_loses_alone(machine):
    """A crash takes its own context along, a hang ends in time, and what is behind them is tried. Operands hold what the program computes."""
    seven = machine.folder / "seven.npy"
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (117 - len(header)) + b"\n"
    seven.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + (7).to_bytes(4, "little"))
    (machine.folder / f"twice.{SUFFIX}").write_text(SOURCE)
    (machine.folder / "twice.py").write_text(PROGRAM)
    tuned = ["tune", "twice.py", "--kernel", f"twice=twice.{SUFFIX}", "--target", TARGET, "--dim", "n=256", "--tensor", f"at={seven}", "--trial", "2", "--budget", "300"]
    found = measured(machine, tuned)
    told = failures(found)
    wanted = {"0": NOT_TIMED, "1": CRASHED, "2": "hung in its first run: no end within 2.", "3": CRASHED, "4": "its results are not those of user_twice_WAY_0: [0] is ", "5": NOT_TIMED}
    for way, beginning in wanted.items():
        if way not in told or not told[way].startswith(beginning) or (told[way] and not beginning):
            FAILURES.append(f"configuration {way}: wanted {beginning!r}, got {told.get(way)!r}")
    if found.get("note"):
        FAILURES.append(f"a note although everything was tried: {found['note']}")
    return tuned


def without_a_process(machine, tuned):
    """What cannot be started, or is another program, is said; what harms nobody is still tried."""
    (machine.folder / f"twice.{SUFFIX}").write_text(SOURCE.replace("config(WAY = 1) config(WAY = 2) config(WAY = 3)", ""))
    impostor = machine.folder / "impostor"
    impostor.write_text("#!/bin/sh\nexec /bin/cat\n")
    impostor.chmod(0o755)
    for command, why in (("/nonexistent/codetta", "/nonexistent/codetta"), ("/bin/false", "the codetta command does not do: "), (impostor, "the codetta command does not do: ")):
        before = dict(machine.environment)
        machine.environment["CODETTA_COMMAND"] = str(command)
        found = measured(machine, tuned)
        machine.environment = before
        if why not in found.get("note", "") or "a configuration that crashes or hangs is not stopped" not in found["note"]:
            FAILURES.append(f"{command}: {found.get('note')!r}")
        if not failures(found).get("4", "").startswith("its results"):
            FAILURES.append(f"{command}: {failures(found)}")


def products(machine):
    """Candidates of a GEMM, too; those are Codetta's, and all come to their end."""
    found = machine.json("tune", "--target", TARGET, "--m", "32", "--n", "32", "--k", "32", "--candidates", "3", status=STATUS)
    told = [result["failure"] for result in found.get("results", [])]
    if len(told) != 3 or not all(text.startswith("error[E0646]") if NOT_TIMED else text == "" for text in told) or found.get("note"):
        FAILURES.append(f"a GEMM: {told}, note {found.get('note')!r}")


def built(machine):
    """A library whose products take what is fastest here, for each hinted size, which its manifest says."""
    (machine.folder / "two.py").write_text('def two(x: f32["b", 64], w: f32[64, 48], v: f32[48, 32]):\n    h = relu(x @ w)\n    y = h @ v\n    return y\n')
    # Sources for nvcc need nothing beside the command.
    output, manifest = (["-o", "libtwo.so"], "two.json") if NOT_TIMED else (["-o", "two", "--form", "nvcc"], "two/two.json")
    done = machine.run("build", "two.py", *output, "--target", TARGET, "--tune", "--hint", "b=16,40", "--budget", "1")
    if done.returncode != 0:
        return
    tuning = json.loads((machine.folder / manifest).read_text())["tuning"]
    if sorted(tuning) != ["two, b = 16", "two, b = 40"]:
        FAILURES.append(f"build --tune: {sorted(tuning)}")
    for found in tuning.values():
        for product in found["products"]:
            timed = {one["kernel"]: one["program_microseconds"] for one in product["measured"] if "program_microseconds" in one}
            if len(timed) < 2 or timed.get(product["picked"]) != min(timed.values()):
                FAILURES.append(f"build --tune: {product}")


# Stands between the tuning and the command that runs its trials: an execution whose number is named does not come to its end.
BETWEEN = """#!{python}
import os, pathlib, signal, socket, struct, subprocess, sys
hangs, crashes, count = {hangs}, {crashes}, pathlib.Path({count!r})
here, there = socket.socketpair()
command = subprocess.Popen([{command!r}, *sys.argv[1:]], stdin=there, stdout=there)
there.close()

def frame_of(socket):
    head = socket.recv(8, 0x100)  # all of it
    if len(head) < 8:
        sys.exit(1)
    size = struct.unpack("<Q", head)[0]
    whole = bytearray(head)
    while len(whole) < 8 + size:
        whole += socket.recv(min(1 << 20, 8 + size - len(whole)))
    return bytes(whole)

caller = socket.socket(fileno=os.dup(0))
here.sendall(frame_of(caller))
made = frame_of(here)
caller.sendall(made)
while True:
    execution = frame_of(caller)
    number = len(count.read_bytes())
    with count.open("ab") as file:
        file.write(b".")
    if number in hangs or number in crashes:
        caller.sendall(made)
        if number in crashes:
            os.kill(os.getpid(), signal.SIGSEGV)
        signal.pause()
    here.sendall(execution)
    caller.sendall(frame_of(here))
    caller.sendall(frame_of(here))
"""


def built_beside_failures(machine):
    """A candidate of a library that hangs or crashes loses alone; where none comes to its end in time, what is said is how to allow more."""
    script, count = machine.folder / "between", machine.folder / "count"
    output, manifest = (["-o", "libbeside.so"], "beside.json") if NOT_TIMED else (["-o", "beside", "--form", "nvcc"], "beside/beside.json")
    build = ["build", "two.py", *output, "--target", TARGET, "--tune", "--hint", "b=16", "--budget", "1"]
    before = dict(machine.environment)
    machine.environment["CODETTA_COMMAND"] = str(script)

    def between(hangs, crashes):
        script.write_text(BETWEEN.format(python=sys.executable, hangs=hangs, crashes=crashes, count=str(count), command=str(machine.command)))
        script.chmod(0o755)
        count.write_bytes(b"")

    between("[1]", "[0, 3]")  # the first execution is of the program as it is planned, which others may be better than
    done = machine.run(*build, "--trial", "10")
    if done.returncode == 0:
        first = json.loads((machine.folder / manifest).read_text())["tuning"]["two"]["products"][0]
        told = [one["failure"] for one in first["measured"] if "failure" in one]
        crashed = "E0644: a kernel that ran on the device has failed: signal 11 (Segmentation fault)"
        wanted = ["E0651: a run of two takes longer than 10 s: tuning ran it once, with a candidate that was to be timed", crashed]
        timed = [one["kernel"] for one in first["measured"] if "program_microseconds" in one]
        if told != wanted or first["picked"] not in timed:
            FAILURES.append(f"build --tune beside failures: {first}")
    between("range(100)", "[]")
    machine.run(*build, "--trial", "0.02", status=1, said=("error[E0651]: a run of two takes longer than 0.02 s", "help: a greater --trial allows more\n"))
    between("[]", "range(100)")
    machine.run(*build, "--trial", "10", status=3, said=("error[E0644]: a kernel that ran on the device has failed", "report this"))
    machine.environment = before


def served(command):
    """The command serves nobody who does not greet it."""
    for said in (b"", b"\x05\0\0\0\0\0\0\0hello", b"\xff" * 64, b"\x00" * 8):
        done = subprocess.run([command, "--serve-trials"], input=said, capture_output=True, timeout=60)
        if done.returncode != 1:
            FAILURES.append(f"--serve-trials with {said!r}: status {done.returncode}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(sys.argv[1], sys.argv[2], pathlib.Path(folder)) if len(sys.argv) > 2 else OnGpu(sys.argv[1], pathlib.Path(folder))
        without_a_process(machine, each_loses_alone(machine))
        products(machine)
        built(machine)
        built_beside_failures(machine)
        served(sys.argv[1])
    print("\n".join(FAILURES))
    sys.exit(1 if FAILURES else 0)


if __name__ == "__main__":
    main()
