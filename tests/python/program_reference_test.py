# SPDX-License-Identifier: Apache-2.0
"""Tests of the NumPy reference of programs: every function against a plain loop or a known value. Needs NumPy only."""
import pathlib
import re
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian: python3-numpy)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import codetta_program_reference as p  # noqa: E402
import codetta_reference as r  # noqa: E402


def f32(values):
    return r.Value(np.asarray(values, np.float64), "f32")


def i64(values):
    return r.Value(np.asarray(values, np.int64), "i64")


X = np.arange(12.0).reshape(3, 4)


class ProgramReferenceTest(unittest.TestCase):
    def same(self, value, expected, dtype="f32"):
        self.assertEqual(value.dtype, dtype)
        np.testing.assert_allclose(value.array, expected, rtol=1e-9)

    def test_every_function_of_programs_is_here(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        text = (root / "src/frontend/functions.def").read_text()
        text = text[text.index("\n// programs\n"):]
        table = [n for n, how in re.findall(r"^CODETTA_FUNCTION\((\w+), (\w+),", text, re.M) if how != "Unavailable"]
        self.assertEqual(table, p.PROGRAM)
        guide = (root / "docs/language.md").read_text()
        self.assertEqual([n for n in p.PROGRAM if f"`{n}(" not in guide], [])
        mine = pathlib.Path(__file__).read_text()
        self.assertEqual([n for n in p.PROGRAM if not re.search(rf"\b(p\.)?{n}\(", mine)], [])

    def test_devices(self):
        x = f32(X)
        self.same(p.to_device(x, 63), X)
        for bad in (-1, 64):
            with self.assertRaises(r.LanguageError):
                p.to_device(x, bad)
        text = """def f(x: f32[3, 4]):
    h = to_device(x, 1) * 2.0
    with device(1):
        g = h + 1.0
        with device(2):
            k = g * g
    y = to_device(g, 2) + k
    return y
"""
        self.same(p.run_program(text, {"x": x})["y"], 2 * X + 1 + (2 * X + 1) ** 2)

    def test_sizes_of_functions_that_are_called_are_their_own(self):
        text = """def wide(x):
    return concat(x, zeros(n, 1), dim=1)

def halves(x: f32["2*n", "c"]):
    return wide(reshape(x, (n, "2*c")))

def f(x: f32["m", 4], z: f32["n", 2]):
    a = halves(x)
    b = halves(z)
    return a, b
"""
        x, z = f32(np.arange(24.0).reshape(6, 4)), f32(np.arange(16.0).reshape(8, 2))
        found = p.run_program(text, {"x": x, "z": z}, {"m": 6, "n": 8})
        self.same(found["a"], np.pad(np.arange(24.0).reshape(3, 8), ((0, 0), (0, 1))))
        self.same(found["b"], np.pad(np.arange(16.0).reshape(4, 4), ((0, 0), (0, 1))))
        with self.assertRaises(r.LanguageError):  # five rows are no multiple of two
            p.run_program(text, {"x": f32(np.zeros((5, 4))), "z": z}, {"m": 5, "n": 8})
        for types in ('x: bf16["r", "c"]', 'x: f32["r"]', 'x: f32["r", "r"]', 'x: f32["r", 3]'):
            with self.assertRaises(r.LanguageError):
                p.run_program(f"def g({types}):\n    return x * 2\n\ndef f(x: f32[3, 4]):\n    y = g(x)\n    return y\n", {"x": f32(X)})

    def test_slices(self):
        x = f32(X)
        self.same(x[:, 1:3], X[:, 1:3])
        self.same(x[..., -1], X[..., -1])
        self.same(x[None, 0], X[None, 0])
        self.same(x[:, r.Value(np.int64(2), "i64")], X[:, 2])
        for bad in (-1, 3):
            with self.assertRaises(r.LanguageError):
                x[r.Value(np.int64(bad), "i64")]
        for bad in (slice(0, 5), slice(2, 1), slice(None, None, -1)):
            with self.assertRaises(r.LanguageError):
                x[bad]

    def test_shapes(self):
        x = f32(X)
        self.same(p.transpose(x), X.T)
        self.same(p.concat(x, x[:1], dim=0), np.concatenate([X, X[:1]]))
        self.same(p.squeeze(p.unsqueeze(x, (0, -1)), 0), X[..., None])
        self.same(p.expand(x, 2, -1, 4), np.broadcast_to(X, (2, 3, 4)))
        self.same(p.full(2.0, 3, 1, dtype="f32"), np.full((3, 1), 2.0))
        self.same(p.zeros(2, 3, "bf16"), np.zeros((2, 3)), "bf16")
        self.same(p.ones(2), np.ones(2))
        self.same(p.arange(4), np.arange(4), "i64")
        self.same(p.matmul(x, p.transpose(x)), X @ X.T)
        self.same(r.sum(x, dim=0, keepdim=False), X.sum(0))

    def test_sizes_from_values(self):
        x, k = f32(X), i64(2)
        self.same(x[:k], X[:2])
        self.same(x[k - 1:k], X[1:2])
        self.same(p.zeros(k, 3), np.zeros((2, 3)))
        self.same(p.arange(k + 1), np.arange(3), "i64")
        self.same(p.expand(x[0], k, -1), np.broadcast_to(X[0], (2, 4)))
        for wrong in (lambda: x[:k + 2], lambda: x[k - 3:], lambda: p.ones(k - 3), lambda: x[:f32(2.0)],
                      lambda: x[:i64([2])], lambda: p.zeros(f32(2.0))):
            with self.assertRaises(r.LanguageError):
                wrong()

    def test_indices(self):
        x, i = f32(X), i64([[2, 0], [1, 1]])
        self.same(p.take(x, i), X[[[2, 0], [1, 1]]])
        self.same(p.embedding(x, i64([1])), X[[1]])
        self.same(p.gather(x, i64([[0, 3], [1, 1], [2, 0]]), dim=1), [[0, 3], [5, 5], [10, 8]])
        put = p.index_put(x, i64([2, 0, 2]), f32(np.arange(12.0).reshape(3, 4) + 100))
        expected = X.copy()
        for k, row in enumerate([2, 0, 2]):
            expected[row] = 100 + np.arange(4) + 4 * k
        self.same(put, expected)
        expected = X.copy()
        np.add.at(expected, [2, 0, 2], np.ones((3, 4)))
        self.same(p.index_put(x, i64([2, 0, 2]), f32(np.ones((3, 4))), accumulate=True), expected)
        one = X.copy()
        one[1] = np.arange(4)
        self.same(p.index_put(x, i64(1), f32(np.arange(4.0))), one)
        one[:, 2] = [7, 8, 9]
        self.same(p.index_put(f32(one), i64(2), f32([7.0, 8, 9]), dim=1), one)
        self.same(p.scatter(f32([[0.0, 1, 2]]), i64([[2, 2]]), f32([[5.0, 7]]), dim=1, reduce="max"), [[0, 1, 7]])
        self.same(p.scatter(f32([[0.0, 1, 2]]), i64([[2, 2]]), f32([[5.0, 7]]), dim=1, reduce="sum"), [[0, 1, 14]])
        with self.assertRaises(r.LanguageError):
            p.take(x, i64([3]))

    def test_composites(self):
        x, w = f32(X / 4), f32(np.arange(4.0))
        e = np.exp(X / 4)
        self.same(p.softmax(x), e / e.sum(-1, keepdims=True))
        self.same(p.log_softmax(x, dim=0), np.log(e / e.sum(0, keepdims=True)))
        centered = X / 4 - (X / 4).mean(-1, keepdims=True)
        scale = 1 / np.sqrt((centered ** 2).mean(-1, keepdims=True) + 1e-5)
        self.same(p.layer_norm(x, w, w), centered * scale * np.arange(4) + np.arange(4))
        self.same(p.rms_norm(x, w), X / 4 / np.sqrt((X ** 2 / 16).mean(-1, keepdims=True) + 1e-6) * np.arange(4))
        cosine, sine = np.array([0.0, 1.0]), np.array([1.0, 0.0])
        self.same(p.rope(f32(X), f32(cosine), f32(sine)), np.concatenate([-X[:, 2:3], X[:, 1:2], X[:, :1], X[:, 3:]], 1))
        self.same(p.rope(f32(X), f32(cosine), f32(sine), interleave=True),
                  np.concatenate([-X[:, 1:2], X[:, :1], X[:, 2:]], 1))

    def test_control(self):
        text = """
def more(i, x):
    return i < n
def twice(x):
    return x * 2.0
def same(x):
    return x
def step(i, x):
    return i + 1, cond(i % 2 == 0, twice, same, x)
def f(x: f32["n"]):
    i, y = while_loop(more, step, 0, x)
    z = call_extern("half", y[n // 2:], out="f32[n - n // 2]")
    return y, z
"""
        p.EXTERN["half"] = lambda x: [x * 0.5]
        text = text.replace("i < n", "i < 3")
        results = p.run_program(text, {"x": f32([1.0, 2, 3])}, {"n": 3})
        self.same(results["y"], [4, 8, 12])
        self.same(results["z"], [4, 6])
        self.same(p.user_kernel("half", f32([2.0]), out="f32[1]"), [1])


if __name__ == "__main__":
    unittest.main()
