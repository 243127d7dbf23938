# SPDX-License-Identifier: Apache-2.0
"""Tests of the NumPy reference: every function of the language, special values, types, conversions. Needs NumPy only."""
import math
import pathlib
import re
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian: python3-numpy)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import check_examples  # noqa: E402
import codetta_dtypes as dtypes  # noqa: E402
import codetta_reference as r  # noqa: E402

INF, NAN = math.inf, math.nan


def f32(values):
    return r.Value(np.asarray(values, np.float64), "f32")


def integer(values, dtype="i32"):
    return r.Value(np.asarray(values, dtypes.INTS[dtype]), dtype)


def boolean(values):
    return r.Value(np.asarray(values, bool), "bool")


class ReferenceTest(unittest.TestCase):
    def same(self, value, expected, dtype="f32", tolerance=1e-12):
        """Equal within a relative tolerance, NaN where NaN, zeros of the same sign, and of that dtype."""
        array, expected = np.asarray(value.array), np.asarray(expected)
        self.assertEqual(value.dtype, dtype)
        self.assertEqual(array.shape, expected.shape)
        if not dtypes.is_float(dtype):
            np.testing.assert_array_equal(array, expected)
            return
        np.testing.assert_allclose(array, expected, rtol=tolerance, atol=0 if tolerance < 1e-9 else tolerance)
        zero = np.asarray(expected == 0)
        np.testing.assert_array_equal(np.signbit(array[zero]), np.signbit(expected.astype(float)[zero]))

    def test_every_name_of_the_language_is_tested(self):
        text = pathlib.Path(__file__).read_text()
        self.assertEqual([n for n in r.LANGUAGE if not re.search(rf"\br\.{n}\b", text)], [])
        self.assertEqual([n for n in r.__all__ if not hasattr(r, n)], [])

    def test_the_front_end_and_the_guide_have_the_same_functions(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        text = (root / "src/frontend/functions.def").read_text()
        table = re.findall(r"^CODETTA_FUNCTION\((\w+), (\w+),", text[:text.index("\n// programs\n")], re.M)
        self.assertEqual({n for n, _ in table}, set(r.LANGUAGE))
        guide = (root / "docs/language.md").read_text()
        self.assertEqual([n for n in r.__all__ if not re.search(rf"[`(, ]{n}[`(, ]", guide)], [])

    def test_the_guide_runs(self):
        guide = (pathlib.Path(__file__).resolve().parents[2] / "docs/language.md").read_text()
        blocks = [b for b in re.findall(r"```python\n(.*?)```", guide, re.S) if "@ w1" not in b]
        self.assertGreaterEqual(len(blocks), 6)
        for block in blocks:
            for name in re.findall(r"^def (\w+)\(accum", block, re.M):
                function, outputs = r.load_epilogue(block, name)
                shapes = {"weight": 64, "bias": 64, "cosines": (5, 1, 8), "sines": (5, 1, 8), "row_scale": (5, 1)}
                parameters = function.__code__.co_varnames[1:function.__code__.co_argcount]
                operands = {p: f32(np.ones(shapes.get(p, ()))) for p in parameters}
                results = r.run_epilogue(block, f32(np.ones((5, 64))), operands, name)
                self.assertEqual(list(results), outputs)

    def test_special_values(self):
        x = f32([-INF, -2.0, -0.0, 0.0, 0.5, INF, NAN])
        self.same(r.relu(x), [0.0, 0.0, 0.0, 0.0, 0.5, INF, NAN])
        self.same(r.drelu(x), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
        self.same(r.abs(x), [INF, 2, 0.0, 0.0, 0.5, INF, NAN])
        self.same(r.sign(x), [-1, -1, 0.0, 0.0, 1, 1, NAN])
        self.same(r.exp(x), [0.0, math.exp(-2), 1, 1, math.exp(0.5), INF, NAN])
        self.same(r.exp2(x), [0.0, 0.25, 1, 1, math.sqrt(2), INF, NAN])
        self.same(r.expm1(x), [-1, math.expm1(-2), -0.0, 0.0, math.expm1(0.5), INF, NAN])
        self.same(r.log(x), [NAN, NAN, -INF, -INF, math.log(0.5), INF, NAN])
        self.same(r.log2(x), [NAN, NAN, -INF, -INF, -1, INF, NAN])
        self.same(r.log1p(x), [NAN, NAN, -0.0, 0.0, math.log1p(0.5), INF, NAN])
        self.same(r.sqrt(x), [NAN, NAN, -0.0, 0.0, math.sqrt(0.5), INF, NAN])
        self.same(r.rsqrt(x), [NAN, NAN, -INF, INF, math.sqrt(2), 0.0, NAN])
        self.same(r.reciprocal(x), [-0.0, -0.5, -INF, INF, 2, 0.0, NAN])
        self.same(r.sin(x), [NAN, math.sin(-2), -0.0, 0.0, math.sin(0.5), NAN, NAN])
        self.same(r.cos(x), [NAN, math.cos(2), 1, 1, math.cos(0.5), NAN, NAN])
        self.same(r.tanh(x), [-1, math.tanh(-2), -0.0, 0.0, math.tanh(0.5), 1, NAN])
        self.same(r.erf(x), [-1, math.erf(-2), -0.0, 0.0, math.erf(0.5), 1, NAN])
        self.same(r.sigmoid(x), [0.0, 1 / (1 + math.exp(2)), 0.5, 0.5, 1 / (1 + math.exp(-0.5)), 1, NAN])
        self.same(r.hardtanh(x), [-1, -1, -0.0, 0.0, 0.5, 1, NAN])
        self.same(r.hardsigmoid(x), [0.0, 1 / 6, 0.5, 0.5, 3.5 / 6, 1, NAN])
        self.same(r.identity(x), x.array)
        np.testing.assert_array_equal(r.relu6(x).array, [0, 0, 0, 0, 0.5, 6, NAN])

    def test_activations(self):
        x = [-3.0, -1.0, 0.25, 2.0, 30.0]
        def check(value, function):
            self.same(value, [function(v) for v in x], tolerance=1e-11)
        sigmoid = lambda v: 1 / (1 + math.exp(-v))
        inner = lambda v: math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)
        check(r.silu(f32(x)), lambda v: v * sigmoid(v))
        check(r.gelu(f32(x)), lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2)
        check(r.gelu(f32(x), approximate="tanh"), lambda v: 0.5 * v * (1 + math.tanh(inner(v))))
        check(r.hardswish(f32(x)), lambda v: v * min(max(v + 3, 0.0), 6.0) / 6)
        check(r.mish(f32(x)), lambda v: v * math.tanh(math.log1p(math.exp(v))))
        check(r.elu(f32(x), alpha=0.5), lambda v: v if v > 0 else 0.5 * math.expm1(v))
        check(r.leaky_relu(f32(x), 0.25), lambda v: v if v > 0 else 0.25 * v)
        check(r.softplus(f32(x), beta=2.0, threshold=5.0), lambda v: v if 2 * v > 5 else math.log1p(math.exp(2 * v)) / 2)
        self.assertTrue(np.isnan(r.softplus(f32([NAN])).array).all())
        for name in ("elu", "leaky_relu", "mish", "gelu", "silu"):
            self.assertTrue(np.isnan(getattr(r, name)(f32([NAN])).array).all(), name)

    def test_derivatives_against_differences(self):
        x, h = np.linspace(-4, 4, 33) + 0.01, 1e-5
        pairs = [(r.gelu, r.dgelu), (r.silu, r.dsilu), (r.tanh, r.dtanh), (r.sigmoid, r.dsigmoid), (r.relu, r.drelu),
                 (lambda v: r.gelu(v, "tanh"), lambda v: r.dgelu(v, "tanh"))]
        for function, derivative in pairs:
            slope = (function(f32(x + h)).array - function(f32(x - h)).array) / (2 * h)
            np.testing.assert_allclose(derivative(f32(x)).array, slope, atol=1e-8)

    def test_tails(self):
        """What is small keeps its digits, and large arguments are no NaN."""
        x = f32([-20.0, -6.0, 6.0, 20.0, 88.0])
        half = [math.erfc(-v / math.sqrt(2)) / 2 for v in x.array]
        self.same(r.gelu(x), x.array * half)
        self.same(r.dgelu(x), [h + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi) for v, h in zip(x.array, half)])
        self.same(r.dsigmoid(x), [1 / (math.exp(v) + 2 + math.exp(-v)) for v in x.array])
        self.same(r.dtanh(x), [1 / math.cosh(v) ** 2 for v in x.array])
        inner = [2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3) for v in (-6.0, -3.0)]
        self.same(r.gelu(f32([-6.0, -3.0]), "tanh"), [v / (1 + math.exp(-u)) for v, u in zip((-6.0, -3.0), inner)])
        far = r.Value(np.array([-1e300, -1e200, 1e200, 1e300]), "f64")
        for approximate in ("none", "tanh"):
            self.same(r.gelu(far, approximate), [-0.0, -0.0, 1e200, 1e300], "f64")
            self.same(r.dgelu(far, approximate), [0.0, 0.0, 1, 1], "f64")

    def test_rounding_functions(self):
        x = f32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -0.2, 1e30, NAN, -INF])
        self.same(r.round(x), [-2, -2, -0.0, 0.0, 2, 2, -0.0, 1e30, NAN, -INF])
        self.same(r.floor(x), [-3, -2, -1, 0.0, 1, 2, -1, 1e30, NAN, -INF])
        self.same(r.ceil(x), [-2, -1, -0.0, 1, 2, 3, -0.0, 1e30, NAN, -INF])
        self.same(r.trunc(x), [-2, -1, -0.0, 0.0, 1, 2, -0.0, 1e30, NAN, -INF])
        self.same(r.floor(integer([-3, 4])), [-3, 4], "i32")

    def test_bounds(self):
        x, y = f32([1.0, NAN, 2.0, -0.0, INF]), f32([2.0, 1.0, NAN, 0.0, -INF])
        self.same(r.minimum(x, y), [1, NAN, NAN, -0.0, -INF])
        self.same(r.maximum(x, y), [2, NAN, NAN, 0.0, INF])
        self.same(r.clamp(f32([-5, 0.5, 9, NAN]), -1, 2), [-1, 0.5, 2, NAN])
        self.same(r.clamp(f32([-5, 9.0]), min=0.0), [0.0, 9])
        self.same(r.clamp(integer([-5, 9]), max=3), [-5, 3], "i32")
        self.same(r.clamp(integer([-5, 9]), max=2.5), [-5, 2.5])
        self.same(r.clamp(f32([1.0]), min=3, max=2), [2.0])  # the upper bound wins
        with self.assertRaises(r.LanguageError):
            r.clamp(x)

    def test_arithmetic(self):
        x = f32([7.0, -7.0, 7.0, -7.0, 1.0, 0.0])
        y = f32([2.0, 2.0, -2.0, -2.0, 0.0, 0.0])
        self.same(x // y, [3, -4, -4, 3, INF, NAN])
        self.same(x % y, [1, 1, -1, -1, NAN, NAN])
        self.same(x / y, [3.5, -3.5, -3.5, 3.5, INF, NAN])
        self.same(r.multiply_add(x, 2, 1), [15, -13, 15, -13, 3, 1])
        self.same(f32([2.0, -2.0, 0.0, -2.0]) ** f32([3.0, 3.0, -1.0, 0.5]), [8, -8, INF, NAN])
        self.same(r.pow(f32([2.0, 9.0]), 0.5), [math.sqrt(2), 3])
        self.same(2 ** f32([3.0]), [8])
        self.same(-f32([0.0, 1.0]), [-0.0, -1.0])
        self.same(INF * f32([0.0]), [NAN])
        self.same(1 - f32([3.0]), [-2])

    def test_integers(self):
        x, y = integer([7, -7, 7, -7, 5]), integer([2, 2, -2, -2, 0])
        self.same(x // y, [3, -4, -4, 3, 0], "i32")
        self.same(x % y, [1, 1, -1, -1, 0], "i32")
        self.same(x / y, [3.5, -3.5, -3.5, 3.5, INF])
        self.same(integer([2**31 - 1]) + 1, [-(2**31)], "i32")
        self.same(integer([-(2**31)]) // -1, [-(2**31)], "i32")
        self.same(integer([-(2**31)]) % -1, [0], "i32")
        self.same(r.abs(integer([-128], "i8")), [-128], "i8")
        self.same(-integer([1], "u8"), [255], "u8")
        self.same(integer([200], "u8") + integer([100], "u8"), [44], "u8")
        self.same(integer([-3]) ** 3, [-27], "i32")
        self.same(integer([3]) ** 0, [1], "i32")
        self.same(r.sign(integer([-3, 0, 9])), [-1, 0, 1], "i32")
        largest = integer(2**64 - 1, "u64")  # without dims; no float holds it
        for value, expected in ((largest // 3, 6148914691236517205), (largest % 10, 5), (r.relu(largest), 2**64 - 1), (largest // 0, 0),
                                (largest % 0, 0)):
            self.same(value, np.array(expected, np.uint64), "u64")
        self.same(integer([2**64 - 1, 2**63 + 1], "u64") // 3, np.array([6148914691236517205, 3074457345618258603], np.uint64), "u64")
        self.same(r.relu(integer([-3, 4], "i8")), [0, 4], "i8")
        for bad in (lambda: integer([2]) ** -1, lambda: integer([2]) ** integer([2])):
            with self.assertRaises(r.LanguageError):
                bad()

    def test_types(self):
        def joined(a, b):
            values = [r.Value(np.zeros(1, bool if t == "bool" else None), t) for t in (a, b)]
            values = [r.Value(r.store(v, v.dtype), v.dtype) for v in values]
            return (values[0] + values[1]).dtype
        table = [("f16", "f16", "f32"), ("bf16", "f16", "f32"), ("f8e4m3", "i8", "f32"), ("i64", "f32", "f32"),
                 ("f64", "f32", "f64"), ("i64", "f64", "f64"), ("i8", "u8", "i16"), ("u16", "i16", "i32"),
                 ("i32", "u32", "i64"), ("u64", "i8", "i64"), ("u64", "u8", "u64"), ("bool", "bool", "i32"),
                 ("bool", "u8", "u8"), ("bool", "f16", "f32"), ("i8", "i8", "i8")]
        for a, b, result in table:
            self.assertEqual((joined(a, b), joined(b, a)), (result, result), (a, b))
        self.assertEqual((integer([1], "u8") + 300).dtype, "i32")
        self.assertEqual((integer([1], "u8") + 200).dtype, "u8")
        self.assertEqual((integer([1], "u8") - (-1)).dtype, "i32")
        self.assertEqual((integer([1], "i64") * 0.5).dtype, "f32")
        self.assertEqual((r.Value(np.ones(1), "f64") * 0.1).dtype, "f64")
        self.assertEqual((f32([1.0]) * (1 << 40)).dtype, "f32")
        self.assertEqual((boolean([True]) + 1).dtype, "i32")
        self.assertEqual(r.exp(integer([0])).dtype, "f32")
        self.assertEqual((f32([2.0]) > 1).dtype, "bool")

    def test_arithmetic_between_literals(self):
        def of(expression, accum, dtype="i32"):
            text = f"def f(accum):\n    D = {expression}\n    return D"
            return r.run_epilogue(text, integer([accum], dtype), {})["D"]
        for expression, expected, dtype in (
                ("accum + 2**40", 2**40 + 1, "i64"), ("accum + 2**31", 2**31 + 1, "i64"),
                ("accum + 2**33 // 2", 2**32 + 1, "i64"), ("minimum(accum, 2**40)", 1, "i64"),
                ("clamp(accum, -2**31, 2**31)", 1, "i64"), ("where(accum < 2**31, 1, 0)", 1, "i32"),
                ("where(accum == 1, 2**63 - 1, 0)", 2**63 - 1, "i64"), ("accum + 7 // 0", 1, "i32"),
                ("where(accum == 1, -2**63, 0)", -2**63, "i64"), ("accum + 2**100 // 2**98", 5, "i32"),
                ("accum + where(2**64 > 2**63, 2, 2**65)", 3, "i32"), ("accum + 2**64 / 2.0**64", 2.0, "f32"),
                ("where(accum == 1, 2.5, 1)", 2.5, "f32"), ("accum * (0.1 + 0.2)", float(np.float32(0.1 + 0.2)), "f32"),
                ("accum + (True + True)", 3, "i32"), ("accum + ~True", 1, "i32"), ("accum + ~False", 2, "i32"),
                ("accum + (~(1 < 2) | True)", 2, "i32"), ("accum + (True ^ True)", 1, "i32"), ("relu6(accum)", 1, "i32")):
            value = of(expression, 1)
            self.assertEqual((value.dtype, value.array.item()), (dtype, expected), expression)
        for expression, expected, dtype in (
                ("accum + 2**8", 257, "i32"), ("accum + abs(-300)", 301, "i32"), ("accum + relu(300)", 301, "i32"),
                ("accum + minimum(300, 400)", 301, "i32"), ("accum + where(True, 300, 1)", 301, "i32"),
                ("accum - True * 0", 1, "u8"), ("accum + 400 // 2", 201, "u8"), ("accum ** (2**1)", 1, "u8")):
            value = of(expression, 1, "u8")
            self.assertEqual((value.dtype, value.array.item()), (dtype, expected), expression)
        for expression, accum, expected, dtype in (
                ("accum + 9223372036854775808", (1, "i32"), 1 - 2**63, "i64"), ("accum + 2**63", (1, "u8"), 2**63 + 1, "u64"),
                ("accum + (9223372036854775807 + 1)", (2**63 + 5, "u64"), 5, "u64"), ("accum - abs(-2**63)", (2**64 - 1, "u64"), 2**63 - 1, "u64"),
                ("accum // 18446744073709551615", (2**64 - 1, "u64"), 1, "u64"), ("where(accum == 18446744073709551615, 2**64 - 1, 0)", (2**64 - 1, "u64"), 2**64 - 1, "u64"),
                ("accum / 2**63", (2**63, "u64"), 1.0, "f32"), ("cast(2**64 - 1, i64) + accum", (1, "i64"), 0, "i64"),
                ("accum % (2**64 - 2**32)", (7, "i64"), -(2**32) + 7, "i64")):
            value = of(expression, *accum)
            self.assertEqual((value.dtype, value.array.item()), (dtype, expected), expression)
        for refused in ("accum * 2**64", "accum + 2**100 * 2**100 // 2**190", "accum + -(2**63 + 1)",
                        "dropout(accum, 0.5, 2**64)", "accum + exp(2**64)", "cast(2**64, f32) + accum", "accum + abs(-2**64)", "accum + ~5", "accum + (5 & 3)", "accum + (True | 2)"):
            with self.assertRaises(r.LanguageError):
                of(refused, 1)

    def test_special_quotients_and_powers(self):
        self.same(f32([INF, -INF, 1.0, 1.0, -7.0]) // f32([2.0, 2.0, -INF, 0.0, 2.0]), [INF, -INF, -0.0, INF, -4])
        self.same(f32([-INF, -0.0, 0.0, 4.0, INF]) ** 0.5, [INF, 0.0, 0.0, 2, INF])
        self.assertTrue(np.isnan((f32([-1.0]) ** 0.5).array).all())

    def test_booleans(self):
        x, y = boolean([True, True, False]), boolean([True, False, False])
        self.same(x & y, [True, False, False], "bool")
        self.same(x | y, [True, True, False], "bool")
        self.same(x ^ y, [False, True, False], "bool")
        self.same(~x, [False, False, True], "bool")
        self.same(f32([NAN, 1]) == f32([NAN, 1]), [False, True], "bool")
        self.same(f32([NAN, 1]) != f32([NAN, 1]), [True, False], "bool")
        self.same(f32([NAN, 1, 2]) >= 2, [False, False, True], "bool")
        self.same(r.where(f32([1.0, -1.0]) > 0, f32([5.0, 6.0]), 0), [5, 0.0])
        self.same(r.where(x, True, y), [True, True, False], "bool")
        self.same(r.where(x, integer([1, 2, 3]), 0.5), [1, 2, 0.5])
        for bad in (lambda: x & f32([1.0]), lambda: r.where(f32([1.0]), 1, 2), lambda: 1 if x else 2,
                    lambda: 0 < f32([1.0]) < 2):
            with self.assertRaises(r.LanguageError):
                bad()

    def test_cast_and_store(self):
        x = f32([2.7, -2.7, 2.5, 300.0, -300.0, NAN, INF, -INF])
        self.same(r.cast(x, "i8"), [2, -2, 2, 127, -128, 0, 127, -128], "i8")
        self.same(r.cast(x, r.u8), [2, 0, 2, 255, 0, 0, 255, 0], "u8")
        np.testing.assert_array_equal(r.store(x, "i8"), [3, -3, 2, 127, -128, 0, 127, -128])
        self.same(r.cast(f32([1e30, -1e30, 2.0**63]), "i64"), [2**63 - 1, -(2**63), 2**63 - 1], "i64")
        self.same(r.cast(f32([1e30, -1.0]), "u64"), [2**64 - 1, 0], "u64")
        self.same(r.cast(integer([300, -1]), "u8"), [44, 255], "u8")
        np.testing.assert_array_equal(r.store(integer([300, -1]), "i8"), [44, -1])
        self.same(r.cast(f32([0.0, -0.0, 0.1, NAN]), "bool"), [False, False, True, True], "bool")
        self.same(r.cast(f32([1e9, INF, NAN, -INF]), "f8e4m3"), [448, 448, NAN, -448], "f8e4m3")
        self.same(r.cast(f32([1e9, -INF]), "f8e5m2"), [57344, -57344], "f8e5m2")
        self.same(r.cast(f32([65519.0, 65520.0]), "f16"), [65504, INF], "f16")
        self.same(r.cast(integer([2**24 + 1]), "f32"), [2.0**24], "f32")
        self.same(r.cast(f32([1.00390625]), "bf16") + 0, [1.0], "f32")  # a tie goes to the even neighbour
        with self.assertRaises(r.LanguageError):
            r.cast(x, "float32")

    def test_conversions_of_all_16_and_8_bit_floats(self):
        for dtype, count in (("f16", 1 << 16), ("bf16", 1 << 16), ("f8e4m3", 256), ("f8e5m2", 256)):
            raw = np.arange(count, dtype=np.uint16 if count > 256 else np.uint8).tobytes()
            values = dtypes.decode(raw, dtype, (count,))
            finite = np.isfinite(values)
            np.testing.assert_array_equal(dtypes.round_float(values[finite], dtype), values[finite])
            codes = np.frombuffer(dtypes.encode(values, dtype), np.uint16 if count > 256 else np.uint8)
            np.testing.assert_array_equal(codes[finite], np.arange(count)[finite])
            ordered = np.unique(values[finite])
            middle = (ordered[:-1] + ordered[1:]) / 2  # exact in f64: each tie must go to the even mantissa
            even = np.frombuffer(dtypes.encode(dtypes.round_float(middle, dtype), dtype), codes.dtype)
            self.assertTrue((even % 2 == 0).all(), dtype)
        x = np.random.default_rng(1).standard_normal(10000) * 10.0 ** np.random.default_rng(2).integers(-45, 37, 10000)
        np.testing.assert_array_equal(dtypes.round_float(x, "f32"), x.astype(np.float32).astype(np.float64))

    def test_reductions(self):
        x = np.arange(12.0).reshape(3, 4) - 5
        functions = {r.sum: np.sum, r.max: np.max, r.min: np.min, r.mean: np.mean,
                     r.amax: lambda v, **k: np.max(np.abs(v), **k), r.sum_of_squares: lambda v, **k: np.sum(v * v, **k),
                     r.logsumexp: lambda v, **k: np.log(np.sum(np.exp(v), **k))}
        for function, truth in functions.items():
            for keyword, axis in (({"axis": "row"}, 1), ({"axis": "column"}, 0), ({}, None), ({"axis": "all"}, None),
                                  ({"dim": -1}, 1), ({"dim": 0}, 0), ({"dim": (0, 1)}, None), ({"dim": [-2]}, 0)):
                self.same(function(f32(x), **keyword), truth(x, axis=axis, keepdims=True) + 0.0, tolerance=1e-10)
        batched = f32(np.ones((2, 3, 4)))
        self.assertEqual(r.sum(batched).shape, (1, 1, 1))
        self.assertEqual(r.sum(batched, axis="row").shape, (2, 3, 1))
        self.assertEqual(r.sum(batched, axis="column").shape, (2, 1, 4))
        self.assertEqual(r.sum(batched, dim=0).shape, (1, 3, 4))
        for bad in (dict(dim=2), dict(dim=-3), dict(axis="rows"), dict(dim=0, axis="row"), dict(dim=(1, -1)), dict(dim=())):
            with self.assertRaises(r.LanguageError):
                r.sum(f32(x), **bad)
        self.same(r.sum(f32([1.0, 2.0]), axis="row"), [3.0])
        for bad in (lambda: r.sum(f32([1.0]), axis="column"), lambda: r.sum(f32(1.0))):
            with self.assertRaises(r.LanguageError):
                bad()

    def test_reductions_of_nothing_and_special_values(self):
        empty = f32(np.zeros((2, 0)))
        for function, value in ((r.sum, 0.0), (r.max, -INF), (r.min, INF), (r.mean, NAN), (r.amax, 0.0),
                                (r.sum_of_squares, 0.0), (r.logsumexp, -INF)):
            self.same(function(empty, axis="row"), [[value], [value]])
        self.same(r.max(integer(np.zeros((1, 0)), "i8")), [[-128]], "i8")
        self.same(r.min(integer(np.zeros((1, 0)), "u8")), [[255]], "u8")
        for function in (r.max, r.min, r.amax, r.sum, r.mean, r.logsumexp):
            self.assertTrue(np.isnan(function(f32([[1.0, NAN, 3.0]])).array).all())
        self.same(r.logsumexp(f32([[-INF, -INF]])), [[-INF]])
        self.same(r.logsumexp(f32([[INF, 1.0]])), [[INF]])
        self.same(r.logsumexp(f32([[1000.0, 1000.0]])), [[1000 + math.log(2)]])
        self.same(r.sum(integer([[2**31 - 1, 1]])), [[-(2**31)]], "i32")
        self.same(r.sum(boolean([[True, True, False]])), [[2]], "i32")
        self.same(r.mean(integer([[1, 2]])), [[1.5]])

    def test_layout(self):
        x = f32(np.arange(8.0).reshape(2, 4))
        left, right = r.split(x, 2, dim=-1)
        self.same(left, [[0.0, 1], [4, 5]])
        self.same(r.join(left, right, dim=-1), x.array)
        self.same(r.join(left, right, interleave=True), [[0.0, 2, 1, 3], [4, 6, 5, 7]])
        self.same(r.join(*r.split(x, 2, dim=0), dim=0), x.array)
        self.same(r.permute(x, (1, 0)), x.array.T)
        self.same(r.permute(x, indices=(1, 0)), x.array.T)
        self.same(r.reshape(x, (-1, 2, 2)), x.array.reshape(2, 2, 2))
        self.same(r.reshape(x, new_shape=(8,)), x.array.reshape(8))
        with self.assertRaises(r.LanguageError):
            r.split(x, 3)

    def test_index_functions(self):
        text = ("def f(accum, bias):\n"
                "    a = r.row_index() * 10 + r.col_index() + r.batch_index() * 100\n"
                "    b = where(col_index() <= row_index(), accum, 0)\n"
                "    c = col_index() + bias\n"
                "    left, right = split(accum, 2)\n"
                "    d = left * 0 + col_index()\n"
                "    e = sum(where(row_index() > 0, 1, 0), axis='column')\n"
                "    return a, b, c, d, e\n").replace("r.", "")
        out = r.run_epilogue(text, f32(np.ones((2, 3, 4))), {"bias": integer([1, 2, 3, 4])})
        rows, columns, items = (np.arange(n).reshape(s) for n, s in ((3, (3, 1)), (4, (1, 4)), (2, (2, 1, 1))))
        np.testing.assert_array_equal(out["a"].array, items * 100 + rows * 10 + columns)
        self.assertEqual(out["a"].dtype, "i64")
        np.testing.assert_array_equal(out["b"].array, np.broadcast_to(np.tril(np.ones((3, 4))), (2, 3, 4)))
        np.testing.assert_array_equal(np.broadcast_to(out["c"].array, (1, 4)), [[1, 3, 5, 7]])
        np.testing.assert_array_equal(out["d"].array, np.broadcast_to([0, 1], (2, 3, 2)))
        np.testing.assert_array_equal(out["e"].array, np.full((2, 1, 4), 2))
        self.assertEqual(r.run_epilogue("def f(accum): i = batch_index(); D = accum + i; return D", f32([[1.0]]), {})["D"]
                         .array.tolist(), [[1.0]])

    def test_dropout(self):
        known = [[int(w) for w in r.philox4x32(c, k)] for c, k in (
            ([0, 0, 0, 0], [0, 0]),
            ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2),
            ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]))]
        self.assertEqual(known, [  # the known answers published with Random123
            [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]])
        x = f32(np.ones((100, 200)))
        kept = r.dropout(x, 0.25, 7).array
        self.assertEqual(set(np.unique(kept)), {0.0, 1 / 0.75})
        self.assertLess(abs((kept == 0).mean() - 0.25), 0.02)
        np.testing.assert_array_equal(kept, r.dropout(x, 0.25, 7).array)
        self.assertFalse(np.array_equal(kept, r.dropout(x, 0.25, 7 + (1 << 32)).array))
        np.testing.assert_array_equal(r.dropout(x, 0.0, 7).array, 1.0)
        np.testing.assert_array_equal(r.dropout(x, 1.0, 7).array, 0.0)
        for p in (1.5, -0.5, NAN):
            self.assertRaises(r.LanguageError, r.dropout, x, p, 7)
        self.assertRaises(TypeError, r.max, x, 0)  # the dim is named
        self.assertTrue(np.isnan(r.dropout(f32([[NAN]]), 0.0, 1).array).all())
        words = [int(w) for w in r.philox4x32([50, 0, 0, 0], [7, 0])]  # elements [1, 0] to [1, 3], the 201st and on
        self.assertEqual([v != 0 for v in kept[1, :4]], [(w >> 8) * 2.0**-24 >= 0.25 for w in words])

    def test_rounding_modes(self):
        x = r.bind([[1.0]], "bf16")
        with r.rounding("each_op"):
            self.assertEqual((x / 10).array[0, 0], float(np.float32(0.1)))
        with r.rounding("as_unfused"):
            self.assertEqual(((x / 10).dtype, (x / 10).array[0, 0]), ("bf16", 0.10009765625))
            self.assertEqual((x + r.bind([[1.0]], "f16")).dtype, "f32")
        self.assertEqual((x / 10).array[0, 0], 0.1)

    def test_constants(self):
        text = "def f(accum): D = where(accum > 0, accum, -inf); E = where(accum > 0, accum, nan); return D, E"
        out = r.run_epilogue(text, f32([[1.0, -2.0]]), {})
        self.same(out["D"], [[1.0, -INF]])
        self.same(out["E"], [[1.0, NAN]])
        self.assertEqual((r.inf, math.isnan(r.nan)), (INF, True))

    def test_running(self):
        accum = f32([[1.0, -2.0]])
        self.same(r.run_epilogue("def f(accum, c): D = relu(accum + c); return D", accum, {"c": f32([0.5])})["D"], [[1.5, 0.0]])
        two = "def g(x): y = x * 2; return y\ndef f(accum): D = g(accum); return D, accum\n"
        self.assertEqual(list(r.run_epilogue(two, accum, {})), ["D", "accum"])
        self.same(r.accumulate(integer([[127, 127]], "i8"), integer([[127], [127]], "i8")), [[32258]], "i32")

    def test_judging_written_cases(self):
        example = check_examples.Example(check_examples.EXAMPLES / "requantize_int8.py")
        case = check_examples.Case(example, "i8", {"M": 5, "N": 4, "K": 3})
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            case.write(folder, case.solve())
            self.assertEqual(check_examples.judge(folder), (0, [f"{case.name}: D is missing"]))
            right = r.store(case.run()["D"], "i8")
            result = folder / case.name / "D.npy"
            dtypes.write_npy(result, right, "i8")
            self.assertEqual(check_examples.judge(folder), (1, []))
            right[2, 1] ^= 2
            dtypes.write_npy(result, right, "i8")
            self.assertIn("1 of 20 differ, first at [2, 1]", check_examples.judge(folder)[1][0])
            dtypes.write_npy(result, right[:3], "i8")
            self.assertIn("shape [3, 4]", check_examples.judge(folder)[1][0])
            dtypes.write_npy(result, right, "i16")
            self.assertIn("is not a row-major i8", check_examples.judge(folder)[1][0])

    def test_digits(self):
        folder = check_examples.EXAMPLES.parent / "digits"
        shipped = {n: dtypes.read_npy(folder / f"{n}.npy", "f32") for n in ("w1", "b1", "w2", "b2")}
        for name, (array, dtype) in dtypes.read_safetensors(folder / "digits.safetensors").items():
            self.assertEqual(dtype, "f32")
            np.testing.assert_array_equal(array, shipped[name])
        x = f32(dtypes.read_npy(folder / "held_out_images.npy", "f32"))
        labels = dtypes.read_npy(folder / "held_out_labels.npy", "u8")
        self.assertEqual((x.shape, labels.shape), ((360, 64), (360,)))
        for text, w, b in (("hidden.py", "w1", "b1"), ("scores.py", "w2", "b2")):
            accum = r.accumulate(x, f32(shipped[w]))
            x = r.run_epilogue((folder / text).read_text(), accum, {"bias": f32(shipped[b])})["D"]
        self.assertGreaterEqual(np.mean(x.array.argmax(axis=1) == labels), 0.97)

    def test_examples(self):
        count = 0
        for case in check_examples.cases():
            case.verify(case.solve())
            count += 1
        self.assertGreaterEqual(count, 100)


if __name__ == "__main__":
    unittest.main()
