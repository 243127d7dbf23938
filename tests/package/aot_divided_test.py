# SPDX-License-Identifier: Apache-2.0
"""Libraries of programs so large that their steps are several functions, each in a file of its own: the bits of runs in process. Usage: as of aot_test.py"""
import ctypes
import random
import re
import unittest

from aot_support import CC, SOURCE, WORK, Library, build, codetta, floats, main, npy, npy_data, run

# Half of the rows, in memory of its own.
HALF = r"""
#include <stdlib.h>
#include <string.h>
#include "codetta/extern.h"
int given_back = 0;
static void release(CodettaTensor* tensor) { free(tensor->owner); ++given_back; }
int half(void* context, const CodettaTensor* in, int n, CodettaTensor* out, int m) {
  (void)context;
  if (n != 1 || m != 1 || in[0].strides[0] != 32) return 1;
  out[0] = in[0];
  out[0].shape[0] = in[0].shape[0] / 2;
  out[0].data = out[0].owner = malloc(sizeof(float) * 32 * (size_t)(out[0].shape[0] + 1));
  memcpy(out[0].data, in[0].data, sizeof(float) * 32 * (size_t)out[0].shape[0]);
  out[0].release = release;
  return 0;
}
"""


def layers(count, first, name):
    """So many layers on `first`, the last of which makes NAME_last."""
    lines, h = [], first
    for i in range(count):
        out = f"{name}_{i}" if i + 1 < count else f"{name}_last"
        lines += [f"    {name}_a{i} = softmax(gelu({h} @ w + b))", f"    {out} = {name}_a{i} @ v + {h} * 0.5"]
        h = out
    return lines


WEIGHTS = 'w: f32[32, 48], v: f32[48, 32], b: f32[48]'
SHAPES = {"w": (32, 48), "v": (48, 32), "b": (48,)}


class Divided(unittest.TestCase):
    def data(self, rows):
        values = {}
        for name, shape in {"x": (rows, 32), **SHAPES}.items():
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            values[name] = floats(npy(WORK / f"{name}.npy", shape, [random.gauss(0, 0.3) for _ in range(count)]))
        return values

    def expected(self, source, outputs, *more):
        given = [word for name in ("x", *SHAPES) for word in ("--tensor", f"{name}={WORK / name}.npy")]
        codetta("run", source, *given, *more, *(word for name in outputs for word in ("--out", f"{name}={WORK / name}_expected.npy")), "--force")
        return [npy_data(WORK / f"{name}_expected.npy") for name in outputs]

    def files(self, source, *options):
        shown = codetta("build", source, "-o", WORK / "libshown.so", "--by-size", "1", "--show", *options).stdout
        found = re.split(r"(?m)^// ---- (.*) ----$", shown)
        return dict(zip(found[1::2], found[2::2]))

    def test_many_layers(self):
        """Files of bounded size, of which a program of a few layers has one."""
        source = WORK / "deep.py"
        text = f'def deep(x: f32["n", 32], {WEIGHTS}):\n'
        source.write_text("\n".join([text.rstrip(), *layers(3, "x", "h"), "    y = h_last * 1.0", "    return y"]) + "\n")
        self.assertEqual([name for name in self.files(source) if "steps" in name], [])
        source.write_text("\n".join([text.rstrip(), *layers(40, "x", "h"), "    y = h_last * 1.0", "    return y"]) + "\n")
        files = self.files(source)
        self.assertEqual(files, self.files(source))
        steps = [name for name in files if re.fullmatch(r"shown_deep_steps_\d+\.cpp", name)]
        self.assertEqual(steps, [f"shown_deep_steps_{i + 1}.cpp" for i in range(len(steps))])
        self.assertGreater(len(steps), 2)
        self.assertIn("struct Shared {", files["shown_deep_steps.h"])
        for name in ("shown_deep.cpp", *steps):
            self.assertIn('#include "shown_deep_steps.h"', files[name])
            self.assertLess(len(files[name]), 100_000, name)
        self.assertEqual(sum(len(re.findall(r"\blaunch\(frame", files[name])) for name in steps), 80 + len(re.findall("y = h_last", files[steps[-1]])))
        path, _ = build(source, "deep")
        library = Library(path, "deep")
        for rows in (1, 19, 0):
            given, y = self.data(rows), floats(rows * 32)
            wanted, = self.expected(source, ["y"])
            status = library("deep", given["x"], given["w"], given["v"], given["b"], y, ctypes.c_int64(rows), None)
            self.assertEqual(status, 0, library.text())
            self.assertEqual(bytes(y), wanted, rows)
        self.assertEqual(library("deep", given["x"], given["w"], None, given["b"], y, ctypes.c_int64(3), None), -1)
        self.assertIn("v", library.text())
        self.assertGreater(library("deep_workspace_size", ctypes.c_int64(64)), 0)

    def test_sizes_from_functions_and_long_loops(self):
        """What is shared by the functions of a program: a size that is known in the middle, results of a function, pools; and
        the functions of a loop's body."""
        def text(middle):
            return "\n".join([
                "def more(i, z, w, v, b):", "    return i < 2",
                "def turn(i, z, w, v, b):", *layers(16, "z", "t"), "    return i + 1, t_last, w, v, b",
                f'def late(x: f32["n", 32], {WEIGHTS}):', *layers(14, "x", "h"), middle, *layers(14, "rows", "r"),
                "    i, y, wo, vo, bo = while_loop(more, turn, 0, r_last, w, v, b)",
                *layers(8, "y", "s"), "    z = sum(s_last, dim=0) + sum(rows, dim=0)", "    return z"]) + "\n"
        source, plain = WORK / "late.py", WORK / "plain.py"
        source.write_text(text('    rows = call_extern("half", h_last, out="f32[k, 32]", form="alloc")'))
        plain.write_text(text("    rows = h_last[:n // 2]"))
        files = self.files(source)
        shared = files["shown_late_steps.h"]
        for member in (r"Number n\d+", r"i64 pool_\d+", r"ExternResults<1> result_\d+", r"Frame\* part_0"):
            self.assertRegex(shared, member)
        self.assertEqual(sum("s.part_0 = &frame;" in body for body in files.values()), 1)
        loops = [name for name, body in files.items() if re.search(r"CODETTA_OK\(steps_\d+\(frame, s\)\);", body)]
        self.assertEqual(len(loops), 1)
        path, _ = build(source, "late")
        (WORK / "half.c").write_text(HALF)
        run(CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{SOURCE / 'include'}", WORK / "half.c", "-o", WORK / "libhalf.so")
        functions, library = ctypes.CDLL(str(WORK / "libhalf.so")), Library(path, "late")
        given_back = ctypes.c_int.in_dll(functions, "given_back")
        arguments = lambda given, z, rows: (given["x"], given["w"], given["v"], given["b"], z, ctypes.c_int64(rows), None)
        self.assertEqual(library("late", *arguments(self.data(4), floats(32), 4)), -9)
        self.assertEqual(library("set_extern_half", ctypes.cast(functions.half, ctypes.c_void_p), None), 0)
        for calls, rows in enumerate((22, 7, 1, 64)):
            given, z = self.data(rows), floats(32)
            wanted, = self.expected(plain, ["z"])
            self.assertEqual(library("late", *arguments(given, z, rows)), 0, library.text())
            self.assertEqual(bytes(z), wanted, rows)
            self.assertEqual(given_back.value, calls + 1)


if __name__ == "__main__":
    main()
