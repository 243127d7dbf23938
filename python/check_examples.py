# SPDX-License-Identifier: Apache-2.0
"""Runs every example epilogue under CPython with random data, and writes the cases for the C++ side.

  check_examples.py               runs examples/epilogues/*.py in all their dtypes and checks shapes, dtypes and rounding
  check_examples.py --write DIR   also writes one folder a case: case.json, operands as .npy and operands.safetensors,
                                  and for each output NAME.expected.npy and NAME.bound.npy (both f64):
                                  a result is right where |result - expected| <= bound (NaN only where expected is NaN)
  check_examples.py --judge DIR   judges the results that a program has put as NAME.npy beside NAME.expected.npy

Every example carries one machine-readable comment line, of blank-separated items:
  # bind: C=tensor[M,N]:T alpha=scalar:0.5 D=out[M,N]:T types=f32,bf16 N=64
  NAME=tensor[SHAPE]:DTYPE[:DATA]  a tensor operand; a size is a number, M, N, K or batch, or SYMBOL/NUMBER
  NAME=scalar:NUMBER               a host scalar, typed as the C++ interface does: with a point f32 (f64 where the
                                   accumulator is), else i32, or i64 where it needs that, from 2^63 on u64
  NAME=out[SHAPE]:DTYPE            an output; D is also the GEMM's `out`
  types=...                        element types of A and B (u8 means A u8 with B i8); default f32
  M= N= K= batch=                  fixes a size; with batch= the product is batched
DTYPE T is A's type; acc is the accumulator's. DATA is normal (the default), positive (>= 0.1), tiny (0.005 to 0.05) or integers (-4 to 4).
Files in failing/ also have `# expect: HEADLINE`, the first words of the message that they must provoke.
"""
import argparse
import ast
import json
import pathlib
import re
import sys
import zlib

import numpy as np

import codetta_reference as reference
from codetta_dtypes import DTYPES, FLOATS, INTS, is_float, read_npy, round_float, write_npy, write_safetensors

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples" / "epilogues"
SIZES = [{"M": 33, "N": 48, "K": 40}, {"M": 1, "N": 17, "K": 64}, {"M": 64, "N": 1, "K": 3}]


class Example:
    """One example file: its text and what its comment lines say."""

    def __init__(self, path):
        self.path, self.name, self.text = path, path.stem, path.read_text()
        lines = re.findall(r"^# bind: (.*)$", self.text, re.M)
        if len(lines) != 1:
            raise ValueError(f"{path}: needs exactly one '# bind:' line")
        expect = re.findall(r"^# expect: (.*)$", self.text, re.M)
        self.expect = expect[0] if expect else None
        self.tensors, self.scalars, self.outputs = {}, {}, {}
        self.types, self.fixed = ["f32"], {}
        for item in lines[0].split():
            name, _, value = item.partition("=")
            form = re.fullmatch(r"(tensor|out)\[([^\]]*)\]:(\w+)(?::(\w+))?", value)
            if form and form[1] == "tensor":
                self.tensors[name] = (form[2], form[3], form[4] or "normal")
            elif form:
                self.outputs[name] = (form[2], form[3])
            elif value.startswith("scalar:"):
                number = value.removeprefix("scalar:")
                real = re.search(r"[.eE]", number)
                self.scalars[name] = float(number) if real else int(number)
            elif name == "types":
                self.types = value.split(",")
            elif name in ("M", "N", "K", "batch"):
                self.fixed[name] = int(value)
            else:
                raise ValueError(f"{path}: '{item}' is not understood")
        self._check_names()

    def _check_names(self):
        """CPython allows what Codetta rejects: a name of the language must not be defined again."""
        for node in ast.walk(ast.parse(self.text)):
            name = getattr(node, "name", None) or getattr(node, "arg", None) if not isinstance(node, ast.keyword) else None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            if name in reference.__all__:
                raise ValueError(f"{self.path}: '{name}' is a name of the language")


def shape_of(text, sizes):
    def size(term):
        symbol, _, divisor = term.partition("/")
        value = sizes[symbol] if symbol in sizes else int(symbol)
        return value // int(divisor) if divisor else value
    return tuple(size(t.strip()) for t in text.split(",")) if text.strip() else ()


def random_data(rng, shape, dtype, kind="normal"):
    """Random values of a dtype, as the reference holds them."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTS:
        info = np.iinfo(INTS[dtype])
        return rng.integers(max(info.min, -1000), min(info.max, 1000) + 1, shape).astype(INTS[dtype])
    x = rng.standard_normal(shape)
    if kind == "positive":
        x = np.abs(x) + 0.1
    elif kind == "tiny":
        x = rng.uniform(0.005, 0.05, shape)
    elif kind == "integers":
        x = rng.integers(-4, 5, shape).astype(np.float64)
    return round_float(x, dtype)


def accumulator_of(dtype):
    return "i32" if dtype in INTS else ("f64" if dtype == "f64" else "f32")


def scalar_dtype(value, operand_dtype):
    if isinstance(value, float):
        return "f64" if operand_dtype == "f64" else "f32"
    return "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"


class Case:
    """An example with data: operands, exact outputs and the bound of what a kernel may deviate."""

    def __init__(self, example, dtype, sizes):
        self.example, self.dtype, self.sizes = example, dtype, {**sizes, **example.fixed}
        shape = "x".join(str(self.sizes[s]) for s in ("batch", "M", "N", "K") if s in self.sizes)
        self.name = f"{example.name}-{dtype}-{shape}"
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        batch = (self.sizes["batch"],) if "batch" in self.sizes else ()
        m, n, k = (self.sizes[s] for s in "MNK")
        b_dtype = "i8" if dtype == "u8" else dtype
        self.operands = {"A": (random_data(rng, batch + (m, k), dtype), dtype),
                         "B": (random_data(rng, batch + (k, n), b_dtype), b_dtype)}
        named = {"T": dtype, "acc": accumulator_of(dtype)}
        for name, (text, kind, data) in example.tensors.items():
            kind = named.get(kind, kind)
            self.operands[name] = (random_data(rng, shape_of(text, self.sizes), kind, data), kind)
        self.outputs = {name: (shape_of(text, self.sizes), named.get(kind, kind))
                        for name, (text, kind) in example.outputs.items()}
        self.scalars = {name: (value, scalar_dtype(value, dtype)) for name, value in example.scalars.items()}
        self.rng = rng

    def run(self, error=None):
        """{output: Value}; error: added to the accumulator."""
        a, b = (reference.Value(*self.operands[x]) for x in "AB")
        accum = reference.accumulate(a, b)
        if error is not None and is_float(accum.dtype):
            accum = reference.Value(accum.array + error, accum.dtype)
        operands = {n: reference.Value(*v) for n, v in self.operands.items() if n not in "AB"}
        operands.update({n: reference.bind(v, t) for n, (v, t) in self.scalars.items()})
        return reference.run_epilogue(self.example.text, accum, operands)

    def solve(self):
        """{output: (expected, bound)} in f64, in the output's shape, with a check that the example says what it returns."""
        exact = self.run()
        if sorted(exact) != sorted(self.outputs):
            raise AssertionError(f"{self.name}: returns {sorted(exact)} but binds {sorted(self.outputs)}")
        deviations = {n: np.zeros_like(v.array, dtype=np.float64) for n, v in exact.items()}
        if is_float(self.dtype):
            unit = 2.0 ** -(FLOATS[accumulator_of(self.dtype)][0] + 1)
            a, b = (np.abs(self.operands[x][0]) for x in "AB")
            error = (self.sizes["K"] + 1) * unit * np.matmul(a, b)
            runs = [self.run(error * sign) for sign in (1, -1)]
            runs += [self.run(error * self.rng.choice([-1.0, 1.0], error.shape)) for _ in range(2)]
            self._widen(deviations, exact, runs, 2)
        with reference.rounding("each_op"):
            self._widen(deviations, exact, [self.run()], 8)
        return {n: self._finish(n, exact[n], deviations[n]) for n in self.outputs}

    @staticmethod
    def _widen(deviations, exact, runs, factor):
        for values in runs:
            for name, value in values.items():
                if is_float(value.dtype):
                    difference = np.abs(value.array - exact[name].array)
                    deviations[name] = np.maximum(deviations[name], factor * difference)

    def _finish(self, name, value, deviation):
        shape, dtype = self.outputs[name]
        raw = np.asarray(value.array, np.float64)
        stored = np.asarray(reference.store(value, dtype, shape), np.float64)
        raw, deviation = (np.broadcast_to(x, shape) if x.size != np.prod(shape) else x.reshape(shape)
                          for x in (raw, deviation))
        if not is_float(value.dtype):
            return stored, np.zeros(shape)
        steps = 2.0 ** -(FLOATS[value.dtype][0] - 3)
        bound = deviation + steps * np.abs(raw)
        if dtype in INTS:
            info = np.iinfo(INTS[dtype])
            return np.clip(raw, info.min, info.max), bound + 0.5
        if not is_float(dtype):
            return stored, (np.abs(raw) <= bound).astype(np.float64)
        mantissa, exponent, largest, saturates = FLOATS[dtype]
        bound = bound + 2.0 ** -(mantissa + 1) * (np.abs(raw) + bound) + 2.0 ** (exponent - mantissa - 1)
        return (np.clip(raw, -largest, largest) if saturates else raw), bound

    def verify(self, solved):
        """What the reference itself must satisfy."""
        values = self.run()
        for name, (expected, bound) in solved.items():
            shape, dtype = self.outputs[name]
            stored = np.asarray(reference.store(values[name], dtype, shape), np.float64)
            problem = None
            if expected.shape != shape:
                problem = f"has shape {expected.shape}, bound as {shape}"
            elif not np.isfinite(expected).all():
                problem = "is not finite"
            elif (np.abs(stored - expected) > bound).any():
                problem = "differs from its own stored value by more than the bound"
            elif min(self.sizes["M"], self.sizes["N"]) > 1 and stored.size > 40 and np.unique(stored).size < 2:
                problem = "is constant, so it would prove nothing"
            elif is_float(dtype) and np.median(bound) > 0.3 * np.median(np.abs(expected)) + 1e-3:
                problem = "has a bound so wide that it would prove nothing"
            if problem:
                raise AssertionError(f"{self.name}: {name} {problem}")

    def write(self, folder, solved):
        folder = folder / self.name
        folder.mkdir(parents=True, exist_ok=True)
        for name, (array, dtype) in self.operands.items():
            write_npy(folder / f"{name}.npy", array, dtype)
        write_safetensors(folder / "operands.safetensors", self.operands)
        for name, (expected, bound) in solved.items():
            write_npy(folder / f"{name}.expected.npy", expected, "f64")
            write_npy(folder / f"{name}.bound.npy", bound, "f64")
        description = {
            "example": self.example.name, "epilogue": f"examples/epilogues/{self.example.path.name}",
            "sizes": self.sizes, "accumulator": accumulator_of(self.dtype),
            "operands": {n: {"file": f"{n}.npy", "dtype": t, "shape": list(np.shape(a))}
                         for n, (a, t) in self.operands.items()},
            "scalars": {n: {"value": v, "dtype": t} for n, (v, t) in self.scalars.items()},
            "outputs": {n: {"expected": f"{n}.expected.npy", "bound": f"{n}.bound.npy", "dtype": t, "shape": list(s)}
                        for n, (s, t) in self.outputs.items()},
        }
        (folder / "case.json").write_text(json.dumps(description, indent=1) + "\n")


def cases():
    """All cases: each example in each of its types and in all sizes that it leaves free."""
    for path in sorted(EXAMPLES.glob("*.py")):
        example = Example(path)
        names = []
        for dtype in example.types:
            if dtype not in DTYPES:
                raise ValueError(f"{path}: {dtype} is not a dtype")
            for sizes in SIZES:
                case = Case(example, dtype, sizes)
                if case.name not in names:
                    names.append(case.name)
                    yield case


def judge(folder):
    """Compares the results in a folder of written cases: (outputs judged, messages about those that are wrong)."""
    count, wrong = 0, []
    for description in sorted(folder.glob("*/case.json")):
        case = json.loads(description.read_text())
        for name, output in case["outputs"].items():
            where = f"{description.parent.name}: {name}"
            path = description.parent / f"{name}.npy"
            if name in case["operands"] or not path.exists():
                wrong.append(f"{where} is missing")
                continue
            count += 1
            try:
                result = np.asarray(read_npy(path, output["dtype"]), np.float64)
            except (ValueError, IndexError, KeyError) as error:
                wrong.append(f"{where}: {error}")
                continue
            expected, bound = (read_npy(description.parent / output[x], "f64") for x in ("expected", "bound"))
            if result.shape != expected.shape:
                wrong.append(f"{where} has shape {list(result.shape)}, not {list(expected.shape)}")
                continue
            with np.errstate(invalid="ignore"):
                right = (np.abs(result - expected) <= bound) | (result == expected) | (np.isnan(result) & np.isnan(expected))
            if not right.all():
                at = tuple(int(i) for i in np.argwhere(~right)[0])
                wrong.append(f"{where}: {np.count_nonzero(~right)} of {right.size} differ, first at {list(at)}: "
                             f"{result[at]}, expected {expected[at]} within {bound[at]:.3g}")
    return count, wrong


def main():
    parser = argparse.ArgumentParser(description="Runs the example epilogues under CPython.")
    parser.add_argument("--write", type=pathlib.Path, metavar="DIR", help="write the cases for the C++ side")
    parser.add_argument("--only", default="", help="examples whose name contains this text")
    parser.add_argument("--judge", type=pathlib.Path, metavar="DIR", help="judge results among written cases")
    arguments = parser.parse_args()
    if arguments.judge:
        judged, wrong = judge(arguments.judge)
        print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
        print(f"{judged} outputs judged, {len(wrong)} wrong")
        return 1 if wrong or not judged else 0
    count, examples, failed = 0, set(), 0
    for case in cases():
        if arguments.only not in case.example.name:
            continue
        try:
            solved = case.solve()
            case.verify(solved)
        except Exception as error:  # every example is tried, whatever happens in one
            print(f"FAILED {case.name}: {error}", file=sys.stderr)
            failed += 1
            continue
        if arguments.write:
            case.write(arguments.write, solved)
        count += 1
        examples.add(case.example.name)
    failing = [Example(p) for p in sorted((EXAMPLES / "failing").glob("*.py"))]
    for example in failing:
        if not example.expect:
            print(f"FAILED {example.path}: needs an '# expect:' line", file=sys.stderr)
            failed += 1
    print(f"{len(examples)} examples, {count} cases, {len(failing)} that must fail in Codetta, {failed} failures")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
