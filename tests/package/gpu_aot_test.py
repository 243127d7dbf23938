# SPDX-License-Identifier: Apache-2.0
"""`codetta build` and `codetta emit` for GPUs with real kernels, where their compiler is there: what is exported and
needed, the header in C11 and C++, a C program that links it, the same bytes again, what a machine without a driver is
told; and the texts of programs. Usage: gpu_aot_test.py <codetta> <cc> <c++> <source folder> <work folder> cuda|hip <nvrtc folder> <pretended driver> <pretended HIP runtime>"""

import ctypes
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

CODETTA, CC, CXX = sys.argv[1:4]
SOURCE, WORK = (pathlib.Path(a) for a in sys.argv[4:6])
sys.path.insert(0, str(SOURCE / "tests/support"))
from commit_slice import of_this_commit  # noqa: E402
from quick_compiler import quick_compiler  # noqa: E402
from run_command import run  # noqa: E402

HIP, NVRTC, *PRETENDED = sys.argv[6] == "hip", *(pathlib.Path(a) for a in sys.argv[7:10])
TARGET, OTHER, LOADED = ("hip:gfx942", "hip:gfx1100", "libamdhip64.so") if HIP else ("cuda:sm_90a", "cuda:sm_80", "libcuda.so.1")
WITHOUT = ("-6 E0654: no HIP runtime was found: looked for libamdhip64.so.7" if HIP else
           "-6 E0640: no NVIDIA driver was found: looked for libcuda.so.1")
PROGRAM = """def mlp(x: bf16["m", 256], w: bf16[256, 512], v: bf16[512, 128]):
    h = relu(x @ w)
    y = h @ v
    return y
"""
MAIN = """#include <stdio.h>
#include "mlp.h"
int main(void) {
  if (mlp_abi_version() != MLP_ABI_VERSION) return 2;
  const int status = mlp_init();
  printf("%d %s\\n", status, mlp_get_last_error());
  const int ran = mlp_mlp(NULL, NULL, NULL, NULL, 0, NULL); /* without tensors */
  return status == 0 ? ran == 0 : ran != status;
}
"""
# The same library by name; with a further argument it is unloaded.
LOADS = """#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  int (*init)(void) = NULL;
  if (library != NULL) *(void**)&init = dlsym(library, "mlp_init");
  if (init == NULL) return 2;
  printf("%d\\n", init());
  if (argc > 2 && dlclose(library) != 0) return 3;
  return argc > 2 && dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL ? 4 : 0;
}
"""


# In front of a script that calls a library over the pretended driver: memory of its, and what was launched since
# somebody asked last, as lists of words: function, grid, block, bytes of shared memory, the first parameters as hex.
SCRIPT = """import ctypes, sys
l, driver, context = ctypes.CDLL(sys.argv[1]), ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxPushCurrent_v2(context) == 0
def memory(count, size):
    made = [ctypes.c_void_p() for _ in range(count)]
    for one in made:
        assert driver.cuMemAlloc_v2(ctypes.byref(one), ctypes.c_size_t(size)) == 0
    return made
def launches():
    text = ctypes.create_string_buffer(1 << 20)
    driver.codetta_fake_launches.restype = ctypes.c_bool
    assert driver.codetta_fake_launches(text, ctypes.c_size_t(1 << 20))
    return [line.split() for line in text.value.decode().splitlines()]
def passes(launch, address):  # among its parameters
    return address.value.to_bytes(8, 'little').hex() in launch[-1]
"""


def launched_as(kernel):
    """How a launch of the kernel begins in such a list, by the manifest: the product behind a copy of its factors, if there is one."""
    config = kernel["config"]
    return [[entry] + ([str(config["threads"]), str(config["shared_bytes"])] if entry == "codetta_gemm" else []) for entry in kernel["entries"]]


@functools.cache
def quick():
    """Kernels are not its business."""
    return quick_compiler(CXX, SOURCE, WORK, kernels=True)


def codetta(*arguments, code=0, optimized=False):
    compiler = ["--compiler", quick()] if not optimized and arguments[0] == "build" else []
    # tools/bootstrap puts NVRTC there; where it has not, the loader and the usual folders are tried.
    where = ["--cuda-home", NVRTC] if NVRTC.exists() and not HIP else []
    cache = [] if "--no-cache" in arguments else ["--cache-dir", WORK / "cache"]
    return run(CODETTA, *arguments, *where, *cache, *compiler, code=code)


@functools.cache
def fixed():
    """What is built for one size, without optimization: the library, its header, the manifest."""
    codetta("build", WORK / "mlp.py", "-o", WORK / "libfixed.so", "--target", TARGET, "--hint", "m=4096")
    return [WORK / name for name in ("libfixed.so", "fixed.h", "fixed.json")]


def has_driver():
    try:
        ctypes.CDLL(LOADED)
    except OSError:
        return False
    return True


class GpuLibraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        WORK.mkdir(parents=True, exist_ok=True)
        (WORK / "mlp.py").write_text(PROGRAM)
        (WORK / "pretended").mkdir(exist_ok=True)
        for name, driver in zip(("libcuda.so.1", "libamdhip64.so.6"), PRETENDED):
            (WORK / "pretended" / name).unlink(missing_ok=True)
            (WORK / "pretended" / name).symlink_to(driver)
        cls.path = WORK / "libmlp.so"
        cls.built = codetta("build", WORK / "mlp.py", "-o", cls.path, "--target", TARGET, "--hint", "m=4096", optimized=True)

    def test_python_module(self):
        """`emit --what=python` compiles the kernels and puts them into the module; AMD's GPUs have no such text."""
        if HIP:
            self.assertIn("E0614", codetta("emit", WORK / "mlp.py", "--what=python", "--target", TARGET, code=1).stderr)
            return
        text = codetta("emit", WORK / "mlp.py", "--what=python", "--target", TARGET, "--hint", "m=64").stdout
        compile(text, "mlp_module.py", "exec")
        self.assertIn("CAPABILITY = (9, 0, True)", text)
        self.assertIn("def call(a0, a1, a2, a3, n0=None, stream=None):", text)
        again = codetta("emit", WORK / "mlp.py", "--what=python", "--target", TARGET, "--hint", "m=64", "--no-vendor").stdout
        self.assertEqual(again, text)

    def test_progress_and_the_same_bytes_again(self):
        """How long each kernel took to compile, though several were compiled at once; nothing where the cache has it. What a
        new cache makes is what was made before."""
        shutil.rmtree(WORK / "cold", ignore_errors=True)
        (WORK / "cold").mkdir()
        command = ["build", WORK / "mlp.py", "-o", WORK / "cold/libfixed.so", "--target", TARGET, "--hint", "m=4096", "--cache-dir", WORK / "cold/cache"]
        where = ["--cuda-home", NVRTC] if NVRTC.exists() and not HIP else []
        for cold in (True, False):
            said = run(CODETTA, *command, *where, "--compiler", quick()).stderr
            for path in fixed():
                self.assertEqual(path.read_bytes(), (WORK / "cold" / path.name).read_bytes(), path)
            times = [int(ms) for ms in re.findall(r"^kernel \d+ of 2: \w+, (\d+) ms$", said, re.M)]
            self.assertGreaterEqual(len(times), 2, said)  # again, where kernels are chosen for several sizes
            self.assertEqual([ms > 0 for ms in times[:2]], [cold, cold], said)
            self.assertNotIn("0 kernels", said)

    def test_tuning_without_a_device(self):
        """That nothing can be timed is said before anything is compiled."""
        if has_driver():
            self.skipTest("there is one")
        where = ["--cuda-home", NVRTC] if NVRTC.exists() and not HIP else []
        command = ["build", WORK / "mlp.py", "-o", WORK / "libtuned.so", "--target", TARGET, "--tune", "--cache-dir", WORK / "untouched"]
        said = run(CODETTA, *command, *where, code=3).stderr
        self.assertIn("E0654" if HIP else "E0640", said)
        self.assertNotIn("kernel 1 of", said)

    def test_several_sizes(self):
        """Kernels for several sizes: one function, one table, code of equal kernels once."""
        path = WORK / "libsizes.so"
        codetta("build", WORK / "mlp.py", "-o", path, "--target", TARGET, "--hint", "m=4096,1")
        manifest = json.loads((WORK / "sizes.json").read_text())
        self.assertEqual(manifest["programs"][0]["by_size"]["sizes"], [{"name": "m", "for": [1, 4096], "up_to": [64]}])
        exported = run("nm", "-D", "--defined-only", path).stdout.split()[2::3]
        self.assertEqual(sorted(exported), sorted(manifest["exports"]))
        shown = codetta("build", WORK / "mlp.py", "-o", path, "--target", TARGET, "--hint", "m=4096,1", "--show").stdout
        self.assertIn("sizes_mlp_tensors(const Tensor* tensors", shown)
        if not has_driver():
            done = run(sys.executable, "-c", f"import ctypes; l = ctypes.CDLL({str(path)!r}); print(l.sizes_mlp(None, None, None, None, "
                       "ctypes.c_int64(5), None))")
            self.assertEqual(done.stdout.strip(), "-6")

    def test_numbers_of_rows(self):
        """Without hints there are kernels for some numbers of rows; tensors that lie otherwise take what the usual program's do."""
        path = WORK / "librows.so"
        codetta("build", WORK / "mlp.py", "-o", path, "--target", TARGET, "--by-size", "3")
        table = json.loads((WORK / "rows.json").read_text())["programs"][0]["by_size"]
        # Tiles of AMD's GPUs are no others for 16 rows.
        sizes = {"for": [1, 512], "up_to": [1]} if HIP else {"for": [1, 16, 512], "up_to": [1, 90]}
        self.assertEqual(table["sizes"], [{"name": "m", **sizes}])
        one, *few, usual = table["chosen"]
        self.assertEqual(usual, 0)
        follows = {line["plan"]: line["then"] for line in table["less_aligned"]}
        for plan in {one, *few} - {usual}:
            self.assertEqual(follows[plan], usual)
        self.assertNotEqual(one, usual)
        if HIP:
            return
        script = SCRIPT + """import json
l.rows_get_last_error.restype = ctypes.c_char_p
x, w, v, y = memory(4, 2 << 20)
for m in (1, 2, 90, 91, 0, 600):
    status = l.rows_mlp(x, w, v, y, ctypes.c_int64(m), None)
    print(json.dumps([status, l.rows_get_last_error().decode(), launches()]))
"""
        done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")})
        calls = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((len(calls), done.returncode), (6, 0), done.stdout + done.stderr)
        for (status, error, made), plan in zip(calls, (one, *few, *few, usual, None, usual)):
            self.assertEqual(status, 0, error)
            self.assertEqual(bool(made), plan is not None)
            if plan is not None:
                found = [[one[0]] + ([one[4], one[7]] if one[0] == "codetta_gemm" else []) for one in made]
                self.assertEqual(found, sum((launched_as(kernel) for kernel in table["plans"][plan]["kernels"]), []))

    def test_tensors_that_are_aligned_less(self):
        """Kernels are chosen for rows of a multiple of 16 bytes, as the hinted sizes have them; other sizes take others."""
        path, pretended = WORK / "libodd.so", {**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")}
        (WORK / "odd.py").write_text('def odd(x: bf16["m", "k"], w: bf16["k", 512]):\n    y = x @ w\n    return y\n')
        codetta("build", WORK / "odd.py", "-o", path, "--target", TARGET, "--hint", "m=512", "--hint", "k=512")
        table = json.loads((WORK / "odd.json").read_text())["programs"][0]["by_size"]
        self.assertEqual((table["chosen"], table["less_aligned"]), ([0], [{"plan": 0, "then": 1}, {"plan": 1, "then": 2}]))
        first, other, last = (plan["kernels"][0]["config"] for plan in table["plans"])
        wanted = [launched_as(plan["kernels"][0]) for plan in table["plans"]]
        self.assertEqual((first["alignment"], first.get("pack_a", False)), (16, False))
        self.assertTrue(other["alignment"] < 16 or other["pack_a"], other)
        self.assertTrue(last["family"] == "simt" or (last["pack_a"] and last["pack_b"]), last)
        if not HIP:
            self.assertNotEqual(*wanted[:2])
            script = SCRIPT + """import json
l.odd_get_last_error.restype = ctypes.c_char_p
size = l.odd_odd_workspace_size
size.restype, size.argtypes = ctypes.c_int64, [ctypes.c_int64] * 2
driver.codetta_fake_keep(ctypes.c_size_t(64))
x, w, y = memory(3, 2 << 20)
for k, shift, of_w in ((512, 0, 0), (520, 0, 0), (33, 0, 0), (1, 0, 0), (512, 0, 0), (512, 2, 0), (512, 0, 2), (33, 2, 2)):
    at = ctypes.c_void_p(x.value + shift)
    status = l.odd_odd(at, ctypes.c_void_p(w.value + of_w), y, ctypes.c_int64(512), ctypes.c_int64(k), None)
    done = launches()
    print(json.dumps([status, l.odd_get_last_error().decode(), size(512, k), done, passes(done[0], at) if done else False]))
"""
            done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, env=pretended)
            calls = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual((len(calls), done.returncode), (8, 0), done.stdout + done.stderr)
            for (status, error, bytes_needed, made, reads_x), less in zip(calls, (0, 0, 1, 1, 0, 1, 2, 2)):  # a copy of A, where it lies askew
                self.assertEqual(status, 0, error)
                self.assertGreaterEqual(bytes_needed, 0)
                found = [[one[0]] + ([one[4], one[7]] if one[0] == "codetta_gemm" else []) for one in made]
                self.assertEqual(found, wanted[less])
                self.assertEqual(reads_x, bool(less), made)  # what is copied is A; a product has it behind its tensor maps
            self.check_half_aligned(pretended)
            self.check_begun(pretended)
        # Sizes that have their kernels in common have what takes over in common, too.
        text = codetta("emit", WORK / "odd.py", "--what=host", "--target", TARGET, "--hint", "m=4096,4224", "--hint", "k=512").stdout
        self.assertIn("chosen[] = {0, 0};", text)
        self.assertEqual(re.findall(r"\bstatus = call_(\d)\(", text), ["0", "1", "2"])
        # Sizes that all begin rows so need no second program for themselves, only for tensors that lie anywhere.
        table = json.loads(fixed()[2].read_text())["programs"][0]["by_size"]
        self.assertEqual(table["less_aligned"], [{"plan": 0, "then": 1}])

    def test_sizes_of_0(self):
        """Where a kernel would compute an output with elements that are not there, another program makes it; others' workspace stays as it is."""
        (WORK / "none.py").write_text('def none(x: f32["m", 64], w: f32[64, 32]):\n    y = x @ w\n    t = sum(exp(sum(y, dim=0)))\n    return y, t\n')
        codetta("build", WORK / "none.py", "-o", WORK / "libnone.so", "--target", TARGET, "--hint", "m=64")
        table = json.loads((WORK / "none.json").read_text())["programs"][0]["by_size"]
        last = len(table["plans"]) - 1
        self.assertEqual(table["when_empty"], [last])
        self.assertEqual(table["less_aligned"][-1], {"plan": last - 1, "then": last})
        self.assertGreater(len(table["plans"][last]["kernels"]), 1)
        text = codetta("emit", WORK / "none.py", "--what=host", "--target", TARGET, "--hint", "m=64").stdout
        self.assertRegex(text, rf"if \(bytes < 0\) {{\s*const i64 other = workspace_size_{last}\(")
        if HIP:
            return
        script = SCRIPT + """import json
size = l.none_none_workspace_size
size.restype, size.argtypes = ctypes.c_int64, [ctypes.c_int64]
for m in (64, 0):
    done = l.none_none(*memory(4, 1 << 20), ctypes.c_int64(m), None)
    print(json.dumps([done, size(m), [one[0] for one in launches()]]))
"""
        done = subprocess.run([sys.executable, "-c", script, WORK / "libnone.so"], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")})
        calls = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((len(calls), done.returncode), (2, 0), done.stdout + done.stderr)
        for (status, bytes_needed, made), product in zip(calls, (True, False)):
            self.assertEqual(status, 0)
            self.assertGreaterEqual(bytes_needed, 0)
            self.assertEqual("codetta_gemm" in made, product, made)
            self.assertTrue(made)

    def test_factors_whose_leading_dims_are_uneven(self):
        """A program that copies them takes such calls, inputs and outputs, and no others."""
        (WORK / "uneven.py").write_text('def attend(x: bf16["b", 3, 2, "m", 64], k: bf16["b", 3, 2, 128, 64]):\n    s = cast(exp(x @ transpose(k, 3, 4)), bf16)\n'
                                        '    y = s @ k\n    return s, y\n')
        codetta("build", WORK / "uneven.py", "-o", WORK / "libuneven.so", "--target", TARGET, "--hint", "m=128", "--hint", "b=2")
        table = json.loads((WORK / "uneven.json").read_text())["programs"][0]["by_size"]
        last = len(table["plans"]) - 1
        self.assertEqual((table["when_uneven"], table["less_aligned"][-1]), ([last], {"plan": last - 1, "then": last}))
        kernels = [len(plan["kernels"]) for plan in table["plans"]]
        self.assertGreater(kernels[last], max(kernels[:last]))
        text = codetta("emit", WORK / "uneven.py", "--what=host", "--target", TARGET, "--hint", "m=128", "--hint", "b=2").stdout
        self.assertRegex(text, rf"if \(bytes < 0\) {{\s*const i64 other = workspace_size_{last}\(")
        if HIP:
            return
        script = SCRIPT + """import json
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]
for turned in ("", "x", "k", "s", "y", "xks"):
    at = memory(4, 8 << 20)
    made = [Tensor(at[i], 13 if name == "y" else 12, 5, (ctypes.c_int64 * 8)(2, 3, 2, rows, columns), (ctypes.c_int64 * 8)(
        *((columns, 2 * columns, 6 * columns, 12 * columns, 1) if name in turned else (6 * rows * columns, 2 * rows * columns, rows * columns, columns, 1))))
        for i, (name, rows, columns) in enumerate((("x", 128, 64), ("k", 128, 64), ("s", 128, 128), ("y", 128, 64)))]
    done = l.uneven_attend_tensors((Tensor * 4)(*made), ctypes.c_int32(4), None, ctypes.c_int64(0), None)
    l.uneven_get_last_error.restype = ctypes.c_char_p
    print(json.dumps([turned, done, l.uneven_get_last_error().decode() if done else "", [one[0] for one in launches()]]))
"""
        done = subprocess.run([sys.executable, "-c", script, WORK / "libuneven.so"], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")})
        calls = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((len(calls), done.returncode), (6, 0), done.stdout + done.stderr)
        for turned, status, error, made in calls:
            self.assertEqual(status, 0, f"{turned}: {error}")
            copies = ["codetta_phase_0"] * 2 if set(turned) & set("xks") else []
            self.assertEqual([one for one in made if one != "codetta_pack"], copies + ["codetta_gemm"] * 2, turned)

    def check_half_aligned(self, pretended):
        """Where the first kernel takes every size, and a later one copies rows of "n": nothing is enqueued before that is
        known. What is loaded by the copy engine, and what is stored by it behind a kernel that writes in donated memory."""
        (WORK / "half.py").write_text('def loads(a: bf16["m", 4096], b: bf16["n", 4096], x: bf16["m", 4096], w: bf16["n", 4096], v: f32["n", 64]):\n'
                                      '    s = tanh(a @ transpose(b))\n    o = s * 2.0\n'
                                      '    y = s * (x @ transpose(w))\n    z = y @ v\n    return z, o\n\n'
                                      'def stores(a: donated[bf16["m", 4096]], w: bf16["n", 4096], v: f32["n", 64]):\n'
                                      '    x = cast(softmax(a), bf16)\n    y = relu(x @ transpose(w))\n    z = y @ v\n    return z\n')
        script = SCRIPT + """import json
for n in (64, 33):
    sizes = [ctypes.c_int64(64), ctypes.c_int64(n), None]
    for name in sys.argv[2:]:
        function, count = getattr(l, "half_" + name), {"loads": 7, "stores": 4}[name]
        print(json.dumps([function(*memory(count, 4 << 20), *sizes), [one[0] for one in launches()]]))
"""
        names = of_this_commit(("loads", "stores"))
        codetta("build", WORK / "half.py", *sum((["--function", name] for name in names), []), "-o", WORK / "libhalf.so", "--target", TARGET, "--hint", "m=4096", "--hint", "n=4096")
        programs = json.loads((WORK / "half.json").read_text())["programs"]
        self.assertEqual([len(p["by_size"]["less_aligned"]) for p in programs], [2] * len(names))
        done = subprocess.run([sys.executable, "-c", script, WORK / "libhalf.so", *names], capture_output=True, text=True, env=pretended)
        calls = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((len(calls), done.returncode), (2 * len(names), 0), done.stdout + done.stderr)
        for call, (program, plan) in enumerate((program, plan) for plan in (0, 1) for program in range(len(names))):
            kernels = {k["name"]: k for k in programs[program]["by_size"]["plans"][plan]["kernels"]}
            wanted = [entry for step in programs[program]["by_size"]["plans"][plan]["steps"] if step["step"] == "launch_kernel"
                      for entry in kernels[step["kernel"]]["entries"]]
            self.assertEqual(calls[call], [0, wanted])

    def check_begun(self, pretended):
        """Rows behind a size that the call computes are looked at before any of it runs: the program whose kernels take them has all of the call,
        also where the first part writes over what it reads."""
        text = ('def begun(a: f32["m", 8], x: bf16["m", "n"], w: bf16["n", 4096]):\n    h = a * 2.0\n'
                '    count = cast(sum(cast(h > 0.0, i32), keepdim=False), u8)\n    y = x[:count] @ w\n    return h, y\n')
        (WORK / "begun.py").write_text(text)
        (WORK / "spent.py").write_text(text.replace("begun", "spent").replace('f32["m", 8]', 'donated[f32["m", 8]]'))
        script = SCRIPT + """import json
name = sys.argv[2]
error = getattr(l, name + "_get_last_error")
error.restype = ctypes.c_char_p
for n in (4096, 33):
    sizes = [ctypes.c_int64(4096), ctypes.c_int64(n), ctypes.c_int64(4096), None]
    a, x, w, h, y = memory(5, 64 << 20)
    status = getattr(l, name + "_" + name)(a, x, w, a if sys.argv[3:] else h, y, *sizes)
    print(json.dumps([status, error().decode() if status else "", [one[0] for one in launches()]]))
"""
        for name, *in_place in (("begun",), ("begun", "in place"), ("spent",)):
            path = WORK / f"lib{name}.so"
            if not in_place:
                codetta("build", WORK / f"{name}.py", "-o", path, "--target", TARGET, "--hint", "m=4096", "--hint", "n=4096")
            done = subprocess.run([sys.executable, "-c", script, path, name, *in_place], capture_output=True, text=True, env=pretended)
            calls = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual((len(calls), done.returncode), (2, 0), done.stdout + done.stderr)
            table = json.loads((WORK / f"{name}.json").read_text())["programs"][0]["by_size"]
            for (status, error, made), plan in zip(calls, (0, 1)):
                self.assertEqual(status, 0, f"{name}, {in_place}: {error}")
                kernels = {kernel["name"]: kernel for kernel in table["plans"][plan]["kernels"]}
                wanted = [entry for step in table["plans"][plan]["steps"] if step["step"] == "launch_kernel" for entry in kernels[step["kernel"]]["entries"]]
                self.assertEqual(made, wanted, f"{name}, {in_place}: once, and of plan {plan}")

    def test_sizes_of_branches_and_loops(self):
        """What a branch has behind a size is launched with it where the branch is taken, and nobody asks for the size where not."""
        path, pretended = WORK / "libinner.so", {**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")}
        (WORK / "inner.py").write_text(
            'def up(x, k, w):\n    y = x[:k] @ w\n    z = y * rsqrt(mean(y * y, dim=-1) + 0.5)\n'
            '    return concat(z, zeros(n - k, 64), dim=0)\n\n'
            'def down(x, k, w):\n    return x @ w\n\n'
            'def more(i, x, w, y):\n    return sum(y, keepdim=False) > 0.5\n\n'
            'def turn(i, x, w, y):\n    return i + 1, x, w, y + sum(x[:i] @ w, dim=0)\n\n'
            'def loops(x: f32["n", 64], w: f32[64, 64], c: i32):\n'
            '    i, a, b, z = while_loop(more, turn, c, x, w, sum(x, dim=0))\n    return z\n\n'
            'def inner(x: f32["n", 64], k: i64[()], w: f32[64, 64], p: bool[()]):\n'
            '    y = cond(p, up, down, x, k, w)\n    return y\n')
        self.assertIn("const auto rest_1 = [&](GpuFrame& frame)", codetta("emit", WORK / "inner.py", "--what=host", "--target", TARGET).stdout)
        if HIP:  # its kernels take long to compile, and the text is the same
            return
        codetta("build", WORK / "inner.py", "--function", "inner", "--function", "loops", "-o", path, "--target", TARGET, "--hint", "n=512")
        self.assertIn("The call computes the size", " ".join((WORK / "inner.h").read_text().replace("*", " ").split()))
        module = codetta("emit", WORK / "inner.py", "--what=python", "--target", TARGET, "--hint", "n=512").stdout
        compile(module, "inner_module.py", "exec")
        script = SCRIPT + """import json
l.inner_get_last_error.restype = ctypes.c_char_p
driver.codetta_fake_keep(ctypes.c_size_t(64))
x, k, w, p, y = memory(5, 1 << 18)
for taken, rows in ((1, 40), (1, 300), (1, 0), (1, 513), (0, 513), (0, -7), (1, -7)):
    ctypes.c_int64.from_address(k.value).value = rows
    ctypes.c_bool.from_address(p.value).value = bool(taken)
    status = l.inner_inner(x, k, w, p, y, ctypes.c_int64(512), None)
    print(json.dumps([status, l.inner_get_last_error().decode(), launches()]))
"""
        done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, env=pretended)
        calls = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((len(calls), done.returncode), (7, 0), done.stdout + done.stderr)
        self.assertEqual([call[0] for call in calls], [0, 0, 0, -2, 0, 0, -2], calls)
        self.assertIn("E0610: k is 513, outside of 0 to 512; `x[:k]`, line 2, column 9", calls[3][1])
        self.assertIn("E0610: k is negative: it is -7", calls[6][1])
        grids = [[one[:4] for one in call[2]] for call in calls]
        self.assertNotEqual(grids[0], grids[1], "fewer rows are fewer blocks")
        self.assertEqual(grids[4], grids[5])
        self.assertLess(len(grids[2]), len(grids[0]), "of no rows nothing is launched")

    def test_exports_and_needs(self):
        exported = run("nm", "-D", "--defined-only", self.path).stdout.split()[2::3]
        self.assertEqual(sorted(exported), sorted(json.loads((WORK / "mlp.json").read_text())["exports"]))
        self.assertNotIn("mlp_set_thread_pool", exported)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", self.path).stdout)
        for name in needed:
            self.assertRegex(name, r"lib(stdc\+\+|gcc_s|c|m|pthread|dl)\.so|ld-linux")
        self.assertLessEqual(self.path.stat().st_size, 1 << 20)
        print(f"\nlibmlp.so: {self.path.stat().st_size} bytes, needs {needed}")

    def test_c_program(self):
        (WORK / "main.c").write_text(MAIN)
        run(CC, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", WORK / "main.c", "-I", WORK, "-o", WORK / "main", "-L",
            WORK, "-lmlp", f"-Wl,-rpath,{WORK}")
        said = run(WORK / "main").stdout
        if not has_driver():
            self.assertIn(WITHOUT, said)
        run(CXX, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", WORK / "mlp.h")

    def test_ends_of_processes(self):
        """A driver that the library loaded is torn down before it: a process ends without calling it. Unloading gives all back before."""
        (WORK / "ends.c").write_text(MAIN)
        (WORK / "loads.c").write_text(LOADS)
        run(CC, "-std=c11", WORK / "ends.c", "-I", WORK, "-o", WORK / "ends", "-L", WORK, "-lmlp", f"-Wl,-rpath,{WORK}")
        run(CC, "-std=c11", WORK / "loads.c", "-o", WORK / "loads", "-ldl")
        pretended = {**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")}
        for command in ([WORK / "ends"], [WORK / "loads", self.path], [WORK / "loads", self.path, "unload"]):
            done = subprocess.run(command, capture_output=True, text=True, env=pretended)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
            self.assertTrue(done.stdout.startswith("0"), done.stdout + done.stderr)

    def test_examples_build(self):
        for name in of_this_commit(("attention", "llama_block", "norm_mlp", "swiglu")):
            codetta("build", SOURCE / f"examples/programs/{name}.py", "-o", WORK / f"lib{name}.so", "--target", OTHER)
            library = ctypes.CDLL(str(WORK / f"lib{name}.so"))
            if not has_driver():
                self.assertEqual(getattr(library, f"{name}_init")(), -6)

    def test_reproducer(self):
        names = [k["name"] for k in json.loads((WORK / "mlp.json").read_text())["programs"][0]["plan"]["kernels"]]
        for i, kernel in of_this_commit(enumerate(names)):
            folder = WORK / f"reproducer{i}"
            codetta("build", WORK / "mlp.py", "-o", folder, "--repro", kernel, "--dim", "m=4096", "--target", TARGET,
                    "--hint", "m=4096")
            done = run("sh", folder / "build.sh", code=None)
            if not has_driver():
                self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                self.assertIn(WITHOUT[3:], done.stderr)
            else:
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            if HIP:
                continue
            # Over the pretended driver, whose kernels compute nothing.
            said = subprocess.run([folder / "reproducer", "1", "2"], capture_output=True, text=True, cwd=folder,
                                  env={**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")})
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
            self.assertRegex(said.stdout, r"t\d: \d+ elements of (f32|bf16), .*\nleast time of 2 calls: ")

    def test_reproducers_of_a_librarys_table(self):
        """Kernels for other numbers of rows, whose tensors have these, and those that take over for tensors that lie otherwise."""
        (WORK / "rows.py").write_text("def rows(x: bf16['m', 1024], w: bf16[1024, 2048]):\n    y = relu(x @ w)\n    return y\n")
        how = ["--target", TARGET]
        text = codetta("build", WORK / "rows.py", "-o", WORK / "librows.so", "--show", *how).stdout
        names = set(re.findall(r"codetta_relu_[0-9a-f]{8}", text))
        made = {}
        for size in (1, 16, 512):
            manifest = json.loads(codetta("emit", "--program", WORK / "rows.py", "--hint", f"m={size}", "--what", "manifest", *how).stdout)
            made.setdefault(manifest["kernels"][0]["name"], set()).add(size)
        self.assertLessEqual(set(made), names)
        self.assertGreater(len(names), 1)
        for kernel in of_this_commit(sorted(names), 2):
            folder = WORK / ("rows_" + kernel)
            codetta("build", WORK / "rows.py", "-o", folder, "--repro", kernel, *how)
            self.assertIn(int(re.search(r"define m = (\d+)", (folder / "plan.txt").read_text())[1]), made.get(kernel, {512}))
            self.assertEqual(len(list(folder.glob("constant_*.bin"))), 1)

    # The example with real code, over a driver that only pretends; and what the compiler says of the user's lines.
    def test_kernel_of_the_user(self):
        ending, other = ("hip", "cu") if HIP else ("cu", "hip")
        folder, broken = SOURCE / "examples/user_kernel", WORK / f"broken.{ending}"
        source = (folder / f"running_sums.{ending}").read_text()
        command = ["build", folder / "program.py", "-o", WORK / "libsums.so", "--target", TARGET, "--kernel"]
        self.assertIn("E0311", codetta(*command, f"running_sums={folder / f'running_sums.{other}'}", code=1).stderr)
        for target in (*of_this_commit(("hip:gfx90a", "hip:gfx1100", "hip:gfx1201") if HIP else ("cuda:sm_80", "cuda:sm_100a")), TARGET):
            command[5] = target
            codetta(*command, f"running_sums={folder / f'running_sums.{ending}'}")
        program = ("import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\n"
                   "library.sums_get_last_error.restype = ctypes.c_char_p\n"
                   "print(library.sums_init(), library.sums_get_last_error().decode())\n")
        if not HIP:
            said = subprocess.run([sys.executable, "-c", program, WORK / "libsums.so"], capture_output=True, text=True,
                                  env={**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")})
            self.assertTrue(said.stdout.startswith("0 ") and said.returncode == 0, said.stdout + said.stderr)
        for old, new, wanted in (("x[r * stride + c]", "nothing", rf"broken\.{ending}:\d+"),
                                 ("running_sums(const float* x", "running_sums(float* x", r"void running_sums\(const float\*, float, float\*, "
                                  r"int32_t, int32_t, int64_t\)"),
                                 ('extern "C" __global__', "__global__", "language linkage" if HIP else "linkage specification"),
                                 ("grid(ceil_div(m, ROWS))", "grid(ceil_div(k, ROWS))", rf"E0231(.|\n)*broken\.{ending}:\d+:\d+")):
            self.assertIn(old, source)
            broken.write_text(source.replace(old, new))
            failed = codetta(*command, f"running_sums={broken}", code=None)
            self.assertNotEqual(failed.returncode, 0, new)
            self.assertRegex(failed.stderr, wanted)

    def test_texts(self):
        def emit(what):
            return codetta("emit", "--program", WORK / "mlp.py", "--what", what, "--target", TARGET).stdout
        host = emit("host")
        for part in ("int mlp_mlp(const uint16_t* x, ", "GpuKernel program_0_kernel_0", "CODETTA_OK(launch(frame, "):
            self.assertIn(part, host)
        self.assertEqual(host, emit("host"))
        machine = emit("asm" if HIP else "ptx")
        self.assertGreaterEqual(machine.count("// ---- codetta_"), 1)
        self.assertIn(".amdgcn_target" if HIP else ".target sm_90a", machine)


def main():
    (WORK / "probe").mkdir(parents=True, exist_ok=True)
    (WORK / "probe/p.py").write_text("def p(x: f32[4, 4]):\n    y = x @ x\n    return y\n")
    tried = codetta("build", WORK / "probe/p.py", "-o", WORK / "probe/libp.so", "--target", OTHER, code=None)
    if any(code in tried.stderr for code in ("E0530", "E0501", "E0536", "E0537")):
        print("SKIPPED: there is no compiler for", TARGET)
        return
    unittest.main(argv=sys.argv[:1] + sys.argv[10:], verbosity=2)


if __name__ == "__main__":
    main()
