# SPDX-License-Identifier: Apache-2.0
"""Libraries for CPUs take tensors however they lie. Usage: aot_layouts_test.py <codetta> <cc> <c++> <source folder> <work folder>"""

import ctypes
import importlib.util
import itertools
import json
import math
import random
import sys
import unittest

from aot_support import DIGITS, Library, Tensor, WORK, build, codetta, floats, main, run, tensor

TEXT = """def layer(x: f32["m", "k"], w: f32["k", "n"], b: f32["n"], s: f32["k", "n"]):
    y = relu(x @ w + b)
    z = exp(x) * 2.0
    d = x @ w
    u = x @ (w * s)
    r = max(z, dim=0)
    return y, z, d, u, r
"""
SIZES = {"m": 7, "k": 10, "n": 33}
SHAPES = {"x": "mk", "w": "kn", "b": "n", "s": "kn", "y": "mn", "z": "mk", "d": "mn", "u": "mn", "r": "1k"}
OUTPUTS = "yzdur"

UNEVEN = """def attend(x: f32["b", 3, 2, "m", 8], k: f32["b", 3, 2, "m", 8]):
    s = exp(x @ transpose(k, 3, 4) * 0.125)
    y = s @ k
    return s, y
"""
UNEVEN_SHAPES = {"x": (2, 3, 2, 5, 8), "k": (2, 3, 2, 5, 8), "s": (2, 3, 2, 5, 5), "y": (2, 3, 2, 5, 8)}
PYTHON_USER = """
import sys
sys.path.insert(0, sys.argv[1])
import uneven_module as module, numpy as np
random = np.random.default_rng(3)
x, k = (random.standard_normal((2, 3, 2, 5, 8), np.float32) for _ in range(2))
s, y = np.zeros((2, 3, 2, 5, 5), np.float32), np.zeros((2, 3, 2, 5, 8), np.float32)
assert module.call(x, k, s, y) == 0, module.get_last_error()
def turned(a):  # leading dims the other way round, with gaps
    made = np.zeros((a.shape[3], a.shape[2], a.shape[1], a.shape[0] + 1, a.shape[4]), a.dtype)[:, :, :, 1:].transpose(3, 2, 1, 0, 4)
    made[...] = a
    return made
for given, made in (("x", ""), ("k", ""), ("", "s"), ("xk", "sy")):
    inputs = [turned(a) if name in given else a for name, a in (("x", x), ("k", k))]
    got = [turned(np.zeros_like(a)) if name in made else np.zeros_like(a) for name, a in (("s", s), ("y", y))]
    assert module.call(*inputs, *got) == 0, module.get_last_error()
    assert all(np.array_equal(*pair) for pair in zip(got, (s, y))), (given, made)
"""

# Two strides of each factor, of which the second come after 3 items of x and 2 of k.
UNLIKE = """def attend(x: f32["b", 3, "m", 8], k: f32[3, "b", 8, "n"]):
    p = exp(x)
    y = reshape(x, (3 * b, m, 8)) @ reshape(k, (3 * b, 8, n))
    return p, y
"""
PYTHON_UNLIKE = """
import sys
sys.path.insert(0, sys.argv[1])
import unlike_module as module, numpy as np
random = np.random.default_rng(4)
x, k = random.standard_normal((2, 3, 5, 8), np.float32), random.standard_normal((3, 2, 8, 7), np.float32)
def turned(a):
    return np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1)
want = x.reshape(6, 5, 8) @ k.reshape(6, 8, 7)
for a, b in ((x, k), (turned(x), k), (x, turned(k)), (turned(x), turned(k))):
    p, y = np.zeros_like(x), np.zeros((6, 5, 7), np.float32)
    assert module.call(a, b, p, y) == 0, module.get_last_error()
    assert np.allclose(y, want, atol=1e-5) and np.allclose(p, np.exp(x))
"""

# Rows and columns of factors that are several dims of a tensor.
AS_ONE = """def both(x: f32["b", "m", 2, 4], w: f32[8, 6], v: f32[2, 3, 5]):
    y = reshape(x, (b * m, 8)) @ w
    z = y @ reshape(v, (6, 5))
    return y, z
"""
AS_ONE_SHAPES = {"x": (3, 5, 2, 4), "w": (8, 6), "v": (2, 3, 5), "y": (15, 6), "z": (15, 5)}
# Last, what lies evenly though not without gaps: columns side by side, rows apart.
AS_ONE_STRIDES = {"x": [(4, 12, 60, 1), (55, 10, 4, 1), (50, 10, 4, 1)], "v": [(5, 10, 1), (24, 7, 1), (21, 7, 1)]}
# Of sizes that are computed in front of the products, and in a loop.
LATE = """def more(i, t):
    return i < 2

def turn(i, t):
    k = i + 2
    return i + 1, t + sum(ones(k, 6), dim=0, keepdim=False)

def late(p: f32[4, 6], x: f32[5, 3, 4], w: donated[f32[12, 2]], a: f32[2, 3, 2, 4, 6], b: f32[2, 3, 2, 6, 5]):
    count = sum(cast(max(p, dim=1, keepdim=False) > 0.0, i64), keepdim=False)
    v = sum(tanh(p[:count]), dim=0, keepdim=False)
    y = reshape(x, (5, 12)) @ w
    z = a @ b
    return v, y, z

def inner(t: f32[6], x: f32[5, 3, 4], w: f32[12, 2], a: f32[2, 3, 2, 4, 6], b: f32[2, 3, 2, 6, 5]):
    i, v = while_loop(more, turn, 0, t)
    y = reshape(x, (5, 12)) @ w
    z = a @ b
    return v, y, z
"""
LATE_SHAPES = {"p": (4, 6), "x": (5, 3, 4), "w": (12, 2), "a": (2, 3, 2, 4, 6), "b": (2, 3, 2, 6, 5), "v": (6,), "y": (5, 2), "z": (2, 3, 2, 4, 5)}
LATE_STRIDES = {"x": (4, 20, 1), "a": (24, 48, 144, 6, 1), "b": (30, 60, 180, 5, 1)}
PYTHON_AS_ONE = """
import sys
sys.path.insert(0, sys.argv[1])
import as_one_module as module, numpy as np
random = np.random.default_rng(5)
x, w, v = (random.standard_normal(shape, np.float32) for shape in ((3, 5, 2, 4), (8, 6), (2, 3, 5)))
def moved(a, order):
    back = np.argsort(order)
    return np.ascontiguousarray(a.transpose(order)).transpose(back)
want = x.reshape(15, 8) @ w
wanted = want @ v.reshape(6, 5)
for a in (x, moved(x, (1, 0, 2, 3)), moved(x, (2, 1, 0, 3)), np.zeros((3, 5, 3, 4), np.float32)[:, :, 1:]):
    a[...] = x
    for b in (v, moved(v, (1, 0, 2)), np.zeros((2, 4, 5), np.float32)[:, 1:]):
        b[...] = v
        y, z = np.zeros((15, 6), np.float32), np.zeros((15, 5), np.float32)
        assert module.call(a, w, b, y, z) == 0, module.get_last_error()
        assert np.allclose(y, want, atol=1e-5) and np.allclose(z, wanted, atol=1e-4), (a.strides, b.strides)
"""


# One tensor is both factors, and other dims of it are seen as one.
BOTH_FACTORS = """def square(x: f32[4, 2, 2, 8]):
    y = reshape(x, (8, 16)) @ reshape(x, (16, 8))
    return y
"""
PYTHON_BOTH_FACTORS = """
import sys
sys.path.insert(0, sys.argv[1])
import both_factors_module as module, numpy as np
values = np.random.default_rng(6).standard_normal((4, 2, 2, 8), np.float32)
for gaps in ((0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1)):
    x = np.zeros([n + gap for n, gap in zip((4, 2, 2), gaps)] + [8], np.float32)[:4, :2, :2]
    x[...] = values
    y = np.zeros((8, 8), np.float32)
    assert module.call(x, y) == 0, (gaps, module.get_last_error())
    assert np.allclose(y, values.reshape(8, 16) @ values.reshape(16, 8), atol=1e-4), gaps
"""

# Slices as factors: of a stack, of rows and columns, every second row.
SLICES = """def cut(x: f32["m", 24], w: f32[3, 24, 16], c: f32[40, 8]):
    q = x @ w[1]
    r = relu(x[:, 8:16] @ w[2, 16:, 3:11])
    s = r @ permute(c[5:25:2, :], (1, 0))
    return q, r, s
"""
SLICES_SHAPES = {"x": (5, 24), "w": (3, 24, 16), "c": (40, 8), "q": (5, 16), "r": (5, 8), "s": (5, 10)}
SLICES_STRIDES = {"x": [(1, 5), (30, 1), (60, 2)], "w": [(1, 3, 80), (16, 48, 1), (500, -16, 1)], "c": [(1, 41), (9, 1), (-8, 1)]}
PYTHON_SLICES = """
import sys
sys.path.insert(0, sys.argv[1])
import slices_module as module, numpy as np
random = np.random.default_rng(9)
x, w, c = (random.standard_normal(shape, np.float32) for shape in ((5, 24), (3, 24, 16), (40, 8)))
def turned(a):
    return np.ascontiguousarray(a.T).T
for a in (x, turned(x)):
    for b in (w, turned(w), w[::-1].copy()[::-1]):
        for d in (c, turned(c)):
            q, r, s = (np.full((5, n), np.nan, np.float32) for n in (16, 8, 10))
            assert module.call(a, b, d, q, r, s) == 0, module.get_last_error()
            want = np.maximum(x[:, 8:16] @ w[2, 16:, 3:11], 0)
            for got, right in ((q, x @ w[1]), (r, want), (s, want @ c[5:25:2].T)):
                assert np.allclose(got, right, atol=1e-4), (a.strides, b.strides, d.strides)
for b, d in ((np.concatenate([w, w[:1]]), c), (w, c[:4]), (w, np.concatenate([c, c[:1]]))):
    assert module.call(x, b, d, q, r, s) != 0, (b.shape, d.shape)
    assert ("w" if d is c else "c") + " does not fit" in str(module.get_last_error()), module.get_last_error()
"""


# The view in which dim 1 leads takes the strides of y, which it is made of.
PUT = """def put(x: f32["b", "t", 3], values: f32["b", 2, 3], places: i64[2], w: f32[4, 3]):
    y = index_put(x, places, values, dim=1)
    z = w @ transpose(y)
    return y, z
"""


class Laid:
    """The elements of a dense tensor, somewhere in memory of their own: `strides` in elements, from `begin` on."""

    def __init__(self, values, shape, strides, begin):
        self.shape, self.strides, self.begin = shape, strides, begin
        self.memory = floats(begin + 1 + sum(max(s, 0) * (n - 1) for s, n in zip(strides, shape)) + 5)
        if values is not None:
            for place, value in zip(self.places(), values):
                self.memory[place] = value

    def places(self):
        return [self.begin + sum(i * s for i, s in zip(at, self.strides)) for at in itertools.product(*map(range, self.shape))]

    def values(self):
        return [self.memory[place] for place in self.places()]

    def gaps(self):
        places = set(self.places())
        return [value for place, value in enumerate(self.memory) if place not in places]

    def tensor(self):
        made = tensor(self.memory, self.shape, strides=self.strides)
        made.data = ctypes.addressof(self.memory) + 4 * self.begin
        return made


def dense(shape):
    return Laid(None, shape, [shape[-1], 1] if len(shape) == 2 else [1], 0)


def somewhere(values, shape):
    order = random.sample(range(len(shape)), len(shape))
    step, begin = random.choice((1, 1, 2, 3)), random.randrange(4)
    strides = [0] * len(shape)
    for dim in order:
        strides[dim] = step
        step = step * shape[dim] + random.choice((0, 3))
    for dim, size in enumerate(shape):
        if random.randrange(4) == 0:
            begin += (size - 1) * strides[dim]
            strides[dim] = -strides[dim]
    return Laid(values, shape, strides, begin)


class Layouts(unittest.TestCase):
    def test_any(self):
        random.seed(5)
        for options in ((), ("--no-checks",)):
            library = Library(build(TEXT, "layouts", *options)[0], "layouts")
            shapes = {name: [SIZES.get(s, 1) for s in dims] for name, dims in SHAPES.items()}
            flat = {name: dense(shape) for name, shape in shapes.items()}
            for name in "xwbs":
                flat[name].memory[:] = [random.uniform(-1, 1) for _ in flat[name].memory]

            def call(tensors):
                return library("layer_tensors", (Tensor * 9)(*(t.tensor() for t in tensors)), ctypes.c_int32(9), None,
                               ctypes.c_int64(0), None)

            self.assertEqual(call(flat.values()), 0, library.text())
            for turn in range(40):
                # One of them at first, then all.
                moved = [list(shapes)[turn]] if turn < 9 else list(shapes)
                laid = {name: somewhere(flat[name].values() if name in "xwbs" else None, shape) if name in moved else
                        flat[name] if name in "xwbs" else dense(shape) for name, shape in shapes.items()}
                self.assertEqual(call(laid.values()), 0, library.text())
                for name in OUTPUTS:
                    layouts = [(other, laid[other].strides) for other in laid]
                    self.assertEqual(laid[name].values(), flat[name].values(), f"{name} of {layouts}")
                    self.assertEqual(set(laid[name].gaps()), {-7.0}, f"beside {name} of {layouts}")

    def uneven(self, dense_values):
        """By tensor: its strides where leading dims are turned, so that two strides are not enough."""
        turned = {"x": (8, 16, 48, 96, 1), "k": (8, 16, 48, 96, 1), "s": (9, 18, 54, 108, 1), "y": (8, 16, 48, 96, 1)}
        return {name: Laid(dense_values.get(name), UNEVEN_SHAPES[name], strides, 2) for name, strides in turned.items()}

    def test_factors_whose_leading_dims_are_uneven(self):
        """Another program copies them, inputs and outputs; others' calls, and their workspace, stay as they are."""
        random.seed(6)
        path, _ = build(UNEVEN, "uneven", "--hint", "m=5")
        library = Library(path, "uneven")
        table = json.loads(path.with_name("uneven.json").read_text())["programs"][0]["by_size"]
        self.assertEqual((table["less_aligned"], table["when_uneven"]), ([{"plan": 0, "then": 1}], [1]))
        flat = {name: Laid(None, shape, [math.prod(shape[d + 1:]) for d in range(5)], 0)
                for name, shape in UNEVEN_SHAPES.items()}
        for name in "xk":
            for place in flat[name].places():
                flat[name].memory[place] = random.uniform(-1, 1)

        def call(tensors, workspace=None, size=0):
            return library("attend_tensors", (Tensor * 4)(*(t.tensor() for t in tensors.values())), ctypes.c_int32(4), workspace,
                           ctypes.c_int64(size), None)

        self.assertEqual(call(flat), 0, library.text())
        for moved in ("x", "k", "s", "y", "sk", "xksy"):
            laid = {**{name: Laid(one.values() if name in "xk" else None, one.shape, one.strides, 0) for name, one in flat.items()},
                    **{name: one for name, one in self.uneven({n: flat[n].values() for n in "xk"}).items() if name in moved}}
            self.assertEqual(call(laid), 0, f"{moved}: {library.text()}")
            for name in "sy":
                self.assertEqual(laid[name].values(), flat[name].values(), f"{name}, {moved}")
                self.assertEqual(set(laid[name].gaps()) - {-7.0}, set(), f"beside {name}, {moved}")
        # Memory for a call with row-major tensors is enough for these; else what is missing is said.
        size = library("attend_workspace_size", ctypes.c_int64(2), ctypes.c_int64(5))
        memory = ctypes.create_string_buffer(size + 64)
        aligned = ctypes.c_void_p((ctypes.addressof(memory) + 63) // 64 * 64)
        self.assertEqual(call(flat, aligned, size), 0, library.text())
        self.assertEqual(call({**flat, "k": self.uneven({"k": flat["k"].values()})["k"]}, aligned, size), -5)
        self.assertRegex(library.text(), "E0611: the workspace is too small: [0-9]+ bytes are given, [0-9]+ are needed")
        # Two strides are enough for two leading dims.
        _, done = build(UNEVEN.replace('"b", 3', "1, 3"), "one_leading")
        self.assertNotIn("by_size", path.with_name("one_leading.json").read_text())

    def test_python_module_with_uneven_factors(self):
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("there is no NumPy")
        build(UNEVEN, "uneven")
        (WORK / "uneven_module.py").write_text(codetta("emit", WORK / "uneven.py", "--what=python", "--hint", "m=5").stdout)
        run(sys.executable, "-B", "-c", PYTHON_USER, WORK)
        build(UNLIKE, "unlike")
        (WORK / "unlike_module.py").write_text(codetta("emit", WORK / "unlike.py", "--what=python").stdout)
        run(sys.executable, "-B", "-c", PYTHON_UNLIKE, WORK)

    def test_factors_whose_second_strides_are_unlike(self):
        library = Library(build(UNLIKE, "unlike")[0], "unlike")
        shapes = {"x": (2, 3, 5, 8), "k": (3, 2, 8, 7), "p": (2, 3, 5, 8), "y": (6, 5, 7)}
        turned = {"x": (40, 80, 8, 1), "k": (56, 168, 7, 1)}
        flat = {name: Laid(None, shape, [math.prod(shape[d + 1:]) for d in range(len(shape))], 0) for name, shape in shapes.items()}
        random.seed(7)
        for name in "xk":
            flat[name].memory[:] = [random.uniform(-1, 1) for _ in flat[name].memory]
        for moved in ("", "x", "k", "xk"):
            laid = {name: Laid(flat[name].values() if name in "xk" else None, shapes[name],
                               turned[name] if name in moved else flat[name].strides, 0) for name in shapes}
            self.assertEqual(library("attend_tensors", (Tensor * 4)(*(t.tensor() for t in laid.values())), ctypes.c_int32(4), None,
                                     ctypes.c_int64(0), None), 0, f"{moved}: {library.text()}")
            if not moved:
                flat = laid
            self.assertEqual(laid["y"].values(), flat["y"].values(), moved)

    def test_rows_and_columns_of_several_dims(self):
        """Products read them where they lie evenly; else another program copies them."""
        path, _ = build(AS_ONE, "as_one")
        self.assertRegex(codetta("explain", WORK / "as_one.py").stdout, "kernels launched +2;")
        table = json.loads(path.with_name("as_one.json").read_text())["programs"][0]["by_size"]
        self.assertEqual((table["less_aligned"], table["when_uneven"]), ([{"plan": 0, "then": 1}], [1]))
        library = Library(path, "as_one")
        flat = {name: Laid(None, shape, [math.prod(shape[d + 1:]) for d in range(len(shape))], 0) for name, shape in AS_ONE_SHAPES.items()}
        random.seed(8)
        for name in "xwv":
            for place in flat[name].places():
                flat[name].memory[place] = random.uniform(-1, 1)

        def call(tensors, workspace=None, size=0):
            return library("both_tensors", (Tensor * 5)(*(t.tensor() for t in tensors.values())), ctypes.c_int32(5), workspace,
                           ctypes.c_int64(size), None)

        self.assertEqual(call(flat), 0, library.text())
        # Without memory for copies: none of these is made where dims lie evenly.
        size = library("both_workspace_size", ctypes.c_int64(3), ctypes.c_int64(5))
        memory = ctypes.create_string_buffer(size + 64)
        aligned = ctypes.c_void_p((ctypes.addressof(memory) + 63) // 64 * 64)
        for turn in range(3):
            for moved in ("x", "v", "xv"):
                laid = {name: Laid(one.values() if name in "xwv" else None, one.shape,
                                   AS_ONE_STRIDES[name][turn] if name in moved else one.strides, 3) for name, one in flat.items()}
                self.assertEqual(call(laid), 0, f"{moved}: {library.text()}")
                for name in "yz":
                    self.assertEqual(laid[name].values(), flat[name].values(), f"{name}, {moved}")
                    self.assertEqual(set(laid[name].gaps()), {-7.0}, f"beside {name}, {moved}")
                done = call(laid, aligned, size)
                self.assertEqual(done, 0 if turn == 2 else -5, f"{moved} {turn}: {library.text()}")

    def test_python_module_with_rows_of_several_dims(self):
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("there is no NumPy")
        build(AS_ONE, "as_one")
        (WORK / "as_one_module.py").write_text(codetta("emit", WORK / "as_one.py", "--what=python").stdout)
        run(sys.executable, "-B", "-c", PYTHON_AS_ONE, WORK)

    def test_factors_behind_sizes_that_the_call_computes(self):
        """Tensors are looked at before anything has run, while another program can still take over."""
        library = Library(build(LATE, "behind", "--function", "late", "--function", "inner")[0], "behind")
        random.seed(9)
        flat = {name: Laid(None, shape, [math.prod(shape[d + 1:]) for d in range(len(shape))], 0) for name, shape in LATE_SHAPES.items()}
        for name in "pxwab":
            for place in flat[name].places():
                flat[name].memory[place] = random.uniform(-1, 1)
        given = {name: one.values() for name, one in flat.items()}
        for function in ("late", "inner"):
            first = Laid(given["p"][:6], (6,), (1,), 0) if function == "inner" else None
            for moved in ("", "x", "a", "b", "xab"):
                laid = {name: first if name == "p" and first else Laid(given[name] if name in "pxwab" else None, one.shape,
                                                                       LATE_STRIDES[name] if name in moved else one.strides, 0)
                        for name, one in flat.items()}
                status = library(f"{function}_tensors", (Tensor * 8)(*(t.tensor() for t in laid.values())), ctypes.c_int32(8), None,
                                 ctypes.c_int64(0), None)
                self.assertEqual(status, 0, f"{function}, {moved}: {library.text()}")
                if not moved:
                    right = {name: laid[name].values() for name in "vyz"}
                for name in "vyz":
                    self.assertEqual(laid[name].values(), right[name], f"{function}: {name}, {moved}")

    def test_rows_that_are_put_along_an_inner_dim(self):
        random.seed(7)
        library = Library(build(PUT, "put")[0], "put")
        x, values, w = ((random.uniform(-1, 1) for _ in range(60)) for _ in range(3))
        x, values, w = Laid(x, (2, 5, 3), (15, 3, 1), 0), Laid(values, (2, 2, 3), (6, 3, 1), 0), Laid(w, (4, 3), (3, 1), 0)
        places = (ctypes.c_int64 * 2)(4, 1)
        want = x.values()
        for b, p, c in itertools.product(range(2), range(2), range(3)):
            want[15 * b + 3 * places[p] + c] = values.values()[6 * b + 3 * p + c]
        for strides, begin in (((15, 3, 1), 0), ((1, 2, 10), 0), ((4, 9, 1), 3), ((60, 8, 2), 1), ((15, -3, 1), 12), ((-15, 3, 1), 15),
                               ((15, 3, -1), 2), ((-20, -4, -1), 38)):
            y, z = Laid(None, (2, 5, 3), strides, begin), Laid(None, (2, 4, 5), (20, 5, 1), 0)
            code = library("put_tensors", (Tensor * 6)(x.tensor(), values.tensor(), tensor(places, (2,), dtype=4), w.tensor(), y.tensor(),
                                                       z.tensor()), ctypes.c_int32(6), None, ctypes.c_int64(0), None)
            self.assertEqual(code, 0, f"{strides}: {library.text()}")
            self.assertEqual(y.values(), want, strides)
            self.assertEqual(set(y.gaps()) - {-7.0}, set(), strides)
            for b, r, t in itertools.product(range(2), range(4), range(5)):
                right = sum(w.values()[3 * r + c] * want[15 * b + 3 * t + c] for c in range(3))
                self.assertAlmostEqual(z.values()[20 * b + 5 * r + t], right, places=5)

    def test_one_tensor_as_both_factors(self):
        library = Library(build(BOTH_FACTORS, "both_factors")[0], "both_factors")
        moved, y = Laid(None, (4, 2, 2, 8), (48, 24, 8, 1), 0), dense((8, 8))
        code = library("square_tensors", (Tensor * 2)(moved.tensor(), y.tensor()), ctypes.c_int32(2), None, ctypes.c_int64(0), None)
        self.assertEqual(code, 0, library.text())
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("there is no NumPy")
        (WORK / "both_factors_module.py").write_text(codetta("emit", WORK / "both_factors.py", "--what=python").stdout)
        run(sys.executable, "-B", "-c", PYTHON_BOTH_FACTORS, WORK)

    def test_slices_as_factors(self):
        """Products read them where they begin, however the tensor lies; no kernel copies them."""
        path, _ = build(SLICES, "slices")
        self.assertRegex(codetta("explain", WORK / "slices.py").stdout, "kernels launched +3;")
        library = Library(path, "slices")
        flat = {name: Laid(None, shape, [math.prod(shape[d + 1:]) for d in range(len(shape))], 0) for name, shape in SLICES_SHAPES.items()}
        random.seed(10)
        for name in "xwc":
            for place in flat[name].places():
                flat[name].memory[place] = random.uniform(-1, 1)

        def call(tensors):
            return library("cut_tensors", (Tensor * 6)(*(t.tensor() for t in tensors.values())), ctypes.c_int32(6), None,
                           ctypes.c_int64(0), None)

        self.assertEqual(call(flat), 0, library.text())
        at = lambda name, *index: flat[name].memory[sum(i * s for i, s in zip(index, flat[name].strides))]
        for i, j in itertools.product(range(5), range(8)):
            want = max(sum(at("x", i, 8 + k) * at("w", 2, 16 + k, 3 + j) for k in range(8)), 0.0)
            self.assertAlmostEqual(at("r", i, j), want, 4)
        for turn in range(3):
            for moved in ("x", "w", "c", "xwc"):
                laid = {}
                for name, one in flat.items():
                    strides = SLICES_STRIDES[name][turn] if name in moved else one.strides
                    begin = sum(-stride * (n - 1) for stride, n in zip(strides, one.shape) if stride < 0)
                    laid[name] = Laid(one.values() if name in "xwc" else None, one.shape, strides, begin)
                self.assertEqual(call(laid), 0, f"{moved}: {library.text()}")
                for name in "qrs":
                    for got, want in zip(laid[name].values(), flat[name].values()):
                        self.assertAlmostEqual(got, want, 4, f"{name}, {moved}, {turn}")
        # What is read through slices alone has to be what the program declares all the same.
        for name, shape in (("w", (4, 24, 16)), ("c", (41, 8)), ("c", (40, 9))):
            other = Laid(None, shape, [math.prod(shape[d + 1:]) for d in range(len(shape))], 0)
            self.assertEqual(call({**flat, name: other}), -2, shape)
            self.assertIn(f"E0610: {name} does not fit: it is f32", library.text())
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("there is no NumPy")
        (WORK / "slices_module.py").write_text(codetta("emit", WORK / "slices.py", "--what=python").stdout)
        run(sys.executable, "-B", "-c", PYTHON_SLICES, WORK)

    def test_what_has_its_place_costs_nothing(self):
        """Constants lie as the library has them: only the scores of the digits have kernels of two forms."""
        _, done = build(DIGITS / "classifier.py", "digits_layouts", "--weights", DIGITS / "digits.safetensors", "--embed-weights")
        self.assertIn("3 kernels", done.stderr)


if __name__ == "__main__":
    main()
