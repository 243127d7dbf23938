# SPDX-License-Identifier: Apache-2.0
"""Libraries with kernels for several sizes, the program that times a library, and programs as Python modules. Usage: aot_sizes_test.py, as of aot_test.py"""

import ctypes
import importlib.util
import json
import math
import random
import re
import struct
import sys
import unittest

from aot_support import Library, Tensor, WORK, build, codetta, floats, main, npy, npy_data, quick, run, tensor


PYTHON_USER = """
import sys
sys.path.insert(0, sys.argv[1])
import module, numpy as np
x, w, y, z = (np.load(f"{sys.argv[1]}/module_{name}.npy") for name in "xwyz")
got_y, got_z = np.full_like(y, 7), np.full_like(z, 7)
assert module.call(x, w, 0.5, got_y, got_z, int(sys.argv[2])) == 0, module.get_last_error()
assert got_y.tobytes() == y.tobytes() and got_z.tobytes() == z.tobytes()
assert module.call(x, w[:, :23], 0.5, got_y, got_z) == -1 and "E0610" in module.get_last_error(), module.get_last_error()
"""


class Made(unittest.TestCase):
    def test_benchmark(self):
        """The program that times a library finds it and its manifest, whatever the folders; equal seeds give equal results."""
        text = ("def first(x: bf16['m', '2*n'], i: i32['m'], a: f32, t: f16[3, 'n'], k: i64):\n"
                "    y = x * a + 1.0\n    z = take(t, i, 0) * k\n    return y, z\n\n"
                "def second(x: f64['m'], q: f8e4m3['m']):\n    y = x * 2.0 + q\n    return y\n")
        place = WORK / "bench marks"
        place.mkdir(exist_ok=True)
        _, done = build(text, "timed", "--function", "first", "--function", "second", "--benchmark", place / "bench.py")
        self.assertIn(f"benchmark {place / 'bench.py'}", done.stdout)
        shown = run(sys.executable, place / "bench.py", "m=5", "n=3", "seconds=0.01").stdout
        self.assertRegex(shown, r"(?m)^timed_first with m = 5, n = 3: median [0-9.]+ us, least [0-9.]+ us of \d+ samples; \d+ bytes")
        self.assertRegex(shown, r"(?m)^timed_second with m = 5: median ")
        self.assertRegex(shown, r"(?m)^  y: 40 bytes, digest [0-9a-f]{8}$")
        digests = re.findall("  .* digest .*", shown)
        self.assertEqual(len(digests), 3)
        again = run(sys.executable, place / "bench.py", "m=5", "n=3", "seconds=0.01", cwd=place).stdout
        self.assertEqual(re.findall("  .* digest .*", again), digests)
        other = run(sys.executable, place / "bench.py", "m=5", "seconds=0.01", "seed=2", "function=second").stdout
        self.assertNotEqual(re.findall("  .* digest .*", other), digests[2:])
        self.assertNotIn("timed_first", other)
        self.assertIn("sizes are m, n", run(sys.executable, place / "bench.py", "q=5", code=1).stderr)
        self.assertIn("usage:", run(sys.executable, place / "bench.py", "--help", code=1).stderr)
        self.assertIn("m is no number: five", run(sys.executable, place / "bench.py", "m=five", code=1).stderr)
        self.assertIn("seconds is no number: ", run(sys.executable, place / "bench.py", "seconds=", code=1).stderr)
        self.assertIn("negative size -1", run(sys.executable, place / "bench.py", "m=-1", "function=second", code=1).stderr)

    def test_constants_are_packed_once(self):
        """Where B is a constant, packing it costs no run: another kernel is chosen, in which it lies packed."""
        text = "def two(x: f32['m', 1024], w: f32[1024, 512]):\n    y = relu(x @ w)\n    return y\n"
        npy(WORK / "once_w.npy", (1024, 512), [float((7 * i + i // 512) % 5 - 2) for i in range(1024 * 512)])
        found = {}
        for name, more in (("given", []), ("constant", ["--constant", f"w={WORK / 'once_w.npy'}"])):
            path, _ = build(text, name, "--target", "cpu:avx2", "--threads", "1", "--hint", "m=16", *more)
            program = json.loads((WORK / f"{name}.json").read_text())["programs"][0]
            found[name] = program["plan"]["kernels"][0]["config"]["family"], [c["packed"] for c in program["constants"]], path
        self.assertEqual(found["given"][:2], ("in_place", []))
        self.assertEqual(found["constant"][:2], ("packed", [True]))
        x, y, z = floats(16 * 1024), floats(16 * 512), floats(16 * 512)
        w = floats((WORK / "once_w.npy").read_bytes()[-1024 * 512 * 4:])
        for i in range(16 * 1024):
            x[i] = float(i % 7 - 3)
        m = ctypes.c_int64(16)
        self.assertEqual(Library(found["given"][2], "given")("two", x, w, y, m, None), 0)
        self.assertEqual(Library(found["constant"][2], "constant")("two", x, z, m, None), 0)
        self.assertEqual(list(y), list(z))  # sums of small integers are exact
        self.assertGreater(max(y), 0)

    def test_sizes_that_constants_fix(self):
        """A size that a constant has is told of the caller's tensor that has another one."""
        text = "def f(x: f32['m', 'n'], w: f32['n', 8]):\n    y = relu(x @ w)\n    return y\n"
        npy(WORK / "fixes_w.npy", (16, 8), [1.0] * 128)
        path, _ = build(text, "fixes", "--constant", f"w={WORK / 'fixes_w.npy'}")
        library, (m, y) = Library(path, "fixes"), (3, floats(24))
        for columns, status in ((16, 0), (9, -2)):
            x = floats(m * columns)
            given = (Tensor * 2)(tensor(x, (m, columns)), tensor(y, (m, 8)))
            self.assertEqual(library("f_tensors", given, 2, None), status, library.text())
        self.assertEqual(library.text(), "E0610: n is 9 here but 16 elsewhere: dim 1 of x is f32[3, 9]")
        # Of constants that do not agree both are named, or both dims of one.
        npy(WORK / "fixes_v.npy", (24, 4), [1.0] * 96)
        text = "def f(x: f32['m', 'n'], w: f32['n', 8], v: f32['SIZE', 'k']):\n    y = (x @ w) * max(v)\n    return y\n"
        for size, wanted in (("n", "dim 0 has to be 16: n is 16 by dim 0 of w; give constants that agree"),
                             ("2*n", "dim 0 has to be 32: n is 16 by dim 0 of w; give constants that agree"),
                             ("k + n", "dim 0 has to be 20: k is 4 by dim 1 of v, n is 16 by dim 0 of w; give constants that agree"),
                             ("k", "dim 1 has to be 24: k is 24 by dim 0 of v; give constants that agree")):
            constants = [word for name in "wv" for word in ("--constant", f"{name}={WORK / f'fixes_{name}.npy'}")]
            errors = build(text.replace("SIZE", size), "disagree", *constants, code=1)
            self.assertIn("error[E0221]: the constant v does not fit its declared shape\n", errors)
            self.assertIn(f"help: {wanted}\n", errors)

    def test_slices_of_constants_are_packed_once(self):
        """Columns and matrices of a constant, too; what only packed products read is in the library in that form alone."""
        text = ("def parts(x: f32['m', 512], w: f32[512, 768], e: f32[5, 512, 256]):\n    q = relu(x @ w[:, :512])\n"
                "    k = x @ w[:, 512:]\n    t = x @ e[3] * 2.0\n    return q, k, t\n")
        shapes, raw = {"w": (512, 768), "e": (5, 512, 256)}, {}
        for name, shape in shapes.items():
            raw[name] = npy(WORK / f"slices_{name}.npy", shape, [float((7 * i + i // 256) % 5 - 2) for i in range(math.prod(shape))])
        header, end = {}, 0
        for name, shape in shapes.items():
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(raw[name])]}
            end += len(raw[name])
        head = json.dumps(header).encode()
        (WORK / "slices.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(raw.values()))
        constants = [word for name in shapes for word in ("--constant", f"{name}={WORK / f'slices_{name}.npy'}")]
        results, sizes, m = {}, {}, 16
        x = floats(m * 512)
        for i in range(m * 512):
            x[i] = float(i % 7 - 3)
        for name, more in (("raw", []), ("inside", constants), ("beside", ["--weights", WORK / "slices.safetensors"])):
            path, _ = build(text, f"slices_{name}", "--target", "cpu:avx2", "--threads", "1", "--hint", f"m={m}", *more)
            program = json.loads((WORK / f"slices_{name}.json").read_text())["programs"][0]
            self.assertEqual([c["packed"] for c in program["constants"]], [True, True] if more else [], name)
            q, k, t = floats(m * 512), floats(m * 256), floats(m * 256)
            given = [] if more else [floats(raw["w"]), floats(raw["e"])]
            library = Library(path, f"slices_{name}")
            self.assertEqual(library("parts", x, *given, q, k, t, ctypes.c_int64(m), None), 0, library.text())
            results[name], sizes[name] = [list(q), list(k), list(t)], path.stat().st_size
        self.assertEqual(results["inside"], results["raw"])  # sums of small integers are exact
        self.assertEqual(results["beside"], results["raw"])
        self.assertTrue(all(max(values) > 0 for values in results["raw"]))
        self.assertLess(sizes["inside"] - sizes["raw"], len(raw["w"]) + len(raw["e"]) // 2)

    def test_python_module(self):
        """`emit --what=python` gives a module that computes the bits of a run in process, and says what is wrong."""
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("there is no NumPy")
        text = WORK / "module_of.py"
        text.write_text("def two(x: f32['m', 48], w: f32[48, 24], a: f32):\n    h = gelu(x @ w) * a\n    y = softmax(h)\n"
                        "    z = sum(h, dim=0)\n    return y, z\n")
        module, w = WORK / "module.py", [random.gauss(0, 1) for _ in range(48 * 24)]
        npy(WORK / "module_w.npy", (48, 24), w)
        for target in ([], ["--target", "cpu:avx2"]):
            module.write_text(codetta("emit", text, "--what=python", "--hint", "m=5", *target).stdout)
            for m in (5, 1, 0, 70):
                npy(WORK / "module_x.npy", (m, 48), [random.gauss(0, 1) for _ in range(m * 48)])
                codetta("run", text, "--hint", "m=5", *target, "--tensor", f"x={WORK / 'module_x.npy'}", "--tensor",
                        f"w={WORK / 'module_w.npy'}", "--scalar", "a=0.5", "--out", f"y={WORK / 'module_y.npy'}", "--out",
                        f"z={WORK / 'module_z.npy'}", "--force")
                run(sys.executable, "-B", "-c", PYTHON_USER, WORK, str(m))
        hip = codetta("emit", text, "--what=python", "--target", "hip:gfx942", code=1).stderr
        self.assertIn("error[E0614]: package has no form as a Python module", hip)
        self.assertIn("E0503", codetta("emit", text, "--what=python", "--no-compiler", code=3).stderr)

    def test_numbers_of_python_modules(self):
        """They are rounded once, to what a run in process takes: halfway cases that two roundings, or an f64 between, would move."""
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("there is no NumPy")
        types = {"a": "bf16", "b": "f16", "c": "f8e4m3", "d": "f8e5m2", "e": "f32", "f": "f64"}
        text, x = WORK / "numbers_of.py", WORK / "numbers_of_x.npy"
        text.write_text("def numbers(x: f64[1], " + ", ".join(f"{name}: {dtype}" for name, dtype in types.items()) + "):\n" +
                        "".join(f"    y_{name} = where(x > 0.0, x, cast({name}, f64))\n" for name in types) +
                        "    return " + ", ".join(f"y_{name}" for name in types) + "\n")
        npy(x, (1,), [0.0], "d")
        (WORK / "numbers_module.py").write_text(codetta("emit", text, "--what=python").stdout)
        user = ("import sys\nsys.path.insert(0, sys.argv[1])\nimport numbers_module as module, numpy as np\n"
                "given = [int(word) if word.lstrip('-').isdigit() else float(word) for word in sys.argv[2:]]\n"
                "results = [np.full(1, 7.0) for _ in given]\n"
                "assert module.call(np.zeros(1), *given, *results) == 0, module.get_last_error()\n"
                "print(*(result[0].hex() for result in results))\n")
        halfway = 1 + 2.0**-8 + 2.0**-40  # just above, of bf16
        for number in (halfway, -halfway, 1 + 2.0**-11 + 2.0**-50, 1 + 2.0**-24 + 2.0**-52, 9.2e-41, 3.1e-8, -0.0, 0.1, 2**15 - 1,
                       -(2**8) - 1, random.gauss(0, 1)):
            self.assertEqual(*self.numbers(types, text, x, user, [repr(number)] * 6), number)
        large = str(9007199791611905)  # 2^53 + 2^29 + 1: above halfway of f32, and no f64
        self.assertEqual(*self.numbers(types, text, x, user, [large, "1", large, large, large, large]))

    def numbers(self, types, text, x, user, words):
        """What the module and the run make of them."""
        module = run(sys.executable, "-B", "-c", user, WORK, *words).stdout.split()
        results = {name: WORK / f"numbers_y_{name}.npy" for name in types}
        codetta("run", text, "--tensor", f"x={x}", *(f"--scalar={name}={word}" for name, word in zip(types, words)),
                *(f"--out=y_{name}={path}" for name, path in results.items()), "--force")
        return module, [struct.unpack("<d", npy_data(path))[0].hex() for path in results.values()]

    def test_kernels_by_size(self):
        """A call takes the kernels of the nearest of the hinted sizes: the same bits and workspace as alone."""
        text = ("def layer(x: f32['batch', 256], w: f32[256, 96], v: f32['s']):\n"
                "    y = relu(x @ w)\n    z = v * 2.0\n    return y, z\n")
        npy(WORK / "by_size_w.npy", (256, 96), [random.gauss(0, 1) for _ in range(256 * 96)])
        constant = ["--constant", f"w={WORK / 'by_size_w.npy'}"]
        small, large, both = (build(text, name, *constant, "--hint", "s=5", "--hint", hint)[0] for name, hint in
                              (("by_1", "batch=1"), ("by_512", "batch=512"), ("by_both", "batch=512,1")))
        table = json.loads((WORK / "by_both.json").read_text())["programs"]
        self.assertEqual(len(table), 1)
        self.assertEqual(table[0]["by_size"]["sizes"], [{"name": "batch", "for": [1, 512], "up_to": [22]}])
        self.assertEqual(table[0]["by_size"]["chosen"], [0, 1])
        self.assertEqual(len(table[0]["by_size"]["plans"]), 2)
        exported = run("nm", "-D", "--defined-only", both).stdout.split()[2::3]
        self.assertEqual(sorted(exported), sorted(json.loads((WORK / "by_both.json").read_text())["exports"]))
        self.assertEqual(sum("layer" in name for name in exported), 3)
        libraries = {name: Library(path, name) for name, path in (("by_1", small), ("by_512", large), ("by_both", both))}
        n = ctypes.c_int64
        workspaces = {name: [library("layer_workspace_size", n(batch), n(5)) for batch in (22, 23)]
                      for name, library in libraries.items()}
        self.assertNotEqual(workspaces["by_1"], workspaces["by_512"])
        self.assertEqual(workspaces["by_both"], [workspaces["by_1"][0], workspaces["by_512"][1]])
        for batch in (0, 1, 22, 23, 600):
            x, s = floats(max(batch * 256, 1)), floats(5)
            for i in range(batch * 256):
                x[i] = random.gauss(0, 1)
            alone = "by_1" if batch <= 22 else "by_512"
            results = []
            for name in (alone, "by_both"):
                y, z = floats(max(batch * 96, 1)), floats(5)
                self.assertEqual(libraries[name]("layer", x, s, y, z, n(batch), n(5), None), 0, libraries[name].text())
                results.append(bytes(y) + bytes(z))
            y, z = floats(max(batch * 96, 1)), floats(5)
            tensors = (Tensor * 4)(tensor(x, (batch, 256)), tensor(s, (5,)), tensor(y, (batch, 96)), tensor(z, (5,)))
            status = libraries["by_both"]("layer_tensors", tensors, ctypes.c_int32(4), None, n(0), None)
            self.assertEqual(status, 0, libraries["by_both"].text())
            self.assertEqual(results, [results[0]] * 2, f"batch {batch}")
            self.assertEqual(bytes(y) + bytes(z), results[0], f"batch {batch}")
        library = libraries["by_both"]
        self.assertEqual(library("layer_tensors", None, ctypes.c_int32(4), None, n(0), None), -1)
        self.assertEqual(library("layer", x, s, y, z, n(-1), n(5), None), -1, library.text())
        # Sizes whose kernels are the same share a program: the text has no table.
        same = codetta("build", WORK / "by_both.py", "-o", both, *constant, "--hint", "batch=512,513", "--show").stdout
        self.assertNotIn("by sizes", same)

    def test_a_size_of_which_there_are_multiples_alone(self):
        """Tensors say the size that the caller says, in whichever dims: both calls take the kernels that the workspace is for."""
        text = "def half(v: f32[4], x: f32['2*h', 512], w: f32[512, 384]):\n    y = softmax(x @ w)\n    z = v * 2.0\n    return y, z\n"
        path, _ = build(text, "half", "--target", "cpu:avx2", "--threads", "2", "--hint", "h=1,64")
        table = json.loads((WORK / "half.json").read_text())["programs"][0]["by_size"]
        self.assertEqual((table["sizes"], table["chosen"]), ([{"name": "h", "for": [1, 64], "up_to": [8]}], [0, 1]))
        library, n = Library(path, "half"), ctypes.c_int64
        v, w = floats(4), floats(512 * 384)
        w[:] = [random.gauss(0, 1) for _ in w]
        for h in (1, 5, 8, 9):
            x, results = floats(2 * h * 512), []
            x[:] = [random.gauss(0, 1) for _ in x]
            size = library("half_workspace_size", n(h))
            space = ctypes.create_string_buffer(size + 64)
            memory = ctypes.addressof(space) + -ctypes.addressof(space) % 64
            for front in (None, (), (1,), (1, 1)):
                y, z = floats(2 * h * 384), floats(4)
                if front is None:
                    self.assertEqual(library("half", v, x, w, y, z, n(h), None), 0, library.text())
                else:
                    tensors = (Tensor * 5)(tensor(v, (4,)), tensor(x, (*front, 2 * h, 512)), tensor(w, (512, 384)),
                                           tensor(y, (*front, 2 * h, 384)), tensor(z, (4,)))
                    status = library("half_tensors", tensors, ctypes.c_int32(5), ctypes.c_void_p(memory), n(size), None)
                    self.assertEqual(status, 0, f"{h}, {front}: {library.text()}")
                results.append(bytes(y))
            self.assertEqual(results, results[:1] * 4, h)

    def test_kernels_by_rows_without_hints(self):
        """Nothing is said about sizes: there are kernels for some numbers of rows, and each call has the bits of a library for its own."""
        text = ("def mlp(x: f32['n', 320], w: f32[320, 640], v: f32[640, 320], g: f32['k']):\n"
                "    h = gelu(x @ w)\n    y = h @ v\n    z = g * 2.0\n    return y, z\n")
        target = ["--target", "cpu:avx2", "--threads", "2"]
        path, done = build(text, "rows", *target, "--by-size", "3")
        self.assertIn("kernels   mlp: n = 1, 16 (to 90), 512 (and more)\n", done.stdout)
        table = json.loads((WORK / "rows.json").read_text())["programs"][0]["by_size"]
        self.assertEqual(table["sizes"], [{"name": "n", "for": [1, 16, 512], "up_to": [1, 90]}])
        self.assertEqual(len(set(table["chosen"])), 3)
        # So it is without a word, too.
        text_file, unsaid = WORK / "rows.py", WORK / "librows_unsaid.so"
        report = json.loads(codetta("build", text_file, "-o", unsaid, *target, "--compiler", quick(), "--json").stdout)
        self.assertEqual(report["sizes"], ["mlp: n = 1, 16 (to 90), 512 (and more)"])
        plans = json.loads((WORK / "rows_unsaid.json").read_text())["programs"][0]["by_size"]
        self.assertEqual((plans["sizes"], plans["chosen"]), (table["sizes"], table["chosen"]))
        alone = {rows: Library(build(text, f"rows_{rows}", *target, "--hint", f"n={rows}")[0], f"rows_{rows}") for rows in (1, 16, 512)}
        library, n = Library(path, "rows"), ctypes.c_int64
        w, v, g = floats(320 * 640), floats(640 * 320), floats(3)
        for values in (w, v, g):
            values[:] = [random.gauss(0, 1) for _ in values]
        for rows in (0, 1, 2, 16, 90, 91, 200):
            one = 1 if rows <= 1 else 16 if rows <= 90 else 512
            x, results = floats(max(rows * 320, 1)), []
            x[:] = [random.gauss(0, 1) for _ in x]
            for name, called in ((f"rows_{one}", alone[one]), ("rows", library)):
                y, z = floats(max(rows * 320, 1)), floats(3)
                self.assertEqual(called("mlp", x, w, v, g, y, z, n(rows), n(3), None), 0, called.text())
                results.append((bytes(y), bytes(z), called("mlp_workspace_size", n(rows), n(3))))
            self.assertEqual(results[0], results[1], f"{rows} rows")
        # A hint for the rows, or --by-size 1, is one program; one for another size says nothing of rows.
        for options, many in ((["--hint", "n=512"], False), (["--by-size", "1"], False), (["--hint", "k=5"], True)):
            shown = codetta("build", text_file, "-o", path, *target, "--show", *options).stdout
            self.assertEqual("by sizes" in shown, many, options)
        shown = codetta("build", text_file, "-o", path, *target, "--show", "--by-size", "5").stdout
        self.assertRegex(shown, r"// n: 1, 16, (128, )?512, 4096")
        self.assertIn("--by-size", codetta("build", text_file, "-o", path, "--by-size", "6", code=2).stderr)
        self.assertIn("--by-size has no effect with --tune", codetta("build", text_file, "-o", path, "--by-size", "2", "--tune", code=2).stderr)

    def test_rows_of_two_sizes(self):
        """Rows are the product of the dims in front: items of a batch and positions."""
        text = "def f(x: f32['b', 's', 512], w: f32[512, 384]):\n    y = relu(x @ w)\n    return y\n"
        path, done = build(text, "two_sizes", "--target", "cpu:avx2", "--threads", "2", "--by-size", "3")
        self.assertIn("kernels   f: b * s = 1, 16, 512 (and more)\n", done.stdout)
        table = json.loads((WORK / "two_sizes.json").read_text())["programs"][0]["by_size"]
        self.assertEqual([size["name"] for size in table["sizes"]], ["b", "s"])
        for size in table["sizes"]:
            self.assertEqual((size["for"], size["up_to"]), ([1, 4, 16, 64, 256], [1, 8, 32, 128]))
        chosen = {(b, s): table["chosen"][i * 5 + j] for i, b in enumerate((1, 4, 16, 64, 256)) for j, s in enumerate((1, 4, 16, 64, 256))}
        one, few, many = chosen[1, 1], chosen[4, 4], chosen[256, 256]
        self.assertEqual(len({one, few, many}), 3)
        for (b, s), program in chosen.items():
            self.assertEqual(program, one if b * s == 1 else few if b * s <= 90 else many, (b, s))
        library, w = Library(path, "two_sizes"), floats(512 * 384)
        w[:] = [float(i % 3 - 1) for i in range(len(w))]
        for b, s in ((1, 1), (1, 16), (3, 4), (16, 16), (0, 5), (1, 100)):
            x, y = floats(max(b * s * 512, 1)), floats(max(b * s * 384, 1))
            x[:] = [float(random.randrange(-2, 3)) for _ in x]
            self.assertEqual(library("f", x, w, y, ctypes.c_int64(b), ctypes.c_int64(s), None), 0, library.text())
            for row in random.sample(range(b * s), min(b * s, 2)):
                for column in (0, 200, 383):
                    want = sum(x[row * 512 + i] * w[i * 384 + column] for i in range(512))
                    self.assertEqual(y[row * 384 + column], max(want, 0.0), (b, s, row, column))

    def test_what_rows_are(self):
        """Those of products in loops, too, and multiples of a size; a sum of two sizes is no product of them."""
        loop = ("def more(i: i32[1], x: f32['n', 256], w: f32[256, 256]):\n    return i[0] < 3\n"
                "def body(i: i32[1], x: f32['n', 256], w: f32[256, 256]):\n    return i + 1, relu(x @ w), w\n"
                "def f(i: i32[1], x: f32['n', 256], w: f32[256, 256]):\n    j, y, v = while_loop(more, body, i, x, w)\n    return y\n")
        plain = "def f(x: f32[{}, 256], w: f32[256, {}]):\n    y = relu(x @ w)\n    return y\n"
        both = "def f(x: f32['n', 256], z: f32['m', 256], w: f32[256, 256]):\n    y = concat(x, z, dim=0) @ w\n    return y\n"
        for text, symbol in ((loop, "n"), (plain.format("'2*h'", "'n'"), "h"), (plain.format("'n + 2'", 24), "n"), (plain.format(40, "'n'"), "n"), (both, None),
                             ("def f(v: f32['n'], x: f32['n // 4', 256], w: f32[256, 'c']):\n    y = x @ w + sum(v)\n    return y\n", None)):
            (WORK / "what_rows.py").write_text(text)
            shown = codetta("build", WORK / "what_rows.py", "-o", WORK / "libwhat_rows.so", "--target", "cpu:avx2", "--threads", "2",
                            "--show", "--by-size", "3").stdout
            self.assertEqual(re.findall(r"  // (\w+): 1, 16, 512\n", shown), [symbol] if symbol else [], text)
            self.assertEqual("by sizes" in shown, symbol is not None, text)

    def test_constants_are_carried_in_one_form(self):
        """Kernels for other rows that want a large constant packed otherwise are left out, unless they are asked for."""
        text = "def f(x: f32['n', 1024], w: f32[1024, 1024]):\n    y = x @ w\n    return y\n"
        npy(WORK / "form_w.npy", (1024, 1024), [1.0] * (1 << 20))
        target = ["--target", "cpu:avx2", "--threads", "2", "--constant", f"w={WORK / 'form_w.npy'}"]
        sizes = {}
        for name, options in (("one_form", ["--by-size", "1"]), ("all_forms", ["--by-size", "3"]), ("unsaid_forms", [])):
            path = WORK / f"lib{name}.so"
            (WORK / "forms.py").write_text(text)
            codetta("build", WORK / "forms.py", "-o", path, *target, "--compiler", quick(), *options)
            sizes[name] = path.stat().st_size
        self.assertGreaterEqual(sizes["all_forms"], sizes["unsaid_forms"])
        self.assertLess(sizes["unsaid_forms"], sizes["one_form"] + (2 << 20))

    def test_tables_of_two_sizes(self):
        """Two sizes with hints, products in a loop and in branches: every call computes the bits of a library for its sizes alone."""
        text = ("def more(i, x, w):\n    return i < 2\n"
                "def turn(i, x, w):\n    return i + 1, relu(x @ w) * 0.125, w\n"
                "def left(x, v):\n    return x @ v\n"
                "def right(x, v):\n    return (x * 2.0) @ v + 1.0\n"
                "def p(x: f32['m', 64], w: f32[64, 64], v: f32[64, 'n'], flag: i32):\n"
                "    _, h, _ = while_loop(more, turn, 0, x, w)\n    y = cond(flag > 0, left, right, h, v)\n"
                "    s = sum(y, dim=0)\n    return y, s\n")
        whole = Library(build(text, "table", "--hint", "m=1,300", "--hint", "n=8,700")[0], "table")
        table = json.loads((WORK / "table.json").read_text())["programs"][0]["by_size"]
        self.assertEqual([(size["name"], size["up_to"]) for size in table["sizes"]], [("m", [17]), ("n", [74])])
        alone = {(m, n): Library(build(text, f"alone_{m}_{n}", "--hint", f"m={m}", "--hint", f"n={n}")[0], f"alone_{m}_{n}")
                 for m in (1, 300) for n in (8, 700)}

        def called(library, m, n, flag):
            numbers = random.Random(m + n)
            x, w, v, y, s = floats(max(m * 64, 1)), floats(64 * 64), floats(64 * n), floats(max(m * n, 1)), floats(n)
            for values in (x, w, v):
                values[:] = [numbers.gauss(0, 1) for _ in values]
            sizes = [ctypes.c_int64(m), ctypes.c_int64(n)]
            self.assertEqual(library("p", x, w, v, ctypes.c_int32(flag), y, s, *sizes, None), 0, library.text())
            return library("p_workspace_size", *sizes), bytes(y), bytes(s)

        for m in (0, 1, 17, 18, 299):
            for n in (1, 74, 75):
                one = alone[1 if m <= 17 else 300, 8 if n <= 74 else 700]
                for flag in (0, 1):
                    self.assertEqual(called(whole, m, n, flag), called(one, m, n, flag), f"m {m}, n {n}, flag {flag}")


if __name__ == "__main__":
    main()
