# SPDX-License-Identifier: Apache-2.0
"""Libraries that `codetta build` makes: built, called from C11, C++ and ctypes, loaded and unloaded, and refused.
Usage: aot_test.py <codetta> <cc> <c++> <source folder> <work folder>"""

import ctypes
import itertools
import json
import math
import pathlib
import platform
import random
import re
import shutil
import struct
import subprocess
import unittest

from aot_support import CC, CODETTA, CXX, DIGITS, F32, Library, NEEDED, SOURCE, Tensor, WORK, build, codetta, floats, main, npy, npy_data, quick, run, tensor
from commit_slice import of_this_commit
from quick_compiler import quick_compiler


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path, _ = build(DIGITS / "classifier.py", "digits", "--weights", DIGITS / "digits.safetensors",
                            "--embed-weights", optimized=True)

    def test_size_exports_and_needs(self):
        size = self.path.stat().st_size
        print(f"\nlibdigits.so: {size} bytes")
        self.assertLessEqual(size, 1_000_000)
        exported = run("nm", "-D", "--defined-only", self.path).stdout.split()[2::3]
        self.assertEqual(sorted(exported), sorted(json.loads((WORK / "digits.json").read_text())["exports"]))
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", self.path).stdout):
            self.assertRegex(name, NEEDED)
        self.assertNotIn("codetta", run("readelf", "-d", self.path).stdout.replace("libcodetta_", ""))

    def test_example_in_c(self):
        program = WORK / "digits"
        run(CC, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", SOURCE / "examples/aot/digits.c", "-I", WORK, "-o",
            program, "-L", WORK, "-ldigits", "-Wl,-rpath," + str(WORK))
        print(run(program, DIGITS).stdout.strip())
        cut = WORK / "cut"
        cut.mkdir(exist_ok=True)
        (cut / "held_out_labels.npy").write_bytes((DIGITS / "held_out_labels.npy").read_bytes())
        (cut / "held_out_images.npy").write_bytes((DIGITS / "held_out_images.npy").read_bytes()[:3000])
        self.assertIn("bytes of images for 360 labels", run(program, cut, code=1).stderr)

    def test_header_in_cxx_and_threads(self):
        program = WORK / "threads"
        run(CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", SOURCE / "tests/package/aot/threads.cpp", "-I", WORK, "-o",
            program, "-L", WORK, "-ldigits", "-Wl,-rpath," + str(WORK))
        print(run(program).stdout.strip())

    def test_thousand_loads(self):
        for name, flags, times in (("leaks", [], 1000), ("leaks_asan", ["-fsanitize=address", "-g"], 100)):
            program = WORK / name
            made = run(CC, "-std=c11", "-O1", *flags, SOURCE / "tests/package/aot/leaks.c", "-o", program, "-ldl", code=None)
            if made.returncode != 0 and flags:
                continue  # no sanitizer runtime on this machine
            self.assertEqual(made.returncode, 0, made.stderr)
            print(run(program, self.path, times).stdout.strip())

    def test_same_bits_as_in_process(self):
        library = Library(self.path, "digits")
        images = npy_data(DIGITS / "held_out_images.npy")
        for batch in (1, 2, 7, 64, 360):
            npy(WORK / "x.npy", (batch, 64), struct.unpack(f"<{batch * 64}f", images[:batch * 256]))
            codetta("run", DIGITS / "classifier.py", "--tensor", f"x={WORK / 'x.npy'}",
                    *sum((["--tensor", f"{n}={DIGITS / n}.npy"] for n in ("w1", "b1", "w2", "b2")), []),
                    "--out", f"scores={WORK / 'scores.npy'}")
            scores = floats(batch * 10)
            x = floats(images[:batch * 256])
            maths = ctypes.CDLL("libm.so.6")
            nearest = maths.fegetround()
            # However the calling thread rounds: upward, downward (as <fenv.h> has them for x86 and AArch64).
            for rounding in (nearest, *((0x800, 0x400) if platform.machine() == "x86_64" else (0x400000, 0x800000))):
                ctypes.memset(scores, 0xFF, ctypes.sizeof(scores))
                self.assertEqual(maths.fesetround(rounding), 0)
                status, after = library("classifier", x, scores, ctypes.c_int64(batch), None), maths.fegetround()
                maths.fesetround(nearest)
                self.assertEqual((status, after), (0, rounding), library.text())
                self.assertEqual(bytes(scores), npy_data(WORK / "scores.npy"), f"batch {batch}, rounding {rounding}")

    def test_arguments(self):
        library = Library(self.path, "digits")
        x, scores = floats(4 * 64 + 1), floats(4 * 10 + 1)
        n = ctypes.c_int64
        cases = [((None, scores, n(4), None), -1, "x is null"),
                 ((x, None, n(4), None), -1, "scores is null"),
                 ((x, scores, n(-1), None), -1, "negative size -1"),
                 ((ctypes.c_void_p(ctypes.addressof(x) + 2), scores, n(4), None), -1, "x is misaligned"),
                 ((x, scores, n(2**60), None), -1, "exceeds 2^63"),
                 ((x, x, n(4), None), -3, "output scores")]
        for arguments, status, text in cases:
            self.assertEqual(library("classifier", *arguments), status, library.text())
            self.assertIn(text, library.text())
        self.assertEqual(list(scores), [-7.0] * 41)
        self.assertEqual(library("classifier", None, None, n(0), None), 0, library.text())

    def test_tensors(self):
        library = Library(self.path, "digits")
        x, scores = floats(5 * 70), floats(5 * 12)
        for i in range(len(x)):
            x[i] = random.uniform(-1, 1)
        call = lambda *t: library("classifier_tensors", (Tensor * len(t))(*t), ctypes.c_int32(len(t)), None, ctypes.c_int64(0), None)
        dense = floats(b"".join(bytes(x)[r * 280:r * 280 + 256] for r in range(5)))
        expected = floats(50)
        self.assertEqual(library("classifier", dense, expected, ctypes.c_int64(5), None), 0)
        self.assertEqual(call(tensor(x, (5, 64), strides=(70, 1)), tensor(scores, (5, 10), strides=(12, 1))), 0, library.text())
        for r in range(5):
            self.assertEqual(list(scores[r * 12:r * 12 + 10]), list(expected[r * 10:r * 10 + 10]))
            self.assertEqual(list(scores[r * 12 + 10:r * 12 + 12]), [-7.0, -7.0])
        self.assertEqual(call(tensor(x, (0, 64), strides=(64, 2)), tensor(scores, (0, 10), strides=(0, 0))), 0, library.text())
        for tensors, status, text in [
                ((tensor(x, (5, 64)), tensor(scores, (4, 10))), -2, "batch is 4 here but 5 elsewhere"),
                ((tensor(x, (5, 63)), tensor(scores, (5, 10))), -2, "f32[5, 63]"),
                ((tensor(x, (5, 64), dtype=14), tensor(scores, (5, 10))), -1, "f64[5, 64]"),
                ((tensor(x, (5, 64), dtype=99), tensor(scores, (5, 10))), -1, "99"),
                ((tensor(x, (5, 64)),), -1, "1 tensors are given"),
                ((tensor(x, (5, 64)), tensor(scores, (5, 10), strides=(0, 1))), -3, "overlaps itself"),
                ((tensor(x, (5, 64)), tensor(scores, (5, 5), strides=(10, 2))), -2, "scores"),
                ((tensor(x, (64,)), tensor(scores, (5, 10))), -1, "x does not fit: it is f32[64], of rank 1; the program takes rank 2"),
                ((tensor(x, (2, 2, 64)), tensor(scores, (2, 10))), -1, "of rank 3; the program takes rank 2"),
                ((tensor(x, (5, 64)), tensor(scores, (10,))), -1, "scores does not fit: it is f32[10], of rank 1; the program takes rank 2"),
                ((tensor(x, ()), tensor(scores, (5, 10))), -1, "of rank 0; the program takes rank 2")]:
            self.assertEqual(call(*tensors), status, library.text())
            self.assertIn(text, library.text())

    def test_workspace(self):
        library = Library(self.path, "digits")
        size = library("classifier_workspace_size", ctypes.c_int64(300))
        self.assertGreaterEqual(size, 300 * 128 * 4)
        self.assertLess(library("classifier_workspace_size", ctypes.c_int64(-3)), 0)
        memory = ctypes.create_string_buffer(size + 64)
        base = (ctypes.addressof(memory) + 63) // 64 * 64
        x, scores = floats(300 * 64), floats(300 * 10)
        tensors = (Tensor * 2)(tensor(x, (300, 64)), tensor(scores, (300, 10)))
        for place, given, status in ((base, size, 0), (base, size - 1, -5), (base + 8, size, -5)):
            got = library("classifier_tensors", tensors, ctypes.c_int32(2), ctypes.c_void_p(place), ctypes.c_int64(given), None)
            self.assertEqual(got, status, library.text())

    def test_same_bytes_again(self):
        again = WORK / "again"
        again.mkdir(exist_ok=True)
        codetta("build", DIGITS / "classifier.py", "-o", again / "libdigits.so", "--by-size", "1", "--weights", DIGITS / "digits.safetensors",
                "--embed-weights", "--no-cache")
        for name in ("libdigits.so", "digits.h", "digits.json"):
            self.assertEqual((WORK / name).read_bytes(), (again / name).read_bytes(), name)
        shown = codetta("build", DIGITS / "classifier.py", "-o", WORK / "libdigits.so", "--show").stdout
        self.assertIn("// classifier.py:4: hidden = relu(x @ w1 + b1)", shown)
        self.assertEqual(shown, codetta("build", DIGITS / "classifier.py", "-o", WORK / "libdigits.so", "--show").stdout)


class Weights(unittest.TestCase):
    def test_mapped(self):
        folder = WORK / "mapped"
        folder.mkdir(exist_ok=True)
        weights = folder / "digits.safetensors"
        shutil.copy(DIGITS / "digits.safetensors", weights)
        path, _ = build(DIGITS / "classifier.py", "beside", "--weights", weights)
        x = floats(npy_data(DIGITS / "held_out_images.npy")[:256])
        good = weights.read_bytes()
        one = ctypes.c_int64(1)
        scores = floats(10)
        library = Library(path, "beside")
        weights.rename(folder / "away")
        self.assertEqual(library("classifier", x, scores, one, None), -7)
        self.assertIn("digits.safetensors cannot be read", library.text())
        header = struct.unpack("<Q", good[:8])[0]
        text = good[8:8 + header]
        cases = [(good[:5], "no safetensors file"), (good[:len(good) - 100], "truncated"),
                 (struct.pack("<Q", 1 << 40) + good[8:], "truncated"),
                 (good[:8] + b"[" + good[9:], "header of the weights is damaged"),
                 (good[:8] + text.replace(b'"w1"', b'"q1"') + good[8 + header:], "lack the tensor w1"),
                 (good[:8] + text.replace(b"[64,128]", b"[32,256]").replace(b"[64, 128]", b"[32, 256]") + good[8 + header:], "f32[32, 256]"),
                 (good[:8] + text.replace(b'"F32"', b'"I32"') + good[8 + header:], "is I32")]
        for data, wanted in cases:
            weights.write_bytes(data)
            self.assertEqual(library("load_weights", str(weights).encode()), -7)
            self.assertIn(wanted, library.text())
        self.assertEqual(library("load_weights", None), -1)
        self.assertEqual(library("load_weights", str(folder / "away").encode()), 0, library.text())
        self.assertEqual(library("classifier", x, scores, one, None), 0, library.text())
        self.assertEqual(library("load_weights", str(folder / "away").encode()), -7)
        embedded, _ = build(DIGITS / "classifier.py", "embedded", "--weights", DIGITS / "digits.safetensors", "--embed-weights")
        expected = floats(10)
        self.assertEqual(Library(embedded, "embedded")("classifier", x, expected, one, None), 0)
        self.assertEqual(bytes(scores), bytes(expected))

    def test_beside_the_library(self):
        folder = WORK / "beside"
        folder.mkdir(exist_ok=True)
        codetta("build", DIGITS / "classifier.py", "-o", folder / "libnear.so", "--weights", DIGITS / "digits.safetensors", "--compiler", quick())
        shutil.copy(DIGITS / "digits.safetensors", folder / "digits.safetensors")
        x, scores = floats(64), floats(10)
        library = Library(folder / "libnear.so", "near")
        self.assertEqual(library("classifier", x, scores, ctypes.c_int64(1), None), 0, library.text())

    def test_wrong_constants(self):
        npy(WORK / "narrow.npy", (64, 127), [0.0] * 64 * 127)
        npy(WORK / "double.npy", (128,), [0.0] * 128, "d")
        for options, code, text in [
                (["--constant", f"w1={WORK / 'narrow.npy'}"], "E0221", "f32[64, 127]"),
                (["--constant", f"b1={WORK / 'double.npy'}"], "E0221", "f64[128]"),
                (["--constant", f"w3={DIGITS / 'w1.npy'}"], "E0209", "no program has a tensor w3"),
                (["--constant", f"w1={DIGITS / 'w1.npy'}", "--constant", f"w1={DIGITS / 'w1.npy'}"], "E0210", "twice"),
                (["--weights", WORK / "nowhere.safetensors"], "E0620", "nowhere")]:
            errors = build(DIGITS / "classifier.py", "wrong", *options, code=None)
            text_of = errors[1].stderr if isinstance(errors, tuple) else errors
            self.assertIn(code, text_of)
            self.assertIn(text, text_of)
        self.assertFalse((WORK / "libwrong.so").exists() or (WORK / "wrong.h").exists())


PROGRAMS = {
    "scaled": ("def scaled(x: f32['m', 'k'], w: f32['k', 24], c: f32['m', 24], alpha: f32):\n"
               "    y = alpha * (x @ w) + c\n    return y\n", {"x": ("m", "k"), "w": ("k", 24), "c": ("m", 24)}, ["alpha"],
               {"y": ("m", 24)}),
    "rows": ("def rows(x: f32['m', 16], w: f32[16, 'n'], r: f32['m', 1]):\n"
             "    h = silu(x @ w) * r\n    s = sum(h, dim=-1)\n    t = max(h, dim=-1)\n    return h, s, t\n",
             {"x": ("m", 16), "w": (16, "n"), "r": ("m", 1)}, [], {"h": ("m", "n"), "s": ("m",), "t": ("m",)}),
    "batched": ("def batched(x: f32['a', 3, 'm', 16], w: f32['a', 3, 16, 'n'], b: f32['n']):\n"
                "    y = relu(x @ w + b)\n    z = transpose(y) @ x\n    return y, z\n",
                {"x": ("a", 3, "m", 16), "w": ("a", 3, 16, "n"), "b": ("n",)}, [],
                {"y": ("a", 3, "m", "n"), "z": ("a", 3, "n", 16)}),
    "tail": ("def tail(x: f32['m', 16], w: f32[16, 'n']):\n    y = x[m // 2:] * 2.0 - x[:m - m // 2]\n"
             "    z = relu(y @ w)[:, n // 3:]\n    s = sum(x[m // 2:], dim=0)\n    return y, z, s\n",
             {"x": ("m", 16), "w": (16, "n")}, [], {"y": ("m2", 16), "z": ("m2", "n2"), "s": (1, 16)}),
    "column": ("def column(x: f32['m', 'k'], w: f32['k', 1], v: f32['b', 1, 'k'], u: f32['b', 'k', 1]):\n"
               "    y = abs(x @ w)\n    z = tanh(v @ u)\n    return y, z\n",
               {"x": ("m", "k"), "w": ("k", 1), "v": ("b", 1, "k"), "u": ("b", "k", 1)}, [], {"y": ("m", 1), "z": ("b", 1, 1)}),
    "three": ("def three(x: f32['b', 20], u: f32[20, 40], v: f32[40, 40], w: f32[40, 4]):\n"
              "    p = gelu(x @ u)\n    q = tanh(p @ v) + p\n    z = q @ w\n    return p, z\n",
              {"x": ("b", 20), "u": (20, 40), "v": (40, 40), "w": (40, 4)}, [], {"p": ("b", 40), "z": ("b", 4)}),
}


W = {"g": (256,), "w_gate": (256, 768), "w_up": (256, 768), "w_down": (768, 256)}
EXAMPLES = {
    "attention": ({"q": ("heads", "s", 64), "k": ("heads", "t", 64), "v": ("heads", "t", 64)},
                  {"context": ("heads", "s", 64)},
                  [{"heads": 3, "s": 20, "t": 33}, {"heads": 1, "s": 1, "t": 1}, {"heads": 2, "s": 70, "t": 1},
                   {"heads": 0, "s": 5, "t": 5}]),
    "llama_block": ({"x": ("b", "s", 256), "attention_weight": (256,), "wq": (256, 256), "wk": (256, 256), "wv": (256, 256),
                     "wo": (256, 256), "cosines": ("s", 16), "sines": ("s", 16), "mlp_weight": (256,), "w_gate": (256, 768),
                     "w_up": (256, 768), "w_down": (768, 256)}, {"y": ("b", "s", 256)},
                    [{"b": 2, "s": 16}, {"b": 1, "s": 1}, {"b": 5, "s": 1}, {"b": 1, "s": 37}]),
    "grouped_query_attention": ({"x": ("b", "s", 256), "wq": (256, 256), "wk": (256, 64), "wv": (256, 64), "wo": (256, 256),
                                 "cosines": ("s", 1, 16), "sines": ("s", 1, 16)}, {"y": ("b", "s", 256)},
                                [{"b": 2, "s": 16}, {"b": 1, "s": 1}, {"b": 3, "s": 5}]),
    "norm_mlp": ({"x": ("m", 256), "g": (256,), "b": (256,), "w1": (256, 1024), "b1": (1024,), "w2": (1024, 256)},
                 {"y": ("m", 256)}, [{"m": 8}, {"m": 1}, {"m": 67}]),
    "swiglu": ({"x": ("m", 256), **W}, {"y": ("m", 256)}, [{"m": 8}, {"m": 1}, {"m": 67}]),
}
NORMAL = [random.gauss(0, 1) for _ in range(1 << 16)]


def normal(count):
    start = random.randrange(len(NORMAL))
    return ((NORMAL[start:] + NORMAL[:start]) * (count // len(NORMAL) + 1))[:count]


class Examples(unittest.TestCase):
    """The programs of examples/programs: one library for all sizes, the bits of runs in process."""

    def test_same_bits(self):
        for name in of_this_commit(EXAMPLES, 2):
            inputs, outputs, all_sizes = EXAMPLES[name]
            hints = sum((["--hint", f"{symbol}={size}"] for symbol, size in all_sizes[0].items()), [])
            path, _ = build(SOURCE / f"examples/programs/{name}.py", name, *hints)
            library = Library(path, name)
            for sizes in all_sizes:
                self.compare(name, library, inputs, outputs, sizes, hints)

    def compare(self, name, library, inputs, outputs, sizes, hints):
        def of(shape):
            return tuple(sizes.get(s, s) for s in shape)

        arguments, options, results = [], [], {}
        for argument, shape in inputs.items():
            scale = 1 if argument in ("x", "q", "k", "v") else 0.05
            values = [scale * v for v in normal(math.prod(of(shape)))]
            arguments.append(floats(npy(WORK / f"{argument}.npy", of(shape), values)))
            options += ["--tensor", f"{argument}={WORK / argument}.npy"]
        for output, shape in outputs.items():
            results[output] = floats(math.prod(of(shape)))
            options += ["--out", f"{output}={WORK / output}_expected.npy"]
        codetta("run", SOURCE / f"examples/programs/{name}.py", *options, *hints)
        status = library(name, *arguments, *results.values(), *(ctypes.c_int64(size) for size in sizes.values()), None)
        self.assertEqual(status, 0, library.text())
        for output, got in results.items():
            self.assertEqual(bytes(got), npy_data(WORK / f"{output}_expected.npy"), f"{name}.{output} for {sizes}")

    def test_all_build(self):
        # What is loaded and never called need not be optimized; what runs is, here and in examples_checked.
        quickest = quick_compiler(CXX, SOURCE, WORK / "quickest", kernels=True)
        for name in of_this_commit(sorted(path.stem for path in (SOURCE / "examples/programs").glob("*.py")), 4):
            path, _ = build(SOURCE / f"examples/programs/{name}.py", "all_" + name, "--compiler", quickest)
            self.assertEqual(Library(path, "all_" + name)("init"), 0, name)

    def test_against_the_oracle(self):
        for name in of_this_commit([*EXAMPLES, "causal_attention", "weight_only_int8", "weight_only_int4", "weight_only_fp8", "decode", "mixture_of_experts",
                                    "lstm", "cross_entropy", "unet", "state_space", "beam_search"], 4):
            done = codetta("run", SOURCE / f"examples/programs/{name}.py", "--check", "--json", "--seed", "3")
            self.assertEqual(json.loads(done.stdout)["check"]["verdict"], "pass", done.stdout)


class CodettaTensor(ctypes.Structure):
    pass


Release = ctypes.CFUNCTYPE(None, ctypes.POINTER(CodettaTensor))
CodettaTensor._fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8),
                          ("rank", ctypes.c_int32), ("dtype", ctypes.c_int32), ("device", ctypes.c_int32),
                          ("reserved", ctypes.c_int32), ("release", Release), ("owner", ctypes.c_void_p)]
Extern = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(CodettaTensor), ctypes.c_int,
                          ctypes.POINTER(CodettaTensor), ctypes.c_int)
CALLING = """def more(i, x):
    return i < 3

def turn(i, x):
    h, k = call_extern("halves", x, out=("f32[m, 4]", "f32[m, 4]"), form="alloc")
    return i + 1, k + call_extern("scale", x, 0.5, out="f32[m, 4]")

def calls(x: f32["m", 4], a: bf16):
    s = call_extern("scale", x, a, out="f32[m, 4]")
    h, k = call_extern("halves", s, out=("f32[m, 4]", "f32[m, 4]"), form="alloc")
    i, z = while_loop(more, turn, 0, x)
    y = relu(h) + k
    return y, z
"""


class CallersFunctions(unittest.TestCase):
    def setUp(self):
        self.path, _ = build(CALLING, "calling")
        self.library = Library(self.path, "calling")
        self.kept, self.given_back, self.seen = {}, 0, set()

        def element(tensor, i):
            row, column = i // 4 * tensor.strides[0], i % 4 * tensor.strides[1]
            return ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_float))[row + column]

        def scale(context, inputs, input_count, outputs, output_count):
            self.seen.add((context, input_count, output_count, inputs[1].rank, inputs[1].dtype))
            if inputs[1].dtype == 12:  # the upper half of a float
                bits = ctypes.cast(inputs[1].data, ctypes.POINTER(ctypes.c_uint16))[0]
                by = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
            else:
                by = ctypes.cast(inputs[1].data, ctypes.POINTER(ctypes.c_double))[0]  # a number of the text
            out = ctypes.cast(outputs[0].data, ctypes.POINTER(ctypes.c_float))
            for i in range(inputs[0].shape[0] * 4):
                out[i // 4 * outputs[0].strides[0] + i % 4 * outputs[0].strides[1]] = element(inputs[0], i) * by
            return 0

        def halves(context, inputs, input_count, outputs, output_count):
            rows = inputs[0].shape[0]
            for o in range(2):  # the first lies column by column
                values = [element(inputs[0], i) for i in range(rows * 4)]
                data = (ctypes.c_float * (rows * 4 + 1))()
                for i, value in enumerate(values):
                    data[i % 4 * rows + i // 4 if o == 0 else i] = value * 0.5 if o == 0 else value - 1.0
                address = ctypes.addressof(data)
                self.kept[address] = data
                outputs[o].data, outputs[o].rank, outputs[o].dtype = address, 2, F32
                outputs[o].shape[:2] = (rows, 4)
                outputs[o].strides[:2] = (1, rows) if o == 0 else (4, 1)
                outputs[o].release = self.release
            return 0

        def release(tensor):
            del self.kept[tensor[0].data]
            self.given_back += 1

        self.release, self.scale, self.halves = Release(release), Extern(scale), Extern(halves)

    def test_calls(self):
        library = self.library
        rows = 5
        x, y, z = floats(rows * 4), floats(rows * 4), floats(rows * 4)
        for i in range(rows * 4):
            x[i] = i - 7.0

        def call():
            return library("calls", x, ctypes.c_float(2.5), y, z, ctypes.c_int64(rows), None)
        self.assertEqual(call(), -9)
        self.assertIn("E0616: external function scale is not provided; pass it to calling_set_extern_scale", library.text())
        self.assertEqual(list(y), [-7.0] * (rows * 4), "nothing is written")
        self.assertEqual(library("set_extern_scale", self.scale, ctypes.c_void_p(1234)), 0)
        self.assertEqual(library("set_extern_halves", self.halves, None), 0)
        for _ in range(2):
            self.assertEqual(call(), 0, library.text())
            for i in range(rows * 4):
                self.assertEqual(y[i], max(x[i] * 2.5 * 0.5, 0.0) + x[i] * 2.5 - 1.0)
                expected = x[i]
                for _ in range(3):
                    expected = expected - 1.0 + expected * 0.5
                self.assertEqual(z[i], expected)
        self.assertEqual(self.seen, {(1234, 2, 1, 0, 12), (1234, 2, 1, 0, 14)})
        self.assertEqual((len(self.kept), self.given_back), (0, 16), "all that was allocated is given back, once")
        failing = Extern(lambda *arguments: 77)
        self.assertEqual(library("set_extern_scale", failing, None), 0)
        self.assertEqual(call(), -9)
        self.assertIn("E0617: external function scale failed: it returned 77", library.text())

        def wrong(context, inputs, input_count, outputs, output_count):
            self.halves(context, inputs, input_count, outputs, output_count)
            outputs[1].dtype = 14
            return 0
        kept = Extern(wrong)
        self.assertEqual(library("set_extern_scale", self.scale, None), 0)
        self.assertEqual(library("set_extern_halves", kept, None), 0)
        self.assertEqual(call(), -9)
        self.assertIn("is not what the program declares", library.text())
        self.assertEqual(len(self.kept), 0)

    def test_header_and_manifest(self):
        both = ['#include "codetta/extern.h"\n', '#include "calling.h"\n']
        for i, includes in enumerate((both, both[::-1], both[1:])):
            (WORK / f"calling_main{i}.c").write_text(
                "".join(includes) + "static int scale(void* c, const CodettaTensor* i, int n, CodettaTensor* o, int m) {\n"
                "  int64_t sizes[CODETTA_MAX_RANK] = {0};\n  (void)c; (void)n; (void)o;\n"
                "  for (int d = 0; d < CODETTA_MAX_RANK; ++d) sizes[d] = i[0].shape[d];\n"
                "  return m == 1 && sizes[0] >= 0 ? 0 : 1;\n}\n"
                "int main(void) { return calling_set_extern_scale(scale, 0); }\n")
        for options in ([CC, "-std=c11"], [CXX, "-std=c++17", "-x", "c++"]):
            for i in range(3):
                run(*options, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", WORK, "-I", SOURCE / "include",
                    WORK / f"calling_main{i}.c")
            run(*options, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c" if options[0] == CC else "c++",
                WORK / "calling.h")
        externs = json.loads((WORK / "calling.json").read_text())["programs"][0]["externs"]
        self.assertEqual({one["setter"] for one in externs}, {"calling_set_extern_scale", "calling_set_extern_halves"})

    def test_not_for_metal(self):
        errors = build(CALLING, "refused", "--target", "metal", code=1)
        self.assertIn("E0311", errors)


class UserKernels(unittest.TestCase):
    def same_bits(self, program, sources, function, inputs, output, sizes, *more):
        kernels = [*more, *sum((["--kernel", f"{name}={source}"] for name, source in sources.items()), [])]
        library, arguments, options = Library(build(program, program.stem, *kernels)[0], program.stem), [], []
        for name, shape in inputs.items():
            if shape == ():
                arguments.append(ctypes.c_float(0.5))
                options += ["--scalar", f"{name}=0.5"]
                continue
            values = [random.gauss(0, 1) for _ in range(math.prod(shape))]
            arguments.append(floats(npy(WORK / f"sums_{name}.npy", shape, values)))
            options += ["--tensor", f"{name}={WORK / f'sums_{name}.npy'}"]
        result = floats(math.prod(output))
        codetta("run", program, *kernels, *options, "--out", f"y={WORK / 'sums_expected.npy'}")
        arguments += [result, *(ctypes.c_int64(size) for size in sizes)]
        self.assertEqual(library(function, *arguments, None), 0, library.text())
        self.assertEqual(bytes(result), npy_data(WORK / "sums_expected.npy"))

    def test_same_bits(self):
        folder = SOURCE / "examples/user_kernel"
        inputs = {"x": (5, 16), "w": (16, 24), "decay": (), "v": (24, 8)}
        self.same_bits(folder / "program.py", {"running_sums": folder / "running_sums.cc"}, "user_kernel_between", inputs,
                       (5, 8), [5])
        inputs = {"x": (5, 19), "decay": (), "gate": (5, 19), "bias": (19,)}
        self.same_bits(folder / "hooked.py", {"running_sums": folder / "hooked_sums.cc"}, "user_kernel_with_hook", inputs,
                       (5, 19), [5, 19])

    def test_clang(self):
        """Kernels of one library, made by Clang: two of the user's and two of Codetta's."""
        clang = shutil.which("clang++-19") or shutil.which("clang++")
        if clang is None:
            self.skipTest("there is no Clang")
        (WORK / "layers.py").write_text(
            "def layers(x: f32['m', 16], w: f32[16, 24], decay: f32, v: f32[24, 24]):\n"
            "    h = gelu(x @ w)\n    s = user_kernel('running_sums', h, decay, out='f32[m, 24]')\n    t = tanh(s) * h\n"
            "    u = user_kernel('running_sums', silu(t @ v), decay, out='f32[m, 24]')\n    y = u - t\n    return y\n")
        self.same_bits(WORK / "layers.py", {"running_sums": SOURCE / "examples/user_kernel/hooked_sums.cc"}, "layers",
                       {"x": (5, 16), "w": (16, 24), "decay": (), "v": (24, 24)}, (5, 24), [5], "--compiler", clang)

    def test_kernels_are_apart(self):
        """One source twice with other work behind it, and helpers of one name in two sources."""
        (WORK / "apart.py").write_text(
            "def apart(x: f32['m', 24], b: f32[24]):\n"
            "    s = user_kernel('first', x, out='f32[m, 24]')\n    t = relu(s + b)\n"
            "    u = user_kernel('first', t, out='f32[m, 24]')\n    v = tanh(u) * 0.5 - b\n"
            "    w = user_kernel('second', v, out='f32[m, 24]')\n    y = w + 1.0\n    return y\n")
        never = "__attribute__((noinline))"
        for name, factor in (("first", 2), ("second", 3)):
            (WORK / f"{name}.cc").write_text(
                f"#include <cmath>\n{never} float scale(float value) {{ return {factor} * value; }}\n"
                f"struct Shift {{ {never} float operator()(float value) const {{ return value + {factor}; }} }};\n"
                f"{never} inline float both(float value) {{ return Shift{{}}(scale(value)); }}\n"
                f"{never} inline void {name}(Tensor<const float, 2> x, Hook<float, 2> y) {{\n"
                "  for (int64_t r = 0; r < x.size(0); ++r)\n"
                "    for (int64_t c = 0; c < x.size(1); ++c) y.store(r, c, both(x(r, c)));\n}\n")
        self.same_bits(WORK / "apart.py", {name: WORK / f"{name}.cc" for name in ("first", "second")}, "apart",
                       {"x": (5, 24), "b": (24,)}, (5, 24), [5])

    def test_failures(self):
        text = "def f(x: f32['n']):\n    y = user_kernel(\"k\", x, out=\"f32[n]\")\n    return y\n"
        (WORK / "k.cc").write_text("int k(Tensor<const float, 1> x, Tensor<float, 1> y) {\n"
                                   "  if (x.size(0) == 3) return 42;\n"
                                   "  for (int64_t i = 0; i < x.size(0); ++i) y(i) = x(i) * 2;\n  return 0;\n}\n")
        path, _ = build(text, "failing", "--kernel", f"k={WORK / 'k.cc'}")
        library = Library(path, "failing")
        x, y = floats(4), floats(4)
        self.assertEqual(library("f", x, y, ctypes.c_int64(4), None), 0, library.text())
        self.assertEqual(list(y), [-14.0] * 4)
        self.assertEqual(library("f", x, y, ctypes.c_int64(3), None), -9)
        self.assertRegex(library.text(), r"E0617: kernel codetta_k_\w+ failed: it returned 42")
        (WORK / "bad.cc").write_text("void k(Tensor<const float, 1> x, Tensor<float, 1> y) {\n  y(0) = nothing;\n}\n")
        for kernel, wanted, code in ((f"k={WORK / 'bad.cc'}", "bad.cc:2", 1), (f"other={WORK / 'k.cc'}", "E0209", 1)):
            self.assertIn(wanted, build(text, "refused", "--kernel", kernel, code=code))
        self.assertIn("E0311", build(text, "refused", code=1))


class Others(unittest.TestCase):
    def test_same_bits(self):
        sizes = [{"m": 5, "k": 33, "n": 9, "b": 3, "a": 2}, {"m": 1, "k": 1, "n": 1, "b": 1, "a": 1},
                 {"m": 130, "k": 64, "n": 200, "b": 77, "a": 1}]
        # Every program, but each at one of the sizes.
        cases = [(name, sizes[(turn + i) % 3]) for turn, name in enumerate(PROGRAMS) for i in range(3)]
        for name, at in of_this_commit(cases, 3):
            self.compare(name, *PROGRAMS[name], at)

    def compare(self, name, text, inputs, scalars, outputs, sizes):
        sizes = {**sizes, "m2": sizes["m"] - sizes["m"] // 2, "n2": sizes["n"] - sizes["n"] // 3}

        def of(shape):
            return tuple(sizes.get(s, s) for s in shape)

        arguments, options, symbols, results = [], [], [], {}
        for shape in [*inputs.values(), *outputs.values()]:
            symbols += [s for s in shape if isinstance(s, str) and len(s) == 1 and s not in symbols]
        # A run in process picks its kernels for the sizes that it is given.
        path, _ = build(text, name, *sum((["--hint", f"{s}={sizes[s]}"] for s in symbols), []))
        folder = WORK / "copies"
        folder.mkdir(exist_ok=True)
        copy = folder / f"{name}_{sizes['m']}.so"  # the loader keeps libraries by their path
        shutil.copy(path, copy)
        library = Library(copy, name)
        for argument, shape in inputs.items():
            values = [random.gauss(0, 1) for _ in range(math.prod(of(shape)))]
            arguments.append(floats(npy(WORK / f"{argument}.npy", of(shape), values)))
            options += ["--tensor", f"{argument}={WORK / argument}.npy"]
        for scalar in scalars:
            arguments.append(ctypes.c_float(0.75))
            options += ["--scalar", f"{scalar}=0.75"]
        for output, shape in outputs.items():
            results[output] = floats(math.prod(of(shape)))
            options += ["--out", f"{output}={WORK / output}_expected.npy"]
        codetta("run", WORK / f"{name}.py", *options)
        status = library(name, *arguments, *results.values(), *(ctypes.c_int64(sizes[s]) for s in symbols), None)
        self.assertEqual(status, 0, library.text())
        for output, got in results.items():
            self.assertEqual(bytes(got), npy_data(WORK / f"{output}_expected.npy"), f"{name}.{output} for {sizes}")

    def test_empty_products_owe_reductions(self):
        path, _ = build(PROGRAMS["rows"][0], "rows")
        library = Library(path, "rows")
        x, w, r = floats(3 * 16), floats(1), floats(3)
        s, t = floats(3), floats(3)
        status = library("rows", x, w, r, None, s, t, ctypes.c_int64(3), ctypes.c_int64(0), None)
        self.assertEqual(status, 0, library.text())
        self.assertEqual(list(s), [0.0] * 3)
        self.assertEqual(list(t), [float("-inf")] * 3)

    def test_parts_without_elements(self):
        text = ("def parts(x: f32['m', 'n'], w: f32['n', 'k'], y: f32['m', 'n']):\n"
                "    h = x @ w\n    wide = concat(h, y, sum(h, dim=1), dim=1)\n    tall = concat(y[m // 2:], x)\n"
                "    return wide, tall\n")
        path, _ = build(text, "parts")
        library = Library(path, "parts")
        for m, n, k in itertools.product((0, 1, 2), (0, 1, 3), (0, 1, 2)):
            x, y, w = ([float(i % 7 - 3) for i in range(count)] for count in (m * n, m * n, n * k))
            wide, rows = [], m - m // 2 + m
            for i in range(m):
                h = [sum(x[i * n + j] * w[j * k + c] for j in range(n)) for c in range(k)]
                wide += h + y[i * n:(i + 1) * n] + [sum(h)]
            tall = y[m // 2 * n:] + x
            guard = [-7.0] * 32  # nothing is written behind the end
            results = [floats(len(want) + len(guard)) for want in (wide, tall)]  # filled with -7
            self.assertEqual(len(tall), rows * n)
            status = library("parts", *((ctypes.c_float * len(data))(*data) for data in (x, w, y)), *results,
                             *(ctypes.c_int64(size) for size in (m, n, k)), None)
            self.assertEqual(status, 0, library.text())
            for got, want in zip(results, (wide, tall)):
                self.assertEqual(list(got), want + guard, (m, n, k))

    def test_leading_dims_of_one(self):
        text = ("def placed(x: f32['n', 'm'], i: i64['n', 'k'], v: f32['n', 'k'], j: i64['n']):\n"
                "    y = scatter(x, i, v, dim=1)\n    z = index_put(x, j, x)\n    return y, z\n")
        path, _ = build(text, "placed")
        library = Library(path, "placed")
        i, j, x, v = [0, 2, 1, 0, 2, 1], [2, 0, 1], [float(n) for n in range(9)], [-1.0] * 6
        wanted = [-1.0, 1.0, -1.0, -1.0, -1.0, 5.0, 6.0, -1.0, -1.0], x[3:6] + x[6:] + x[:3]
        for lead in itertools.product((0, 1), repeat=6):
            arrays = [((ctypes.c_float * 9)(*x), (3, 3), F32), ((ctypes.c_int64 * 6)(*i), (3, 2), 4),
                      ((ctypes.c_float * 6)(*v), (3, 2), F32), ((ctypes.c_int64 * 3)(*j), (3,), 4),
                      (floats(9), (3, 3), F32), (floats(9), (3, 3), F32)]
            tensors = [tensor(array, (1,) * (2 * more) + shape, dtype) for more, (array, shape, dtype) in zip(lead, arrays)]
            status = library("placed_tensors", (Tensor * 6)(*tensors), 6, None, ctypes.c_int64(0), None)
            self.assertEqual(status, 0, library.text())
            self.assertEqual((list(arrays[4][0]), list(arrays[5][0])), wanted, lead)

    def test_indices_of_nothing_are_checked(self):
        text = ("def put(x: f32['n', 'm'], i: i64['k'], v: f32['k', 'm']):\n    y = index_put(x, i, v)\n    return y\n")
        path, _ = build(text, "put")
        library = Library(path, "put")
        for n, m, k, index, status in ((2, 0, 1, 1, 0), (2, 0, 1, 2, -1), (0, 0, 1, 0, -1), (0, 0, 0, 0, 0), (2, 3, 1, 2, -1)):
            x, v, y = (floats(max(count, 1)) for count in (n * m, k * m, n * m))
            sizes = (ctypes.c_int64(size) for size in (n, m, k))
            self.assertEqual(library("put", x, (ctypes.c_int64 * 1)(index), v, y, *sizes, None), status, library.text())

    def test_indices_into_nothing_unchecked(self):
        text = "def picked(x: f32['n', 4], i: i64[3]):\n    y = take(x, i, 0)\n    return y\n"
        path, _ = build(text, "nothing", "--no-checks")
        i, y = (ctypes.c_int64 * 3)(0, 5, -1), floats(12)
        library = Library(path, "nothing")
        self.assertEqual(library("picked", None, i, y, ctypes.c_int64(0), None), 0, library.text())
        self.assertEqual(list(y), [0.0] * 12)

    def test_several_functions_of_one_text(self):
        text = ("def first(x: f32['m', 8], w: f32[8, 8]):\n    y = x @ w\n    return y\n\n"
                "def second(x: f32['m', 8], w: f32[8, 8]):\n    y = relu(x @ w)\n    return y\n")
        path, _ = build(text, "pair", "--function", "first", "--function", "second", "--target", "cpu:avx2")
        library = Library(path, "pair")
        x, w = floats(16), floats(64)
        for i in range(16):
            x[i] = random.gauss(0, 1)
        for i in range(64):
            w[i] = float(i % 9 == 0)
        y, z = floats(16), floats(16)
        self.assertEqual(library("first", x, w, y, ctypes.c_int64(2), None), 0, library.text())
        self.assertEqual(library("second", x, w, z, ctypes.c_int64(2), None), 0, library.text())
        self.assertEqual(list(y), list(x))
        self.assertEqual(list(z), [max(v, 0.0) for v in x])

    def test_equal_layers_are_one_function(self):
        text = ("def twins(x: f32['m', 64], w: f32[64, 64], b: f32[64], v: f32[64, 64], c: f32[64]):\n"
                "    h = relu(x @ w + b)\n    y = relu(h @ v + c)\n    return y\n")
        path, _ = build(text, "twins", "--target", "cpu:avx2")
        shown = codetta("build", WORK / "twins.py", "-o", path, "--target", "cpu:avx2", "--by-size", "1", "--show").stdout
        # One for elements side by side, and one for elements apart; each is that of both layers.
        functions = re.findall(r'extern "C" void codetta_add_relu_(\w+)\(', shown)
        self.assertEqual((len(functions), len(set(functions))), (2, 2))
        self.assertEqual(shown.count(" = apart ? codetta_add_relu_"), 2)
        for line in ("// twins.py:2: h = relu(x @ w + b)", "// twins.py:3: y = relu(h @ v + c)"):
            self.assertEqual(shown.count(line + "\n"), 1)
        self.assertEqual(shown.count("// not in memory: matmul f32[m, 64], add f32[m, 64]\n"), 2)
        library = Library(path, "twins")
        x, y = floats(5 * 64), floats(5 * 64)
        weights = [floats(64 * 64), floats(64), floats(64 * 64), floats(64)]
        for i in range(64):  # each launch has its own: the diagonals are 1 and 2, what is added 3 and -4
            weights[1][i], weights[3][i] = 3.0, -4.0
            for j in range(64):
                weights[0][i * 64 + j], weights[2][i * 64 + j] = float(i == j), 2.0 * (i == j)
        for i in range(5 * 64):
            x[i] = random.gauss(0, 1)
        self.assertEqual(library("twins", x, *weights, y, ctypes.c_int64(5), None), 0, library.text())
        for have, value in zip(y, x):
            self.assertAlmostEqual(have, max(2.0 * max(value + 3.0, 0.0) - 4.0, 0.0), places=4)

    def test_tuned(self):
        _, done = build(PROGRAMS["three"][0], "tuned", "--tune", "--hint", "b=8", "--budget", "0.3")
        manifest = json.loads((WORK / "tuned.json").read_text())
        products = manifest["tuning"]["three"]["products"]
        self.assertEqual(len(products), 3)
        self.assertEqual(manifest["tuning"]["three"]["sizes"], {"b": 8})
        for product in products:
            best = min(product["measured"], key=lambda m: m["program_microseconds"])
            self.assertEqual(product["picked"], best["kernel"])

    def test_tuned_with_indices(self):
        text = ("def picked(t: f32[64, 256], i: i64['n'], w: f32[256, 256]):\n"
                "    y = relu(take(t, i, 0) @ w)\n    return y\n")
        build(text, "picked", "--tune", "--hint", "n=2048", "--budget", "0.3")
        products = json.loads((WORK / "picked.json").read_text())["tuning"]["picked"]["products"]
        for product in products:
            for measured in product["measured"]:  # 2^27 multiply-adds: less would be a run that was ended by an index
                self.assertGreater(measured["program_microseconds"], 5, measured)

    def test_machine_without_the_instructions(self):
        text = PROGRAMS["three"][0]
        for isa in ("amx", "avx512_bf16", "avx512", "avx2"):
            if f"cpu:{isa}" in run(CODETTA, "doctor", code=None).stdout:
                continue
            done = codetta("kernels", "--m", "4", "--n", "4", "--k", "4", "--target", f"cpu:{isa}", code=None)
            if done.returncode != 0:
                continue
            path, _ = build(text, "foreign", "--target", f"cpu:{isa}")
            library = Library(path, "foreign")
            if library("init") == 0:
                continue  # this machine has it
            self.assertEqual(library("init"), -6)
            self.assertIn(isa, library.text())
            return

    def test_refused_names(self):
        for text, name, wanted in [
                ("def f(double: f32['m', 8], w: f32[8, 8]):\n    y = double @ w\n    return y\n", "refused", "'double'"),
                ("def f(m: f32['m', 8], w: f32[8, 8]):\n    y = m @ w\n    return y\n", "refused", "the size 'm'"),
                ("def f(stream: f32['m', 8], w: f32[8, 8]):\n    y = stream @ w\n    return y\n", "refused", "parameter 'stream' cannot be public in a C header\nnote: f has a "
                 "parameter of this name of its own, behind the text's\n"),
                ("def f(x: f32['stream', 8], w: f32[8, 8]):\n    y = x @ w\n    return y\n", "refused", "the size 'stream' cannot be public in a C header\nnote: f has a parameter"),
                ("def init(x: f32['m', 8], w: f32[8, 8]):\n    y = x @ w\n    return y\n", "refused", "refused_init"),
                ("def f(x: f32['m', 8], w: f32[8, 8]):\n    y = x @ w\n    return y\n", "a-b;c", "'a-b;c'"),
                ("def f(x: f32['m', 8], w: f32[8, 8]):\n    y = x @ w\n    return y\n", "int", "'int'")]:
            errors = build(text, "refused", "--name", name, code=1)
            self.assertIn("E0230", errors)
            self.assertIn(wanted, errors)
        # That one is told before kernels are compiled.
        errors = build(text, "refused", "--name", "int", "--target", "hip:gfx942", code=1)
        self.assertIn("E0230", errors)
        self.assertNotIn("kernel 1", errors)
        self.assertFalse((WORK / "librefused.so").exists())

    def test_refused_outputs_and_targets(self):
        text = PROGRAMS["three"][0]
        good, _ = build(text, "kept")
        before = good.read_bytes()
        cases = [(["--header", WORK / "no" / "such.h"], 3, "E0543"), (["--manifest", WORK], 3, "E0543"),
                 (["--header", WORK / "libkept.so"], 2, "E0701"), (["--target", "metal", "--tune"], 1, "E0440"),
                 (["--engine-dir", WORK], 3, "E0541"), (["--hint", "b"], 2, "E0701"),
                 (["--hint", "b=99999999999999999999"], 2, "E0701"), (["--hint", "nope=3"], 1, "E0209"),
                 (["--hint", "nope=3", "--target", "metal"], 1, "E0209"), (["--hint", "b=3", "--hint", "b=3"], 1, "E0210"),
                 (["--benchmark", WORK / "b.py", "--target", "metal"], 1, "E0440"), (["--benchmark", WORK / "nowhere/b.py"], 3, "E0543"),
                 (["--hint", "b=3,4,"], 2, "E0701"), (["--hint", "b=3,4", "--target", "metal"], 1, "E0210"),
                 (["--hint", "b=" + ",".join(map(str, range(17)))], 2, "E0703"),
                 (["--hint", "nope=3", "--show"], 1, "E0209")]
        for options, code, wanted in cases:
            self.assertIn(wanted, build(text, "kept", *options, code=code), options)
        broken = WORK / "broken"
        broken.mkdir(exist_ok=True)
        folder = pathlib.Path(CODETTA).parent.parent / "codetta"
        for archive in folder.glob("*.a"):
            (broken / archive.name).write_bytes(b"!<arch>\n")
        self.assertIn("E0542", build(text, "kept", "--engine-dir", broken, code=3))
        self.assertEqual(good.read_bytes(), before)
        self.assertEqual([p.name for p in WORK.iterdir() if p.name.startswith(".tmp-")], [])

    def test_header_and_manifest_go_with_the_library(self):
        """Where the library cannot be written in the end, its new header does not stay, and an old one is not removed."""
        program, gone, beside = WORK / "gone.py", WORK / "gone", WORK / "beside"
        program.write_text(PROGRAMS["three"][0])
        beside.mkdir(exist_ok=True)
        header, manifest = beside / "k.h", beside / "k.json"
        manifest.write_text("former")
        gone.mkdir(exist_ok=True)
        with subprocess.Popen([CODETTA, "build", program, "-o", gone / "libk.so", "--header", header, "--manifest", manifest, "--no-cache"],
                              stderr=subprocess.PIPE, text=True) as building:
            first = building.stderr.readline()  # the outputs have been looked at, and nothing is compiled yet
            gone.rmdir()
            errors = first + building.stderr.read()
        self.assertEqual(building.returncode, 3, errors)
        self.assertIn("E0543", errors)
        self.assertFalse(header.exists())
        self.assertEqual(manifest.read_text(), "former")  # a new one would not go with the library that is there

    def test_killed_build_leaves_nothing_partial(self):
        folder = WORK / "killed"
        folder.mkdir(exist_ok=True)
        program = WORK / "killed.py"
        program.write_text(PROGRAMS["three"][0])
        for delay in (0.02, 0.1, 0.3, 0.6, 0.9):
            started = subprocess.Popen([CODETTA, "build", program, "-o", folder / "libk.so", "--no-cache"],
                                       stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            try:
                started.wait(delay)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
            library = folder / "libk.so"
            if library.exists():
                self.assertEqual(Library(library, "k")("init"), 0)
                self.assertIn("k_three(", (folder / "k.h").read_text())
                library.unlink()


if __name__ == "__main__":
    main()
