# SPDX-License-Identifier: Apache-2.0
"""`codetta build --repro`: one kernel of a program as a folder, built by its script and run.
Usage: reproducer_test.py <codetta> <cc> <c++> <source folder> <work folder>"""

import json
import math
import os
import random
import re
import shutil
import sys
import unittest

from aot_support import SOURCE, WORK, codetta, npy, npy_data, quick, run
from commit_slice import of_this_commit


class Reproducers(unittest.TestCase):
    """One kernel of a program as a folder, whose program computes the bits of a run in process."""

    @classmethod
    def setUpClass(cls):
        os.environ["CXX"] = str(quick())  # of build.sh

    def reproduce(self, program, kernel, *options):
        folder = WORK / ("repro_" + re.sub(r"\W", "_", kernel))
        shutil.rmtree(folder, ignore_errors=True)
        said = json.loads(codetta("build", program, "-o", folder, "--repro", kernel, "--json", *options).stdout)
        self.assertIn(kernel, said["kernel"])
        self.assertEqual(sorted(said["files"]), sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()))
        return folder, said

    def test_same_bits(self):
        text = ("def f(x: f32['m', 24], w: f32[24, 40], b: f32[40]):\n    y = relu(x @ w + b)\n    return y\n"
                "\n\ndef g(x: f32['m', 40]):\n    y = softmax(x) * 2.0\n    return y\n"
                "\n\ndef h(x: f32['n']):\n    y = user_kernel(\"k\", x, out=\"f32[n]\")\n    return y\n")
        (WORK / "repro.py").write_text(text)
        (WORK / "repro_k.cc").write_text("void k(Tensor<const float, 1> x, Tensor<float, 1> y) {\n"
                                         "  for (int64_t i = 0; i < x.size(0); ++i) y(i) = x(i) * x(i);\n}\n")
        user = ["--kernel", f"k={WORK / 'repro_k.cc'}"]
        for function, kernel, shapes, out, more in (
                ("f", "relu", {"x": (7, 24), "w": (24, 40), "b": (40,)}, 7 * 40, ["--dim", "m=7"]),
                ("g", "codetta_", {"x": (7, 40)}, 7 * 40, ["--dim", "m=7"]),
                ("h", "codetta_k_", {"x": (9,)}, 9, ["--dim", "n=9", *user])):
            single = WORK / f"repro_{function}.py"
            single.write_text(next(part for part in text.split("\n\n\n") if part.startswith(f"def {function}(")))
            folder, _ = self.reproduce(single, kernel, *more)
            options = user if function == "h" else []
            for i, (name, shape) in enumerate(shapes.items()):
                data = npy(WORK / f"repro_{name}.npy", shape, [random.gauss(0, 1) for _ in range(math.prod(shape))])
                (folder / f"t{i}.bin").write_bytes(data)
                options = [*options, "--tensor", f"{name}={WORK / f'repro_{name}.npy'}"]
            said = run("sh", folder / "build.sh", 1, 2).stdout
            self.assertRegex(said, rf"t{len(shapes)}: {out} elements of f32, 0 not finite, least ")
            self.assertRegex(said, "least time of 2 calls: [0-9.]+ us")
            codetta("run", single, *options, "--out", f"y={WORK / 'repro_y.npy'}")
            self.assertEqual((folder / f"t{len(shapes)}.out").read_bytes(), npy_data(WORK / "repro_y.npy"), function)

    def test_every_kernel_of_the_examples(self):
        for name, sizes in (("weight_only_int8", ["m=5"]), ("attention", ["heads=16", "s=5", "t=16"]), ("cache", ["s=5"])):
            program = SOURCE / f"examples/programs/{name}.py"
            # Where fusion pays depends on the sizes, and on the processor: the same ones give the same kernels.
            hints, dims = ([word for size in sizes for word in (option, size)] for option in ("--hint", "--dim"))
            manifest = json.loads(codetta("emit", "--program", program, *hints, "--what", "manifest").stdout)
            for kernel in of_this_commit(sorted({one["name"] for one in manifest["kernels"]}), 2):
                folder, said = self.reproduce(program, kernel, *dims)
                done = run("sh", folder / "build.sh", 3, 0, code=None)
                self.assertEqual(done.returncode, 0, f"{name} {kernel}: {done.stdout}{done.stderr}")
                self.assertRegex(done.stdout, r"t\d+: \d+ elements of \w+, 0 not finite")

    def test_kernels_of_a_librarys_table(self):
        """Those for other numbers of rows than the sizes that are given, too; where none are given the tensors have such a number."""
        program, how = SOURCE / "examples/programs/swiglu.py", ["--target", "cpu:avx2", "--threads", "1"]
        kernels = {}
        for rows in (1, 16, 512):
            manifest = json.loads(codetta("emit", "--program", program, "--hint", f"m={rows}", "--what", "manifest", *how).stdout)
            kernels[rows] = {one["name"] for one in manifest["kernels"]}
        others = sorted((kernels[1] | kernels[512]) - kernels[16])  # 16 is the size where none is given
        self.assertTrue(others)
        for kernel in others:
            for more, wanted in (([], {str(rows) for rows, names in kernels.items() if kernel in names}), (["--dim", "m=5"], {"5"})):
                folder, said = self.reproduce(program, kernel, *how, *more)
                self.assertEqual(said["kernel"], kernel)
                self.assertIn(re.search(r"define m = (\d+)", (folder / "plan.txt").read_text())[1], wanted)
            self.assertRegex(run("sh", folder / "build.sh", 3, 0).stdout, r"t\d+: \d+ elements of f32, 0 not finite")
        errors = codetta("build", program, "-o", WORK / "repro_none", "--repro", "nothing", *how, code=1).stderr
        for kernel in set().union(*kernels.values()):
            self.assertIn(kernel, errors)
        errors = codetta("build", program, "-o", WORK / "repro_none", "--repro", "codetta_", "--hint", "m=512", *how, code=1).stderr
        self.assertIn(f"{len(kernels[512])} kernels of the program are called codetta_\nnote: they are {', '.join(sorted(kernels[512]))}\n", errors)

    def test_no_memory_and_results_that_cannot_be_written(self):
        program = WORK / "repro_fails.py"
        program.write_text("def f(x: f32['m', 16]):\n    y = relu(x)\n    return y\n")
        folder, _ = self.reproduce(program, "codetta_", "--dim", f"m={1 << 44}")
        errors = run("sh", folder / "build.sh", code=3).stderr
        self.assertIn(f"t0: {1 << 50} bytes could not be allocated: ", errors)
        folder, _ = self.reproduce(program, "codetta_", "--dim", "m=3")
        run("sh", folder / "build.sh", 1, 0)
        for what in ("full", "folder"):
            (folder / "t1.out").unlink()
            if what == "full":
                (folder / "t1.out").symlink_to("/dev/full")
            else:
                (folder / "t1.out").mkdir()
            errors = run(folder / "reproducer", 1, 0, code=3, cwd=folder).stderr
            self.assertIn("t1.out: its 192 bytes could not be written: ", errors)
        (WORK / "repro_fails.py").write_text("def f(x: f32['m', 'n']):\n    y = relu(x)\n    return y\n")
        errors = codetta("build", program, "-o", WORK / "repro_none", "--repro", "codetta_", "--dim", f"m={1 << 40}", "--dim",
                         f"n={1 << 40}", code=1).stderr
        self.assertIn("E0603", errors)

    def test_refusals(self):
        program = SOURCE / "examples/programs/attention.py"
        for kernel, wanted in (("nothing", "the program has no kernel nothing"), ("codetta_", "kernels of the program are called")):
            errors = codetta("build", program, "-o", WORK / "repro_none", "--repro", kernel, code=1).stderr
            self.assertIn("E0209", errors)
            self.assertIn(wanted, errors)
        manifest = json.loads(codetta("emit", "--program", program, "--what", "manifest").stdout)
        kernel = manifest["kernels"][0]["name"]
        (WORK / "repro_file").write_text("")
        # Before anything else is looked at: there is no such kernel either.
        for folder in ("missing/folder", "repro_file", "repro_file/folder"):
            for name in (kernel, "nothing"):
                errors = codetta("build", program, "-o", WORK / folder, "--repro", name, code=3).stderr
                self.assertIn("E0543", errors)
        for size, wanted in (("nope=3", "E0209"), ("t=3 t=4", "E0210")):
            sizes = sum((["--dim", one] for one in size.split()), [])
            errors = codetta("build", program, "-o", WORK / "repro_none", "--repro", kernel, *sizes, code=1).stderr
            self.assertIn(wanted, errors)
        self.assertFalse((WORK / "repro_none").exists())

    def test_sizes_that_are_missing(self):
        program = WORK / "repro_sizes.py"
        program.write_text("def f(x: f32['m', 4096], w: f32[4096, 'n']):\n    y = relu(x @ w)\n    return y\n")
        made = []
        for sizes in (["--dim", "n=64"], ["--dim", "m=16", "--dim", "n=64"], ["--hint", "m=16", "--hint", "n=64"]):
            folder, said = self.reproduce(program, "relu", *sizes)
            made.append({name: (folder / name).read_bytes() for name in said["files"]})
        for other in made[1:]:
            self.assertEqual(made[0], other)


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    os.environ.pop("CODETTA_CACHE_DIR", None)
    random.seed(20)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:], verbosity=1)
