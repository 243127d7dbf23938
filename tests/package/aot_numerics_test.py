# SPDX-License-Identifier: Apache-2.0
"""Libraries of programs that contract nothing: the bits of runs in process, and what the manifest says. Usage: aot_numerics_test.py, as of aot_test.py"""

import ctypes
import json
import random
import struct
import unittest

from aot_support import Library, WORK, build, codetta, floats, main, npy, npy_data

TEXT = ("def f(x: f32['m', 24], w: f32[24, 40], g: f32['m', 40], c: f32['m', 40]):\n"
        "    h = x @ w\n    y = h * g + c\n    z = g * c + x[:, :1]\n    return h, y, z\n")
SHAPES = {"x": ("m", 24), "w": (24, 40), "g": ("m", 40), "c": ("m", 40)}


class Numerics(unittest.TestCase):
    def test_same_bits(self):
        usual, _ = build(TEXT, "usual")
        strict, _ = build(TEXT, "strict", "--strict")
        program, m = WORK / "strict.py", 19
        arguments, given = [], []
        for name, shape in SHAPES.items():
            sizes = tuple(m if size == "m" else size for size in shape)
            arguments.append(floats(npy(WORK / f"{name}.npy", sizes, [random.gauss(0, 1) for _ in range(sizes[0] * sizes[1])])))
            given += ["--tensor", f"{name}={WORK / name}.npy"]
        left = {}
        for library, options in ((usual, []), (strict, ["--strict"])):
            name = library.stem[3:]
            results = [floats(m * 40) for _ in "hyz"]
            loaded = Library(library, name)
            self.assertEqual(loaded("f", *arguments, *results, ctypes.c_int64(m), None), 0, loaded.text())
            codetta("run", program, *given, *(word for out in "hyz" for word in ("--out", f"{out}={WORK / out}_run.npy")), "--force",
                    *options)
            for out, result in zip("hyz", results):
                self.assertEqual(bytes(result), npy_data(WORK / f"{out}_run.npy"), f"{name}: {out}")
            left[name] = [list(result) for result in results]

        def rounded(value):
            return struct.unpack("f", struct.pack("f", value))[0]

        # A product of two f32 is exact in f64, and so is what a sum of two is rounded from, but for a second rounding that these never meet.
        h, y, _ = left["strict"]
        for i, (value, result) in enumerate(zip(h, y)):
            self.assertEqual(result, rounded(rounded(value * arguments[2][i]) + arguments[3][i]), f"element {i}")
        self.assertEqual(left["usual"][0], h, "a product without an epilogue is the same")

    def test_numbers_of_64_bits(self):
        """Whole numbers of u64 are exact on the command line and in a call."""
        text = "def f(x: i64['m', 3], a: u64):\n    y = a - cast(x, u64)\n    z = cast(a // 7, i64) + x\n    return y, z\n"
        library, _ = build(text, "numbers")
        loaded, m = Library(library, "numbers"), 5
        x = [random.randrange(1 << 40) for _ in range(m * 3)]
        npy(WORK / "numbers_x.npy", (m, 3), x, "q")
        for a in (1 << 63, (1 << 64) - 1, random.randrange(1 << 63, 1 << 64), 12):
            y, z = (ctypes.c_uint64 * (m * 3))(), (ctypes.c_int64 * (m * 3))()
            self.assertEqual(loaded("f", (ctypes.c_int64 * (m * 3))(*x), ctypes.c_uint64(a), y, z, ctypes.c_int64(m), None), 0, loaded.text())
            self.assertEqual(list(y), [(a - value) % (1 << 64) for value in x], a)
            self.assertEqual(list(z), [a // 7 + value for value in x], a)
            codetta("run", WORK / "numbers.py", "--tensor", f"x={WORK / 'numbers_x.npy'}", "--scalar", f"a={a}", "--check",
                    *(word for out in "yz" for word in ("--out", f"{out}={WORK / out}_run.npy")), "--force")
            self.assertEqual(bytes(y), npy_data(WORK / "y_run.npy"), a)
            self.assertEqual(bytes(z), npy_data(WORK / "z_run.npy"), a)
        refused = codetta("run", WORK / "numbers.py", "--scalar", f"a={1 << 64}", "--dim", "m=2", code=2).stderr
        self.assertIn("whole numbers have 64 bits: -9223372036854775808 to 18446744073709551615", refused)

    def test_what_is_told(self):
        for options in ([], ["--strict"]):
            build(TEXT, "told", *options)
            kernels = json.loads((WORK / "told.json").read_text())["programs"][0]["plan"]["kernels"]
            self.assertEqual(["no contraction" in kernel["epilogue"] for kernel in kernels], [bool(options)] * len(kernels))


if __name__ == "__main__":
    main()
