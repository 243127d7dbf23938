# SPDX-License-Identifier: Apache-2.0
"""Libraries with sizes that values give: called by ctypes and from C, their bits those of runs in process. Usage: as of aot_test.py"""
import ctypes
import json
import unittest

try:
    import numpy as np
except ImportError:
    np = None

from aot_support import CC, SOURCE, WORK, Library, Tensor, build, codetta, floats, main, npy, npy_data, run, tensor

PROGRAM = """def more(i, y):
    return i < 2

def turn(i, y):
    return i + 1, y * 2.0

def sized(x: f32["n", 8], k: i64[()], a: i64, w: f32[8, 8]):
    t = sum(x * x, dim=1, keepdim=False)
    m = sum(cast(t > 0.0, i32), keepdim=False)
    i, y = while_loop(more, turn, 0, x[a:k] @ w)
    z = sum(y, dim=0) + sum(expand(sum(x, dim=0), m // 2, 8), dim=0)
    out = concat(x[:m] + 1.0, zeros(n - m, 8), dim=0)
    return z, out, m
"""


INNER = """def more(i, x, w, y):
    return i < 4

def turn(i, x, w, y):
    k = i * 3
    z = relu(x[:k] @ w)
    half = k // 2
    whole = concat(z * rsqrt(mean(z * z, dim=-1) + 0.5), zeros(n - k, 8), dim=0)
    first = sum(whole[:half], dim=0) + sum(ones(half, 8), dim=0)
    return i + 1, x, w, y + whole @ transpose(w, 0, 1) + first

def some(x, count):
    y = relu(x[:count - 2]) * 0.5
    rest = x[count - 2:] + 1.0
    return concat(y, rest, dim=0)

def none(x, count):
    return x - 1.0

def inner(x: f32["n", 8], w: f32[8, 8], count: i64[()]):
    i, a, b, y = while_loop(more, turn, 0, x, w, x)
    out = y + cond(count > 2, some, none, x, count)
    return out
"""


def reals(count, start=0):
    return [((i * 37 + start) % 23 - 11) / 8 for i in range(count)]


class Computed(unittest.TestCase):
    def expected(self, path, arguments, outputs):
        options = []
        for name in outputs:
            options += ["--out", f"{name}={WORK / name}_expected.npy"]
        codetta("run", path, *arguments, *options)
        return {name: npy_data(WORK / f"{name}_expected.npy") for name in outputs}

    def test_ragged(self):
        program = SOURCE / "examples/programs/ragged.py"
        path, _ = build(program, "ragged")
        library = Library(path, "ragged")
        w, bias = reals(64 * 32, 5), reals(32, 7)
        w_data, bias_data = floats(npy(WORK / "w.npy", (64, 32), w)), floats(npy(WORK / "b.npy", (32,), bias))
        for n, kept in ((1, 1), (33, 10), (33, 0), (200, 200), (7, 3)):
            x = floats(npy(WORK / "x.npy", (n, 64), reals(n * 64)))
            keep = (ctypes.c_bool * n)(*(i * 5 % n < kept if n % 5 else i < kept for i in range(n)))
            npy(WORK / "keep.npy", (n,), list(keep), "?")
            out, count = floats(n * 32), ctypes.c_int64(-1)
            wanted = self.expected(program, ["--tensor", f"x={WORK}/x.npy", "--tensor", f"keep={WORK}/keep.npy", "--tensor",
                                             f"w={WORK}/w.npy", "--tensor", f"bias={WORK}/b.npy"], ["out", "count"])
            for _ in range(2):
                status = library("ragged", x, keep, w_data, bias_data, out, ctypes.byref(count), ctypes.c_int64(n), None)
                self.assertEqual(status, 0, library.text())
                self.assertEqual(count.value, sum(keep))
                self.assertEqual(bytes(out), wanted["out"], (n, kept))
        header = (path.parent / "ragged.h").read_text()
        self.assertIn("The call computes the size count", " ".join(header.replace("*", " ").split()))
        # The caller's workspace is for what is known before; the rest is the library's own.
        self.assertEqual(library("ragged_workspace_size", ctypes.c_int64(33)), library("ragged_workspace_size", ctypes.c_int64(34)))

    def test_sizes_in_a_row_loops_and_errors(self):
        source = WORK / "sized.py"
        source.write_text(PROGRAM)
        path, _ = build(source, "sized")
        library = Library(path, "sized")
        n = 12
        values = reals(n * 8, 3)
        values[8 * 4:8 * 6] = [0.0] * 16
        x = floats(npy(WORK / "x.npy", (n, 8), values))
        w = floats(npy(WORK / "w.npy", (8, 8), reals(64, 9)))

        def call(k, a):
            z, out, m = floats(8), floats(n * 8), ctypes.c_int32(-1)
            status = library("sized", x, ctypes.byref(ctypes.c_int64(k)), ctypes.c_int64(a), w, z, out, ctypes.byref(m),
                             ctypes.c_int64(n), None)
            return status, bytes(z), bytes(out), m.value
        for k, a in ((9, 2), (12, 0), (4, 4)):
            npy(WORK / "k.npy", (), [k], "q")
            wanted = self.expected(source, ["--tensor", f"x={WORK}/x.npy", "--tensor", f"k={WORK}/k.npy", "--scalar", f"a={a}",
                                            "--tensor", f"w={WORK}/w.npy"], ["z", "out", "m"])
            status, z, out, m = call(k, a)
            self.assertEqual(status, 0, library.text())
            self.assertEqual((m, z, out), (10, wanted["z"], wanted["out"]))
        for k, a, said in ((13, 2, "13"), (3, 4, "3"), (-1, 0, "-1"), (5, -2, "-2")):
            self.assertLess(call(k, a)[0], 0, (k, a))
            self.assertIn("E0610", library.text())
            self.assertIn(said, library.text())
        self.assertIn("`x[a:k]`, line 10, column 38", (codetta("emit", source, "--what=plan").stdout))

    def test_sizes_of_branches_and_loops(self):
        source = WORK / "inner.py"
        source.write_text(INNER)
        path, _ = build(source, "inner")
        library = Library(path, "inner")
        module = {}
        text = codetta("emit", source, "--what=python", "--hint", "n=16").stdout
        if np is not None:
            exec(compile(text, "inner_module.py", "exec"), module)
        w = npy(WORK / "w.npy", (8, 8), reals(64, 9))

        def call(x, n, count):
            out = floats(n * 8)
            status = library("inner", x, floats(w), ctypes.byref(ctypes.c_int64(count)), out, ctypes.c_int64(n), None)
            return status, bytes(out)
        for n, count in ((9, 2), (20, 7), (12, 14), (64, 3), (9, -4)):
            x = floats(npy(WORK / "x.npy", (n, 8), reals(n * 8)))
            npy(WORK / "count.npy", (), [count], "q")
            wanted = self.expected(source, ["--tensor", f"x={WORK}/x.npy", "--tensor", f"w={WORK}/w.npy", "--tensor",
                                            f"count={WORK}/count.npy"], ["out"])
            for _ in range(2):
                status, out = call(x, n, count)
                self.assertEqual(status, 0, library.text())
                self.assertEqual(out, wanted["out"], (n, count))
            if np is not None:
                array = np.full((n, 8), -7, "f4")
                given = (np.frombuffer(x, "f4").reshape(n, 8), np.frombuffer(floats(w), "f4").reshape(8, 8), np.array(count))
                self.assertEqual(module["call"](*given, array), 0, module["get_last_error"]())
                self.assertEqual(array.tobytes(), wanted["out"], (n, count))
        for n, count, said in ((8, 0, "k is 9, outside of 0 to 8; `x[:k]`, line 6, column 14"), (12, 15, "13, outside of 0 to 12")):
            x = floats(npy(WORK / "x.npy", (n, 8), reals(n * 8)))
            self.assertLess(call(x, n, count)[0], 0)
            self.assertIn("E0610", library.text())
            self.assertIn(said, library.text())
        header = " ".join((path.parent / "inner.h").read_text().replace("*", " ").split())
        self.assertIn("The call computes the size", header)

    def test_differences_of_sizes_of_parameters(self):
        path, _ = build('def up(x, a):\n    return concat(a * 2.0, zeros(n - m, 4), dim=0)\n\n'
                        'def down(x, a):\n    return x\n\n'
                        'def f(x: f32["n", 4], a: f32["m", 4], p: bool):\n    z = cond(p, up, down, x, a)\n    return z\n', "differ")
        library = Library(path, "differ")
        for n, m, p, fits in ((6, 3, True, True), (3, 6, False, True), (3, 6, True, False)):
            room = floats(m * 4 + n * 4)  # behind the output
            status = library("f", floats(n * 4), floats(m * 4), ctypes.c_bool(p), room, ctypes.c_int64(n), ctypes.c_int64(m), None)
            self.assertEqual(status == 0, fits, library.text())
            self.assertEqual(list(room)[n * 4:], [-7.0] * (m * 4), (n, m, p))
        self.assertIn("E0610: -m + n is -3, and 0 or more is wanted; `zeros(n - m, 4)`, line 2, column 28", library.text())

    def test_positions_behind_a_start_that_has_no_value(self):
        # The text of a size is no format: `% n` would take an argument that is not there.
        for size, first in (("p // n", 2), ("p % n", 0)):
            name = "positions" + str(first)
            path, _ = build(f'def f(x: f32["p", "s"], y: f32["n"]):\n    z = where(x > 0.0, arange({size} + s)[{size}:], 0)\n'
                            '    w = y + 1.0\n    return z, w\n', name)
            library = Library(path, name)
            x, z = (ctypes.c_float * 12)(*[-1.0, 1.0, 1.0] * 4), (ctypes.c_int64 * 12)(*[-7] * 12)
            for n in (2, 0):
                y, w = floats(n + 1), floats(n + 1)
                status = library("f", x, y, z, w, ctypes.c_int64(4), ctypes.c_int64(3), ctypes.c_int64(n), None)
                self.assertEqual(status, 0 if n else -2, library.text())
            self.assertEqual(library.text(), "E0610: a position has no value: " + size)
            self.assertEqual(list(z), [0, first + 1, first + 2] * 4)  # of the run with n = 2
            self.assertEqual(list(w), [-7.0])

    @unittest.skipIf(np is None, "needs NumPy")
    def test_python_modules_tell_a_size_below_0(self):
        source = WORK / "below.py"
        source.write_text('def f(x: f32["n", 4], a: f32["m", 4]):\n    z = concat(a * 2.0, zeros(n - m, 4), dim=0) + x\n    return z\n')
        module = {"__name__": "below"}
        exec(codetta("emit", source, "--what=python").stdout, module)
        x, a = np.ones((3, 4), np.float32), np.ones((6, 4), np.float32)
        out = np.full((6, 4), -7, np.float32)
        self.assertEqual(module["call"](a, x, out), 0, module["get_last_error"]())
        self.assertEqual(out.tolist(), [[3.0] * 4] * 3 + [[1.0] * 4] * 3)
        out[:] = -7
        self.assertLess(module["call"](x, a, out[:3]), 0)
        self.assertIn("E0610: -m + n is out of range: it is -3, and 0 or more is wanted; `zeros(n - m, 4)`, line 2", module["get_last_error"]())
        self.assertTrue((out == -7).all())

    @unittest.skipIf(np is None, "needs NumPy")
    def test_temporaries_of_a_branch_that_is_not_taken_may_be_out_of_range(self):
        path, _ = build('def up(x, a, w):\n    y = (zeros(n - m, 4) + take(x, arange(n - m), dim=0)) @ w\n'
                        '    z = relu(y) @ w\n    return concat(a * 2.0, z @ w + y, dim=0)\n\n'
                        'def down(x, a, w):\n    return x\n\n'
                        'def f(x: f32["n", 4], a: f32["m", 4], w: f32[4, 4], p: bool):\n    b = relu(x @ w)\n    c = b @ w\n'
                        '    z = cond(p, up, down, c, a, w)\n    y = z @ w + c + b\n    return y\n', "apart")
        library = Library(path, "apart")
        w = np.array(reals(16, 3), np.float32).reshape(4, 4)
        for n, m, p in ((3, 6, False), (30, 600, False), (6, 3, False), (9, 4, True), (30, 600, True)):
            x, a = np.array(reals(n * 4), np.float32).reshape(n, 4), np.array(reals(m * 4, 5), np.float32).reshape(m, 4)
            out = np.full((n + 1, 4), -7, np.float32)
            status = library("f", *(v.ctypes.data_as(ctypes.c_void_p) for v in (x, a, w)), ctypes.c_bool(p),
                             out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(n), ctypes.c_int64(m), None)
            if p and n < m:
                self.assertEqual(status, -2)
                self.assertIn("E0610: -m + n is -570", library.text())
                self.assertTrue((out == -7).all(), "an error leaves the output alone")
                continue
            self.assertEqual(status, 0, library.text())
            b = np.maximum(x @ w, 0)
            c = b @ w
            y = c[:max(n - m, 0)] @ w
            z = np.concatenate([a * 2, np.maximum(y, 0) @ w @ w + y]) if p else c
            np.testing.assert_allclose(out[:n], z @ w + c + b, rtol=2e-4, atol=2e-3)
            self.assertTrue((out[n:] == -7).all(), (n, m, p))

    def test_a_tensor_says_how_large_the_workspace_is(self):
        path, _ = build('def rows(x: f32["n", 8], k: i64[()], w: f32[8, 8]):\n'
                        '    y = relu(x[:k] @ w)\n    z = sum(y @ w, dim=0)\n    return z\n', "rows")
        library = Library(path, "rows")
        self.assertLess(library("rows_workspace_size", ctypes.c_int64(4)), 0)
        self.assertIn("E0610: how large the workspace is depends on k; pass no workspace", library.text())
        x, w, z = (ctypes.c_float * 32)(*[1.0] * 32), (ctypes.c_float * 64)(*[1.0] * 64), floats(8)
        self.assertEqual(library("rows", x, ctypes.byref(ctypes.c_int64(2)), w, z, ctypes.c_int64(4), None), 0, library.text())
        self.assertEqual(list(z), [128.0] * 8)
        path, _ = build('def large(x: f32["n", 8], k: u64[()]):\n    z = sum(x[:k], dim=0)\n    return z\n', "large")
        library = Library(path, "large")
        self.assertEqual(library("large", x, ctypes.byref(ctypes.c_uint64(2**64 - 2)), z, ctypes.c_int64(4), None), -2)
        self.assertEqual(library.text(), "E0610: k is 18446744073709551614, and sizes are up to 9223372036854775807")

    def test_a_tensor_may_say_a_size_behind_other_temporaries(self):
        path, _ = build('def up(x):\n    return relu(x) * 0.5\n\ndef down(x):\n    return x - 1.0\n\n'
                        'def f(x: f32[8, 2], p: i32[1], k: u8[()]):\n    b = amax(x, dim=1) * 0.5\n    v = x * 2.0\n'
                        '    a = cond(p > 0, up, down, v)\n    y = relu(b[:k])\n    return a, y\n', "behind")
        library = Library(path, "behind")
        x = np.array(reals(16), np.float32).reshape(8, 2)
        for p, k in ((1, 5), (0, 8), (1, 0)):
            a, y = np.full((8, 2), -7, np.float32), np.full((9, 1), -7, np.float32)
            status = library("f", x.ctypes.data_as(ctypes.c_void_p), ctypes.byref(ctypes.c_int32(p)),
                             ctypes.byref(ctypes.c_uint8(k)), a.ctypes.data_as(ctypes.c_void_p),
                             y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(9), None)
            self.assertEqual(status, 0, library.text())
            np.testing.assert_array_equal(a, np.maximum(x * 2, 0) * 0.5 if p else x * 2 - 1)
            np.testing.assert_array_equal(y[:k, 0], np.maximum(np.abs(x).max(1) * 0.5, 0)[:k])
            self.assertTrue((y[k:] == -7).all(), k)

    @unittest.skipIf(np is None, "needs NumPy")
    def test_a_multiple_gives_a_size_its_value(self):
        path, _ = build('def halves(x: f32["n", "2*h"], w: f32["4*k", 3]):\n    y = x[:, :h] * x[:, h:]\n'
                        '    z = sum(w[:k], dim=0)\n    return y, z\n', "halves")
        library = Library(path, "halves")

        def view(array):
            made = tensor(None, array.shape)
            made.data = array.ctypes.data
            return made

        for n, h, k in ((3, 5, 2), (1, 1, 1), (4, 0, 1)):
            x, w = np.array(reals(n * 2 * h), np.float32).reshape(n, 2 * h), np.array(reals(12 * k), np.float32).reshape(4 * k, 3)
            y, z = np.full((n, h), -7, np.float32), np.full((1, 3), -7, np.float32)
            tensors = [view(v) for v in (x, w, y, z)]
            self.assertEqual(library("halves_tensors", (Tensor * 4)(*tensors), 4, None, ctypes.c_int64(0), None), 0, library.text())
            np.testing.assert_array_equal(y, x[:, :h] * x[:, h:])
            np.testing.assert_allclose(z[0], w[:k].sum(0), rtol=1e-5, atol=1e-5)
        npy(WORK / "odd.npy", (9, 3), reals(27))
        said = build('def odd(x: f32["n", 3], w: f32["2*k", 3]):\n    y = x @ transpose(w[:k] + w[k:])\n    return y\n',
                     "odd", "--constant", f"w={WORK / 'odd.npy'}", code=1)
        self.assertIn("E0221", said)
        self.assertIn("dim 0 has to be 2*k: 9 is no multiple of 2", said)
        x, y = np.zeros((3, 9), np.float32), np.full((3, 4), -7, np.float32)
        tensors = [view(v) for v in (x, w, y, z)]
        self.assertEqual(library("halves_tensors", (Tensor * 4)(*tensors), 4, None, ctypes.c_int64(0), None), -2)
        self.assertEqual(library.text(), "E0610: h is no whole number: dim 1 of x is 9, and is 2 times it")
        self.assertTrue((y == -7).all(), "an error leaves the output alone")

    @unittest.skipIf(np is None, "needs NumPy")
    def test_a_sum_gives_a_size_its_value(self):
        npy(WORK / "more.npy", (7, 2), reals(14))
        path, _ = build('def sums(x: f32["h + 2", "2*w + 1"], z: f32["h + m", 3], c: f32["k + 3", 2], d: f32["k - 1"]):\n'
                        '    y = x[1:1 + h, :w] + x[:h, w:2 * w]\n    t = sum(z[h:], dim=0)\n'
                        '    u = c[:k - 1] * d[:, None]\n    return y, t, u\n',
                        "sums", "--constant", f"c={WORK / 'more.npy'}")
        library, c = Library(path, "sums"), np.load(WORK / "more.npy")

        def call(h, w, m, shape=None):
            x, z, d = (np.array(reals(np.prod(s)), np.float32).reshape(s) for s in (shape or (h + 2, 2 * w + 1), (h + m, 3), (3,)))
            y, t, u = np.full((h, w), -7, np.float32), np.full((1, 3), -7, np.float32), np.full((3, 2), -7, np.float32)
            tensors = []
            for array in (x, z, d, y, t, u):
                tensors.append(tensor(None, array.shape))
                tensors[-1].data = array.ctypes.data
            status = library("sums_tensors", (Tensor * 6)(*tensors), 6, None, ctypes.c_int64(0), None)
            return status, (x, z, d, y, t, u)

        for h, w, m in ((5, 3, 4), (0, 1, 2), (2, 0, 1)):
            status, (x, z, d, y, t, u) = call(h, w, m)
            self.assertEqual(status, 0, library.text())
            np.testing.assert_array_equal(y, x[1:1 + h, :w] + x[:h, w:2 * w])
            np.testing.assert_allclose(t[0], z[h:].sum(0), rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(u, c[:3] * d[:, None])
        self.assertEqual(call(3, 2, 1, (5, 8))[0], -2)
        self.assertEqual(library.text(), "E0610: w is no whole number: dim 1 of x is 8, and is 2 times it plus 1")
        self.assertEqual(call(3, 2, 1, (1, 5))[0], -2)
        self.assertEqual(library.text(), "E0610: h is negative: dim 0 of x is 1, and is 1 times it plus 2")
        self.assertEqual(call(3, 2, -1)[0], -2)
        self.assertEqual(library.text(), "E0610: m is negative: dim 0 of z is 2, and is 1 times it plus 3")
        module = {}
        exec(compile(codetta("emit", WORK / "sums.py", "--what=python").stdout, "sums_module.py", "exec"), module)
        x, z, d = np.array(reals(24), "f4").reshape(4, 6)[:, :5], np.array(reals(12), "f4").reshape(4, 3), np.array(reals(3), "f4")
        y, t, u = np.zeros((2, 2), "f4"), np.zeros((1, 3), "f4"), np.zeros((3, 2), "f4")
        self.assertEqual(module["call"](x, z, c[:7], d, y, t, u), 0, module["get_last_error"]())
        np.testing.assert_array_equal(y, x[1:3, :2] + x[:2, 2:4])
        np.testing.assert_array_equal(u, c[:3] * d[:, None])
        self.assertEqual(module["call"](x, z[:1], c[:7], d, y, t, u), -1)
        self.assertEqual(module["get_last_error"](), "E0610: m is negative: it is -1")

    def test_rows_that_a_function_returns(self):
        text = ('def kept(x: f32["n", 4], w: f32[4, 4]):\n'
                '    rows = call_extern("positive", x, out="f32[k, 4]", form="alloc")\n'
                '    y = sum(rows @ w, dim=0) + sum(x[:k], dim=0)\n    return y\n')
        source = WORK / "kept.py"
        source.write_text(text)
        path, _ = build(source, "kept")
        program = WORK / "kept_main.c"
        program.write_text(r"""
#include <stdio.h>
#include <stdlib.h>
#include "codetta/extern.h"
#include "kept.h"
static int given_back;
static void release(CodettaTensor* tensor) { free(tensor->owner); ++given_back; }
static int positive(void* limit, const CodettaTensor* in, int n, CodettaTensor* out, int m) {
  float* data = malloc(sizeof(float) * 4 * (size_t)(in[0].shape[0] + 1));
  int64_t rows = 0;
  if (n != 1 || m != 1) return 1;
  for (int64_t r = 0; r < in[0].shape[0]; ++r) {
    const float* row = (const float*)in[0].data + r * in[0].strides[0];
    if (row[0] <= *(const float*)limit) continue;
    for (int c = 0; c < 4; ++c) data[rows * 4 + c] = row[c * in[0].strides[1]];
    ++rows;
  }
  out[0].data = out[0].owner = data;
  out[0].dtype = in[0].dtype;
  out[0].rank = 2;
  out[0].shape[0] = rows;
  out[0].shape[1] = out[0].strides[0] = 4;
  out[0].strides[1] = 1;
  out[0].release = release;
  return 0;
}
int main(void) {
  const float x[3][4] = {{1, 2, 3, 4}, {-1, 5, 6, 7}, {2, 8, 9, 10}};
  float w[4][4] = {{0}}, y[4], limit = 0;
  for (int i = 0; i < 4; ++i) w[i][i] = 1;
  if (kept_set_extern_positive(positive, &limit) != 0) return 1;
  for (int turn = 0; turn < 3; ++turn, limit = turn == 1 ? 1.5f : 9) {
    if (kept_kept(&x[0][0], &w[0][0], y, 3, NULL) != 0) return fprintf(stderr, "%s\n", kept_get_last_error()), 2;
    printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
  }
  return given_back == 3 ? 0 : 3;
}
""")
        binary = WORK / "kept_main"
        run(CC, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", f"-I{path.parent}", program, path,
              f"-Wl,-rpath,{path.parent}", "-o", binary)
        lines = run(binary).stdout.split("\n")
        self.assertEqual(lines[:3], ["3 17 21 25", "3 10 12 14", "0 0 0 0"])

    def test_outputs_that_a_call_fills_in_part(self):
        text = ('def parted(x: f32["n", 8], k: i64[()], w: f32[8, 8]):\n'
                '    y = relu(x[:k] @ w)\n'
                '    rest = x[k:, :k // 2]\n'
                '    return y, rest\n\n'
                'def other(x: f32["n"], k: i64[()]):\n'
                '    y = x[:k] + 1.0\n'
                '    return y\n')
        source = WORK / "parted.py"
        source.write_text(text)
        alone = WORK / "parted_alone.py"
        alone.write_text(text.split("\n\ndef")[0] + "\n")
        path, _ = build(source, "parted", "--function", "parted", "--function", "other", "--hint", "n=4,64")
        library = Library(path, "parted")
        header = " ".join((path.parent / "parted.h").read_text().replace("*", " ").split())
        self.assertIn("y: written, f32 [y_capacity, 8], of which a call fills [k, 8], row-major", header)
        self.assertIn("y_capacity: how much room there is in dim 0 of y; less than it needs is -2", header)
        self.assertIn("int parted_parted_output_sizes(int64_t sizes, int32_t count);", header)
        self.assertIn("sizes[1]: dim 0 of rest, -k + n sizes[2]: dim 1 of rest, k // 2", header)
        n, w = 16, floats(npy(WORK / "w.npy", (8, 8), reals(64, 9)))
        x = floats(npy(WORK / "x.npy", (n, 8), reals(n * 8, 3)))
        sizes = (ctypes.c_int64 * 3)()
        self.assertEqual(library("parted_output_sizes", sizes, 3), -1)
        self.assertIn("E0608", library.text())

        def call(k, room):
            y, rest = floats(room * 8), floats(n * 8)
            status = library("parted", x, ctypes.byref(ctypes.c_int64(k)), w, y, rest, *(ctypes.c_int64(size) for size in (n, room, n, 8)),
                             None)
            return status, y, rest
        for k in (16, 5, 0, 9):
            npy(WORK / "k.npy", (), [k], "q")
            wanted = self.expected(alone, ["--tensor", f"x={WORK}/x.npy", "--tensor", f"k={WORK}/k.npy", "--tensor",
                                           f"w={WORK}/w.npy", "--hint", "n=4", "--hint", "n=64"], ["y", "rest"])
            status, y, rest = call(k, 16)
            self.assertEqual(status, 0, library.text())
            self.assertEqual(library("parted_output_sizes", sizes, 3), 0, library.text())
            self.assertEqual(list(sizes), [k, n - k, k // 2])
            self.assertEqual(bytes(y), wanted["y"] + bytes(floats((16 - k) * 8)))
            rows, cols = n - k, k // 2
            for r in range(n):
                row, made = bytes(rest)[r * 32:r * 32 + 32], min(r, rows) * cols * 4
                filled = wanted["rest"][made:made + cols * 4] if r < rows else b""
                self.assertEqual(row, filled + bytes(floats(8 - len(filled) // 4)), (k, r))
        self.assertEqual(call(9, 8)[0], -2)
        self.assertEqual(library.text(), "E0610: k is 9, outside of 0 to 8; room in dim 0 of output y")
        self.assertEqual(library("parted_output_sizes", sizes, 3), 0, "those of the last call that succeeded")
        self.assertEqual(list(sizes), [9, 7, 4])
        self.assertEqual(library("parted_output_sizes", sizes, 2), -1)
        # By tensors that lie anywhere, and told of the function that was called last.
        y = floats(64)
        k4 = ctypes.c_int64(4)
        tensors = (Tensor * 3)(tensor(x, [16]), tensor(k4, [], dtype=4), tensor(y, [8], strides=[3]))
        self.assertEqual(library("other_tensors", tensors, 3, None, ctypes.c_int64(0), None), 0, library.text())
        one = (ctypes.c_int64 * 1)()
        self.assertEqual((library("other_output_sizes", one, 1), one[0]), (0, 4))
        self.assertEqual([y[i] for i in range(64)], [x[i // 3] + 1 if i in (0, 3, 6, 9) else -7.0 for i in range(64)])
        self.assertEqual(library("parted_output_sizes", sizes, 3), -1)
        self.assertEqual(library("parted_workspace_size", *(ctypes.c_int64(size) for size in (16, 16, 16, 8))), -2)
        self.assertIn("E0610", library.text())
        manifest = json.loads((path.parent / "parted.json").read_text())
        filled = [argument.get("filled") for argument in manifest["programs"][0]["arguments"]]
        self.assertEqual(filled[3:], [["k", 8], ["-k + n", "k // 2"]])

    def test_indices_that_are_computed(self):
        """What is wrong with them is told of the value in the text, where that has a name or not."""
        text = ("def picked(x: f32[5, 4], k: i64[3], j: i64[3], v: f32[3, 4]):\n    places = k + 1\n    y = take(x, places, 0)\n"
                "    z = index_put(x, j * 2, v)\n    return y, z\n")
        path, _ = build(text, "picked")
        library = Library(path, "picked")
        x, v, y, z = floats(20), floats(12), floats(12), floats(20)
        for k, j, wrong in (([0, 1, 2], [0, 1, 2], None), ([0, 4, 2], [0, 1, 2], r"index 5 is out of range for the size 5; it stands at \[1\] of places \(picked\.py:2:14\)"),
                               ([0, 2, 3], [0, 2, 3], r"index 6 is out of range for the size 5; it stands at \[2\] of a value \(picked\.py:4:\d+\)")):
            status = library("picked", x, (ctypes.c_int64 * 3)(*k), (ctypes.c_int64 * 3)(*j), v, y, z, None)
            self.assertEqual(status, -1 if wrong else 0, library.text())
            if wrong:
                self.assertRegex(library.text(), "E0618: " + wrong)
        for what, target in (("host", "cuda:sm_90a"), ("python", "cpu")):
            told = codetta("emit", WORK / "picked.py", "--what", what, "--target", target).stdout
            self.assertIn("places (picked.py:2:14)", told)
            self.assertIn("a value (picked.py:4:", told)

    def test_more_sizes_than_a_function_tells_are_refused(self):
        source = WORK / "many.py"
        for count, code in ((64, 0), (65, 1)):
            names = [f"y{i}" for i in range(count)]
            source.write_text('def many(x: f32["n", 4], k: i64[()]):\n' + "".join(f"    {y} = x[:k] + {i}.0\n" for i, y in enumerate(names)) +
                              f"    return {', '.join(names)}\n")
            said = codetta("emit", source, "--what=host", "--target", "cpu", code=code).stderr
            self.assertEqual("error[E0440]" in said and "more than 64 sizes of outputs" in said, code == 1, said)

    def test_python_modules_fill_outputs_in_part(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no numpy")
        source = WORK / "parted_module.py"
        source.write_text('def parted(x: f32["n", 8], k: i64[()], w: f32[8, 8]):\n'
                          '    y = relu(x[:k] @ w)\n    rest = x[k:, :k // 2]\n    return y, rest\n')
        module = {}
        exec(compile(codetta("emit", source, "--what=python", "--hint", "n=16").stdout, "parted_module.py", "exec"), module)
        x, w = np.array(reals(128, 3), "f4").reshape(16, 8), np.array(reals(64, 9), "f4").reshape(8, 8)
        self.assertEqual(module["get_output_shapes"](), {})
        for k in (16, 5, 0):
            y, rest = np.full((20, 8), -7, "f4"), np.full((8, 16), -7, "f4").T
            self.assertEqual(module["call"](x, np.array(k), w, y, rest), 0, module["get_last_error"]())
            self.assertEqual(module["get_output_shapes"](), {"y": (k, 8), "rest": (16 - k, k // 2)})
            self.assertTrue(np.allclose(y[:k], np.maximum(x[:k] @ w, 0), atol=1e-4) and (y[k:] == -7).all())
            self.assertTrue((rest[:16 - k, :k // 2] == x[k:, :k // 2]).all())
            self.assertTrue((rest[16 - k:] == -7).all() and (rest[:, k // 2:] == -7).all())
        for y, said in ((np.zeros((4, 8), "f4"), "E0610: k is out of range: it is 5"),
                        (np.zeros((20, 7), "f4"), "E0610: y does not fit"),
                        (np.zeros((20, 8), "f4")[::-1], "E0610: the stride of dim 0 of y is negative")):
            self.assertEqual(module["call"](x, np.array(5), w, y, np.zeros((16, 8), "f4")), -1)
            self.assertIn(said, module["get_last_error"]())
            self.assertFalse(y.any())
        self.assertEqual(module["get_output_shapes"]()["y"], (0, 8))


if __name__ == "__main__":
    main()
