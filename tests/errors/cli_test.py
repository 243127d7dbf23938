# SPDX-License-Identifier: Apache-2.0
"""The codetta command misused: codes, exit statuses, JSON, and no partial output file. Argument: the built command."""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

COMMAND = sys.argv.pop(1)
FAILURES = []
SIZES = ["--m", "5", "--n", "7", "--k", "3"]
EPILOGUES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "epilogues"


def run(*arguments, **options):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


def expect(status, text, *arguments):
    """The exit status and a part of what is said; a failure says nothing on standard output but JSON."""
    done = run(*arguments)
    said = done.stdout + done.stderr
    if done.returncode != status or text not in said:
        FAILURES.append(f"codetta {' '.join(map(str, arguments))}\n  status {done.returncode}, wanted {status}; wanted '{text}' in:\n{said}")
    return done


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
        for how in (signal.SIGINT, signal.SIGKILL):
            tune_interrupted(folder, how)
        for arguments in (["gemm", *SIZES, "--check"], ["kernels", *SIZES], ["explain", *SIZES], ["doctor"], ["cache", "stats"]):
            done = run(*arguments, *cache, "--json")
            try:
                for line in [done.stdout] if done.stdout.count("\n{") == 0 else done.stdout.splitlines():
                    json.loads(line)
            except ValueError as error:
                FAILURES.append(f"codetta {' '.join(arguments)} --json is no JSON ({error}): {done.stdout[:300]} {done.stderr[:300]}")
        for example in sorted((EPILOGUES / "failing").glob("*.py")):
            headline = [line.removeprefix("# expect: ") for line in example.read_text().splitlines() if line.startswith("# expect: ")][0]
            text = run("gemm", *SIZES, *cache, "--epilogue", example, "--json")
            # Operands are made by the command itself, so only mistakes of the text show here.
            if headline.startswith(("accum must", "Variable ")) and headline.strip() not in text.stderr + text.stdout:
                FAILURES.append(f"{example.name}: wanted '{headline}' in {text.stdout}{text.stderr}")
    for failure in FAILURES:
        print(failure)
    print(f"{len(FAILURES)} failures")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
