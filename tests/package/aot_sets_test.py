# SPDX-License-Identifier: Apache-2.0
"""Which micro-kernels libraries for CPUs carry: those of the products that they have, at every level. Usage: as of aot_test.py"""
import ctypes
import itertools
import json
import platform
import random
import struct
import unittest

from aot_support import DIGITS, WORK, Library, build, codetta, main
from commit_slice import of_this_commit

LEVELS = ("generic", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx") if platform.machine() == "x86_64" else ("generic", "neon")
FORMATS = {"f32": "f", "f64": "d", "f16": "e", "bf16": "", "i8": "b", "u8": "B", "i16": "h", "i32": "i", "i64": "q"}
PAIRS = (*((dtype, dtype) for dtype in FORMATS), ("u8", "i8"), ("i8", "u8"), ("f32", "bf16"), ("f32", "f16"), ("i32", "i8"), ("i32", "u8"))


def encoded(dtype, values):
    if dtype == "bf16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def text_of(name, a, b, transposed):
    wide = "f64" if "64" in a else "f32"
    given, seen = ('"n", 40', "transpose(b)") if transposed else ('40, "n"', "b")
    return f'def {name}(a: {a}["m", 40], b: {b}[{given}]):\n    y = cast(a @ {seen}, {wide})\n    return y\n\n'


def supported():
    found = []
    for level in LEVELS:
        probe = WORK / "probe.py"
        probe.write_text("def probe(x: f32[4]):\n    y = x * 2.0\n    return y\n")
        if codetta("run", probe, "--target", f"cpu:{level}", code=None).returncode == 0:
            found.append(f"cpu:{level}")
    return found


class Sets(unittest.TestCase):
    def test_digits_at_every_level(self):
        """A library can be built for processors that are not there; it has no more than 1 MB."""
        for level in of_this_commit(LEVELS):
            path, _ = build(DIGITS / "classifier.py", f"digits_{level}", "--weights", DIGITS / "digits.safetensors", "--embed-weights",
                            "--target", f"cpu:{level}", optimized=True)
            print(f"\ndigits for cpu:{level}: {path.stat().st_size} bytes")
            self.assertLessEqual(path.stat().st_size, 1_000_000, level)

    def test_products_of_all_types(self):
        """Sums of small integers are exact: what is not linked, or of another type, would show. Of what a level's families read, packed and where it lies."""
        names = [(f"p{i}_{order}", a, b, order) for i, (a, b) in enumerate(PAIRS) for order in (0, 1)]
        text = "".join(text_of(name, a, b, transposed) for name, a, b, transposed in names)
        there = supported()
        self.assertIn("cpu:generic", there)
        for level in of_this_commit(LEVELS):
            libraries = []
            for hint in ("1", "300"):  # of few rows B is read where it lies
                path, _ = build(text, f"sets_{level}_{hint}", "--target", f"cpu:{level}", "--hint", f"m={hint}", "--hint", f"n={hint}",
                                *(word for name in names for word in ("--function", name[0])))
                libraries.append((path, f"sets_{level}_{hint}"))
            families = {kernel["config"].get("family") for _, name in libraries for program in json.loads((WORK / f"{name}.json").read_text())["programs"]
                        for kernel in program["plan"]["kernels"]}
            self.assertLessEqual({"packed", "in_place"}, families)
            if f"cpu:{level}" not in there:
                continue
            for (path, library_name), (name, a, b, transposed) in itertools.product(libraries, names):
                library = Library(path, library_name)
                for m, n in ((1, 9), (33, 70)):
                    low, high = (0, 3) if "u8" in (a, b) else (-3, 3)
                    x, w = ([random.randint(low, high) for _ in range(count)] for count in (m * 40, n * 40))
                    y = ((ctypes.c_double if "64" in a else ctypes.c_float) * (m * n))()
                    sizes = [ctypes.c_int64(m), ctypes.c_int64(n)]
                    status = library(name, encoded(a, x), encoded(b, w), y, *sizes, None)
                    self.assertEqual(status, 0, f"{name}: {library.text()}")
                    wanted = [sum(x[r * 40 + k] * (w[c * 40 + k] if transposed else w[k * n + c]) for k in range(40)) for r in range(m) for c in range(n)]
                    self.assertEqual(list(y), wanted, f"{level}, {a} x {b}, transposed {transposed}, {m} x {n}, {library_name}")


if __name__ == "__main__":
    main()
