# SPDX-License-Identifier: Apache-2.0
"""Donated parameters, ahead of time and from the command: the results are those of the same program that keeps its
inputs, memory that is given up is used and nothing else, files never change, and misuse is an error. And parameters that
are results where they lie.
Usage: aot_donated_test.py <codetta> <cc> <c++> <source folder> <work folder>"""

import ctypes
import json
import random
import struct
import unittest
import warnings

from aot_support import CC, CXX, Library, SOURCE, WORK, Tensor, build, codetta, floats, main, npy, npy_data, run, tensor

BODY = """    a = relu(x @ w)
    b = tanh(a @ w) * 0.5
    c = softmax(b @ w) + z
    y = c @ w
    return y
"""
GIVEN = 'def chain(x: donated[f32["n", 32]], z: donated[f32["n", 32]], w: f32[32, 32]):\n' + BODY
KEPT = 'def chain(x: f32["n", 32], z: f32["n", 32], w: f32[32, 32]):\n' + BODY


def normal(count):
    return floats(struct.pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count))))


def copy(data):
    return floats(bytes(data))


class Donated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paths = [build(text, name, "--hint", "n=9")[0] for name, text in (("given", GIVEN), ("kept", KEPT))]
        cls.given, cls.kept = Library(paths[0], "given"), Library(paths[1], "kept")

    def test_same_bits_in_less_memory(self):
        for n in (1, 9, 200):
            x, z, w = normal(n * 32), normal(n * 32), normal(32 * 32)
            wanted, got, before = floats(n * 32), floats(n * 32), copy(x)
            size = ctypes.c_int64(n)
            self.assertEqual(self.kept("chain", x, z, w, wanted, size, None), 0, self.kept.text())
            self.assertEqual(bytes(before), bytes(x), "what is kept is not written")
            self.assertEqual(self.given("chain", x, z, w, got, size, None), 0, self.given.text())
            self.assertEqual(bytes(wanted), bytes(got))
            self.assertNotEqual(bytes(before), bytes(x), "something else lies there now")
            spared = self.kept("chain_workspace_size", size) - self.given("chain_workspace_size", size)
            self.assertGreaterEqual(spared, n * 32 * 4)
        self.assertEqual(self.given("chain", None, None, w, None, ctypes.c_int64(0), None), 0, self.given.text())

    def test_misuse(self):
        n = ctypes.c_int64(4)
        x, z, w, y = normal(4 * 32), normal(4 * 32), normal(32 * 32), floats(4 * 32)
        for arguments, text in (((x, x, w, y, n, None), "E0613: donated x, f32[4, 32], overlaps z"),
                                ((x, z, w, x, n, None), "E0613: donated x, f32[4, 32], overlaps y"),
                                ((w, z, w, y, n, None), "E0613: donated x, f32[4, 32], overlaps w")):
            self.assertEqual(self.given("chain", *arguments), -3, self.given.text())
            self.assertIn(text, self.given.text())
        self.assertEqual(list(y), [-7.0] * 128)
        wide = normal(4 * 64)
        tensors = (Tensor * 4)(tensor(wide, (4, 32), strides=(64, 1)), tensor(z, (4, 32)), tensor(w, (32, 32)),
                               tensor(y, (4, 32)))
        status = self.given("chain_tensors", tensors, ctypes.c_int32(4), None, ctypes.c_int64(0), None)
        self.assertEqual(status, -2, self.given.text())
        self.assertIn("E0610: donated x can not be reused: it lies in pieces", self.given.text())

    def test_header_and_manifest(self):
        header = (WORK / "given.h").read_text()
        self.assertIn("int given_chain(float* x, float* z, const float* w, float* y, int64_t n, void* stream);", header)
        self.assertIn("x: donated, f32 [n, 32]", header)
        self.assertIn("A donated tensor is overwritten", header)
        self.assertNotIn("donated", (WORK / "kept.h").read_text())
        manifest = json.loads((WORK / "given.json").read_text())
        arguments = manifest["programs"][0]["arguments"]
        self.assertEqual([a.get("donated", False) for a in arguments], [True, True, False, False])
        for compiler, standard, suffix in ((CC, "c11", "c"), (CXX, "c++20", "cc")):
            source = WORK / f"donated.{suffix}"
            source.write_text('#include "given.h"\nint main(void) { return given_init(); }\n')
            run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", source, "-I", WORK, "-o", WORK / "donated",
                "-L", WORK, "-lgiven", "-Wl,-rpath," + str(WORK))
            run(WORK / "donated")

    def test_sizes_have_kernels_of_their_own(self):
        path, _ = build(GIVEN, "sized", "--hint", "n=1,64")
        library = Library(path, "sized")
        for n in (1, 50):
            x, z, w = normal(n * 32), normal(n * 32), normal(32 * 32)
            wanted, got, size = floats(n * 32), floats(n * 32), ctypes.c_int64(n)
            self.assertEqual(self.kept("chain", copy(x), copy(z), w, wanted, size, None), 0)
            self.assertEqual(library("chain", x, z, w, got, size, None), 0, library.text())
            for a, b in zip(wanted, got):
                self.assertAlmostEqual(a, b, places=3)

    def test_constants_are_not_donated(self):
        npy(WORK / "x.npy", (4, 32), list(normal(128)))
        self.assertIn("error[E0139]: donated x cannot be a constant",
                      build(GIVEN, "constant", "--constant", f"x={WORK / 'x.npy'}", code=1))
        self.assertFalse((WORK / "libconstant.so").exists())

    def test_files_never_change(self):
        program = WORK / "given.py"
        files = {name: WORK / f"donated_{name}.npy" for name in "xzw"}
        for name, file in files.items():
            rows = 32 if name == "w" else 5
            npy(file, (rows, 32), list(normal(rows * 32)))
        before = {name: file.read_bytes() for name, file in files.items()}
        tensors = sum((["--tensor", f"{name}={file}"] for name, file in files.items()), [])
        for text in (program, WORK / "kept.py"):
            done = codetta("run", text, *tensors, "--out", f"y={WORK / text.stem}_y.npy", "--check", "--json")
            self.assertEqual(json.loads(done.stdout)["check"]["verdict"], "pass")
            self.assertEqual({name: file.read_bytes() for name, file in files.items()}, before)
        self.assertEqual(npy_data(WORK / "given_y.npy"), npy_data(WORK / "kept_y.npy"))
        codetta("run", program, *tensors, "--bisect")
        codetta("run", program, *tensors, "--values")
        self.assertEqual({name: file.read_bytes() for name, file in files.items()}, before)

    def test_plans_and_memory_show_it(self):
        plan = codetta("emit", WORK / "given.py", "--what", "plan,memory").stdout
        self.assertIn("reuse x as x_donated", plan)
        self.assertIn("memory of the caller, donated", plan)
        self.assertIn("argument x: f32[n, 32] donated", plan)
        explained = json.loads(codetta("explain", WORK / "given.py", "--json").stdout)
        buffers = {b["buffer"]: b for b in explained["memory"]["buffers"]}
        self.assertTrue(buffers["x"]["donated"] and buffers["z"]["donated"])
        self.assertTrue(any(b.get("of") == "x" for b in buffers.values()))

    def test_python(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no numpy")
        text = codetta("emit", WORK / "given.py", "--what=python", "--hint", "n=9").stdout
        self.assertIn("Overwritten, for donated: a0, a1.", text)
        module = {}
        exec(compile(text, "given_module.py", "exec"), module)
        x, z = (np.random.default_rng(s).standard_normal((9, 32)).astype("f4") for s in (1, 2))
        w, y, wanted = np.random.default_rng(3).standard_normal((32, 32)).astype("f4"), np.empty((9, 32), "f4"), floats(288)
        self.assertEqual(self.kept("chain", floats(x.tobytes()), floats(z.tobytes()), floats(w.tobytes()), wanted,
                                   ctypes.c_int64(9), None), 0)
        fixed, pieces = x.copy(), np.zeros((9, 64), "f4")
        fixed.flags.writeable = False
        before = x.tobytes(), z.tobytes(), y.tobytes()
        for arguments, said in (((fixed, z, w, y), "E0213: donated x is bound to read-only memory"), ((x, x, w, y), "E0613: donated x overlaps z"),
                                ((x, z, w, x), "E0613: donated x overlaps y"),
                                ((np.asfortranarray(x), z, w, y), "E0610: donated x can not be reused: it lies in pieces"),
                                ((x, pieces[:, :32], w, y), "E0610: donated z can not be reused: it lies in pieces"),
                                ((x, z, w[:, 1:], y), "E0610: w does not fit: it is [32, 31], and [32, 32] is wanted"),
                                ((x, z, w, y[:, 1:]), "E0610: y does not fit")):
            self.assertEqual(module["call"](*arguments), -1)
            self.assertIn(said, module["get_last_error"]())
            self.assertEqual((x.tobytes(), z.tobytes(), y.tobytes()), before, f"written before: {said}")
        self.assertEqual(module["call"](x, z, w, y), 0, module["get_last_error"]())
        self.assertEqual(y.tobytes(), bytes(wanted))

    def test_python_refuses_before_it_writes(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no numpy")
        (WORK / "two.py").write_text('def two(x: f32["n", 16], w: f32[16, 16], v: f32["b", 16, 4], s: f32):\n'
                                     '    y = tanh(x @ w)\n    u = reshape(y, [1, "n", 16]) @ v\n    z = u * s\n'
                                     '    t = call_extern("last", z, out=("f32[b, n, 4]",))\n    return y, z, t\n')
        module = {}
        exec(compile(codetta("emit", WORK / "two.py", "--what=python").stdout, "two_module.py", "exec"), module)
        x, w, v = np.ones((3, 16), "f4"), np.eye(16, dtype="f4"), np.ones((5, 16, 4), "f4")
        wide = np.ones((5, 16, 8), "f4")[:, :, ::2]
        y, z, t = np.zeros((3, 16), "f4"), np.zeros((5, 3, 4), "f4"), np.zeros((5, 3, 4), "f4")
        good = (x, w, v, 0.5, y, z, t)
        self.assertEqual(module["call"](*good), -1)
        self.assertIn("E0616: external function last is not provided", module["get_last_error"]())
        module["externs"]["last"] = lambda inputs, outputs: outputs[0].fill(inputs[0].sum()) or 0
        for place, other, said in ((2, v[:, :15], "E0610: v does not fit: it is [5, 15, 4], and [5, 16, 4] is wanted"),
                                   (3, "half", "E0610: s is 'half', and has to be a number of f32"),
                                   (5, z[:4], "E0610: b is "), (6, t[:, :2], "E0610: n is 2 here"),
                                   (4, np.lib.stride_tricks.as_strided(np.zeros(16, "f4"), (3, 16), (0, 4)),
                                    "E0613: output y overlaps itself: elements of [3, 16] with strides of [0, 4] bytes"),
                                   (5, np.lib.stride_tricks.as_strided(np.zeros(60, "f4"), (5, 3, 4), (48, 12, 4)),
                                    "E0613: output z overlaps itself: elements of [5, 3, 4]")):
            self.assertEqual(module["call"](*good[:place], other, *good[place + 1:]), -1)
            self.assertIn(said, module["get_last_error"]())
            self.assertFalse(y.any() or z.any() or t.any(), f"written before: {said}")
        self.assertEqual(module["call"](x, w, wide, 0.5, y, z, t), 0, module["get_last_error"]())
        self.assertTrue(y.all() and z.all() and (t == z.sum()).all())

    def test_python_takes_numbers_that_fit(self):
        """As in process: nothing is cut off, and a truth value is no number."""
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no numpy")
        names = ("q", "i", "l", "u", "e", "h", "b", "f", "d")
        (WORK / "numbers.py").write_text(
            'def numbers(x: f32["n"], q: bool, i: i8, l: i64, u: u64, e: f8e4m3, h: f16, b: bf16, f: f32, d: f64):\n'
            '    g = cast(e, f64) + cast(h, f64) + cast(b, f64) + cast(f, f64) + d\n'
            '    y = where(q, cast(x, f64), 0.0) + cast(i, f64) + cast(l, f64) + cast(u, f64) + g\n    return y\n')
        module = {}
        exec(compile(codetta("emit", WORK / "numbers.py", "--what=python").stdout, "numbers_module.py", "exec"), module)
        x, y = np.ones(3, "f4"), np.zeros(3, "f8")

        def call(**given):
            all_of = {name: True if name == "q" else 0 for name in names} | given
            y.fill(7)
            return module["call"](x, *(all_of[name] for name in names), y)

        inf, nan = float("inf"), float("nan")
        for name, value, wanted in (
                ("q", np.bool_(False), 0), ("i", -128, -127), ("i", np.int64(127), 128), ("l", -2**52, 1 - 2**52),
                ("u", 2**52, 2**52 + 1), ("e", 448.0, 449), ("e", 1000, 449), ("h", 65504, 65505), ("h", np.float32(0.5), 1.5),
                ("b", 3e38, None), ("f", 3, 4), ("f", -inf, -inf), ("f", 3.4e38, None), ("d", 1e300, 1e300), ("d", nan, nan)):
            with self.subTest(name=name, value=value):
                self.assertEqual(call(**{name: value}), 0, module["get_last_error"]())
                if wanted is not None:
                    np.testing.assert_array_equal(y, np.full(3, wanted, "f8"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name, value, wanted in (
                    ("q", 1, "True or False"), ("q", None, "True or False"), ("i", 128, "a number of i8"),
                    ("i", -129, "a number of i8"), ("i", 2.5, "a number of i8"), ("i", 2.0, "a number of i8"),
                    ("i", True, "a number of i8"), ("i", "3", "a number of i8"), ("i", nan, "a number of i8"),
                    ("l", 2**63, "a number of i64"), ("l", None, "a number of i64"), ("u", -1, "a number of u64"),
                    ("u", np.array([2, 3]), "a number of u64"), ("e", "1", "a number of f8e4m3"),
                    ("h", 65520, "a number of f16"), ("h", np.float64(1e5), "a number of f16"),
                    ("b", 3.4e38, "a number of bf16"), ("f", "2", "a number of f32"), ("f", None, "a number of f32"),
                    ("f", True, "a number of f32"), ("f", 1e39, "a number of f32"), ("f", 10**400, "a number of f32"),
                    ("f", 1j, "a number of f32"), ("f", np.array([1.0]), "a number of f32"), ("d", 10**400, "a number of f64"),
                    ("d", np.bool_(True), "a number of f64")):
                with self.subTest(name=name, value=value):
                    self.assertEqual(call(**{name: value}), -1)
                    self.assertIn(f"E0610: {name} is {value!r:.80}, and has to be {wanted}", module["get_last_error"]())
                    self.assertTrue((y == 7).all(), "written before")


class States(unittest.TestCase):
    """Parameters that are kept, and are results where they lie."""

    def test_caches_are_results_where_they_lie(self):
        path, _ = build(SOURCE / "examples/programs/decode.py", "decode", "--hint", "b=1")
        library, b, t, at = Library(path, "decode"), 2, 5, 3
        shapes = [b * 256, b * t * 256, b * t * 256, 256, *[256 * 256] * 4]

        def bf16(count, scale):
            values = (struct.unpack("<I", struct.pack("<f", scale * random.gauss(0, 1)))[0] >> 16 for _ in range(count))
            return (ctypes.c_uint16 * count)(*values)

        x, keys, values, norm, *weights = (bf16(count, 0.06 if count == 65536 else 1) for count in shapes)
        place = (ctypes.c_int64 * 1)(at)

        def call(old_keys, old_values, y, new_keys, new_values):
            return library("decode", x, place, old_keys, old_values, norm, *weights, y, new_keys, new_values,
                           ctypes.c_int64(b), ctypes.c_int64(t), None)

        def again(array):
            return type(array).from_buffer_copy(array)

        apart, same = [again(x), again(keys), again(values)], [again(x), again(keys), again(values)]
        self.assertEqual(call(keys, values, *apart), 0, library.text())
        self.assertEqual(call(same[1], same[2], *same), 0, library.text())
        for one, other, before in zip(apart, same, (x, keys, values)):
            self.assertEqual(bytes(one), bytes(other))
            self.assertNotEqual(bytes(one), bytes(before))
        self.assertEqual(bytes(same[1])[:512 * at], bytes(keys)[:512 * at], "what stands in front stays")
        self.assertEqual(call(same[1], same[2], same[0], same[2], same[1]), -3)
        self.assertIn("E0613", library.text())


if __name__ == "__main__":
    main()
