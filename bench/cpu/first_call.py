# SPDX-License-Identifier: Apache-2.0
"""How long the digits library takes to load, and its first call after that, each in a new process.
Usage: first_call.py CODETTA SOURCE_FOLDER [PROCESSES]"""
import ctypes
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def one(library):
    x, scores = (ctypes.c_float * 64)(*([0.5] * 64)), (ctypes.c_float * 10)()
    start = time.perf_counter()
    digits = ctypes.CDLL(library)
    loaded = time.perf_counter()
    status = digits.digits_classifier(x, scores, ctypes.c_int64(1), None)
    first = time.perf_counter()
    digits.digits_classifier(x, scores, ctypes.c_int64(1), None)
    print(status, loaded - start, first - loaded, time.perf_counter() - first)


def main():
    codetta, source, processes = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), int((sys.argv + ["51"])[3])
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "libdigits.so"
        digits = source / "examples/digits"
        subprocess.run([codetta, "build", digits / "classifier.py", "-o", library, "--weights", digits / "digits.safetensors", "--embed-weights"],
                       check=True)
        samples = []
        for _ in range(processes):
            said = subprocess.run([sys.executable, __file__, "--one", library], check=True, capture_output=True, text=True).stdout.split()
            if said[0] != "0":
                raise SystemExit(f"the call returns {said[0]}")
            samples.append([float(value) * 1e3 for value in said[1:]])
        for name, values in zip(("load", "first call", "second call"), zip(*samples)):
            print(f"{name}: median {statistics.median(values):.3f} ms, least {min(values):.3f}, most {max(values):.3f} of {processes} processes")
        print(f"library: {library.stat().st_size} bytes")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(sys.argv[2])
    else:
        main()
