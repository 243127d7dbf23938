# SPDX-License-Identifier: Apache-2.0
"""The NumPy reference of programs against the compiler: dtypes and values of what is made of literals, moved, and meets a
type only then. Argument: the built command."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1)
try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian: python3-numpy)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import codetta_dtypes as dtypes  # noqa: E402
import codetta_program_reference as p  # noqa: E402
import codetta_reference as r  # noqa: E402

# x is f32[3, 3], h bf16[3, 3], u u8[3, 3] and i i64[3, 3].
EXPRESSIONS = [
    "transpose(full(300, 3, 3)) + u", "squeeze(full(300, 1), 0) + u[:1, :1]", "unsqueeze(full(300, 3), 0) + u", "full(3, 3) + h",
    "permute(full(7, 3, 3), (1, 0)) * u", "reshape(full(7, 9), (3, 3)) * u", "reshape(full(2.5, 9), (3, 3)) * u",
    "full(1, 3, 3) + (x > 0)", "full(True, 3, 3) + (x > 0)", "(full(True, 3, 3) & (x > 0)) + 1", "full(2.5, 3, 3) * i",
    "take(full(7, 4), arange(3)) + u", "take(full(0.5, 4), arange(3)) + h", "gather(full(7, 3, 3), full(0, 3, 3), dim=1) - u",
    "concat(full(1, 3), full(2, 3)) * take(u[0], full(1, 1))", "concat(full(1, 3), full(2.5, 3)) * x[0, :1]",
    "concat(full(1, 1, 3), u)", "concat(full(300, 1, 3), u)", "concat(full(0.5, 1, 3), h)", "join(full(300, 3, 3), u, dim=0)",
    "sum(full(100, 3), dim=0) + u", "mean(full(3, 3, 3), dim=0) * x", "max(full(300, 3), dim=0) + u", "sum(full(0.1, 3), dim=0) * h",
    "relu(full(2**40, 3)) + cast(x, i32)", "abs(full(-300, 3)) + u", "full(2**40, 3, 3) + 1 + i", "-full(1, 3) + u", "full(7, 3) // 2 + u",
    "exp(full(1, 3)) * x", "~(full(1, 3) < 2) + x", "where(x > 0, full(1, 3, 3), 2)", "where(x > 0, full(1, 3, 3), 2.5)",
    "where(x > 0, 2**40, full(1, 3))", "where(full(True, 3), x, 2)", "index_put(full(0.0, 4), arange(2), h[:2, 0])",
    "index_put(h[0], arange(2), full(0.5, 2))", "index_put(full(1, 4), arange(2), full(2, 2), accumulate=True) + u[0, :1]",
    "scatter(full(1, 3, 3), full(0, 1, 1), u[:1, :1], dim=1)", "full(300, 6)[:3] + u",
    "expand(2, 3, 3) * u", "u + 300", "u + full(300, 1)", "full(1.5, 3)[1:2] + i", "where(exp(0) < 2, u, 300)", "u + ~True", "u + ~False", "x + (True ^ ~False)", "where(~(1 < 2), u, 300)", "x + 7 / 2", "clamp(u, full(3, 3), 300)", "x / full(3, 3)", "i / full(3, 3)",
]
CONTROL = '''
def below(k, y):
    return k < 3
def step(k, y):
    return k + 1, y * 2.0
def forever(k, y, z):
    return k < 2
def three(k, y, z):
    return 2 + 0 * k, 4, full(7, 3)
def number(a):
    return 2
def fraction(a):
    return 2.5
def typed(a):
    return a + 1
def f(x: f32[3, 3], h: bf16[3, 3], u: u8[3, 3], i: i64[3, 3]):
    k, y = while_loop(below, step, 0, x)
    c0 = k + u + i
    c1, c2, c3 = while_loop(forever, three, 0, 2**40, full(300, 3))
    c4 = c1 + u
    c5 = c3 + u
    c6 = c2 + u
    c7 = cond(x[0, 0] > 0, number, typed, u[0, 0])
    c8 = cond(x[0, 0] > 0, typed, number, u[0, 0])
    c9 = cond(x[0, 0] > 0, fraction, typed, h[0, 0])
    c10 = cond(x[0, 0] > 0, number, number, x)
    c11 = cond(x[0, 0] > 0, number, typed, 300)
    c12, rest = split(full(300, 6), 2)
    d12 = c12 + u
    return y, c0, c4, c5, c6, c7, c8, c9, c10, c11, d12
'''


class TypesTest(unittest.TestCase):
    def compare(self, text):
        random = np.random.default_rng()
        operands = {"x": (random.integers(-40, 40, (3, 3)) / 8, "f32"), "h": (random.integers(-40, 40, (3, 3)) / 8, "bf16"),
                    "u": (random.integers(0, 256, (3, 3)), "u8"), "i": (random.integers(-99, 99, (3, 3)), "i64")}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program, archive = folder / "p.py", folder / "results.safetensors"
            program.write_text(text)
            command = [COMMAND, "run", program, "--no-compiler", "--no-cache"]
            for operand, (array, dtype) in operands.items():
                dtypes.write_npy(folder / f"{operand}.npy", array, dtype)
                command += ["--tensor", f"{operand}={folder / operand}.npy"]
            values = {n: r.bind(array, dtype) for n, (array, dtype) in operands.items()}
            wanted = p.run_program(text, values)
            for output in wanted:
                command += ["--out", f"{output}={archive}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            results = dtypes.read_safetensors(archive)
        lines = text.splitlines()
        for output, value in wanted.items():
            array, dtype = results[output]
            line = next((s.strip() for s in lines if s.strip().startswith(output + " =")), output)
            self.assertEqual(value.dtype, dtype, line)
            if dtypes.is_float(dtype):
                np.testing.assert_allclose(array, np.broadcast_to(value.array, array.shape), rtol=1e-6, err_msg=line)
            else:
                np.testing.assert_array_equal(array, np.broadcast_to(value.array, array.shape), line)

    def test_literals_that_are_moved(self):
        names = [f"y{n}" for n in range(len(EXPRESSIONS))]
        body = "".join(f"    {n} = {e}\n" for n, e in zip(names, EXPRESSIONS))
        self.compare(f"def f(x: f32[3, 3], h: bf16[3, 3], u: u8[3, 3], i: i64[3, 3]):\n{body}    return {', '.join(names)}\n")

    def test_literals_that_are_carried(self):
        self.compare(CONTROL)


if __name__ == "__main__":
    unittest.main()
