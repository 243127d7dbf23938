# SPDX-License-Identifier: Apache-2.0
"""`codetta build --form nvcc`. sources: what is in the folder, and its host side by the C++ compiler. compile: build.sh
with nvcc, where there is one, every warning an error; what the library exports and needs, and what it says without a
driver and over a pretended one. Usage: nvcc_form_test.py <codetta> <cc> <c++> <source folder> <work folder> <nvrtc folder>
<pretended driver> sources|compile"""

import ctypes
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

CODETTA, CC, CXX = sys.argv[1:4]
SOURCE, WORK, NVRTC, PRETENDED = (pathlib.Path(a) for a in sys.argv[4:8])
sys.path.insert(0, str(SOURCE / "tests/support"))
from commit_slice import of_this_commit  # noqa: E402
from run_command import run  # noqa: E402

NVCC = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
MLP = """def mlp(x: bf16["m", 4096], w: bf16[4096, 2048], v: bf16[2048, 512], b: bf16[2048]):
    h = gelu(x @ w + b)
    y = cast(h, bf16) @ v
    return y
"""
STEPS = """def body(i: i32[1], t: f32["n", 8], k: i64["r"], u: f32["r", 8]):
    put = index_put(t, k, u, accumulate=True)
    return i + 1, put, k, u

def more(i: i32[1], t: f32["n", 8], k: i64["r"], u: f32["r", 8]):
    return i < 3

def steps(t: f32["n", 8], k: i64["r"], u: f32["r", 8], i: i32[1], q: f16["n", 64], p: f16[64, "n"]):
    j, y, a, b = while_loop(more, body, i, t, k, u)
    s = softmax(q @ p)
    return y, s
"""


def sources(program, folder, target, *more):
    """A folder of sources, new."""
    shutil.rmtree(folder, ignore_errors=True)
    where = ["--cuda-home", NVRTC] if NVRTC.exists() else []
    done = run(CODETTA, "build", program, "--form", "nvcc", "-o", folder, "--target", target, *more, *where, "--cache-dir",
               WORK / "cache")
    return folder, done.stdout


def write(name, text):
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / name).write_text(text)
    return WORK / name


TWICE = """def twice(x: f32["m", "n"], decay: f32, gate: bf16["m", "n"], bias: f32["n"]):
    s = user_kernel("running_sums", x, decay, out="f32[m, n]")
    y = silu(s + bias) * gate
    t = user_kernel("running_sums", y, decay, out="f32[m, n]")
    z = cast(tanh(t) - y, bf16)
    return y, z
"""
USER = (SOURCE / "examples/user_kernel/program.py",
        ("--kernel", f"running_sums={SOURCE / 'examples/user_kernel/running_sums.cu'}"))


class Sources(unittest.TestCase):
    def check_host_side(self, folder):
        files = sorted(folder.rglob("*.cpp"))
        self.assertGreaterEqual(len(files), 4)
        for file in files:
            run(CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", folder, file, cwd=folder)
        name = next(folder.glob("*.h")).name
        run(CC, "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c", folder / name)
        run("sh", "-n", folder / "build.sh")
        manifest = json.loads((folder / name.replace(".h", ".json")).read_text())
        there = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
        self.assertEqual(there, {*manifest["nvcc"]["files"], name.replace(".h", ".json")})

    def test_host_sides(self):
        programs = [(write("mlp.py", MLP), "cuda:sm_90a", ("--hint", "m=4096")), (write("steps.py", STEPS), "cuda:sm_80", ()),
                    (USER[0], "cuda:sm_100a", USER[1])]
        programs += [(SOURCE / f"examples/programs/{name}.py", "cuda:sm_90a", ()) for name in of_this_commit(("attention", "llama_block"))]
        for number, (program, target, more) in enumerate(programs):
            with self.subTest(program=program.name):
                folder, said = sources(program, WORK / f"host{number}", target, *more)
                self.assertIn(f"sh {folder}/build.sh, which makes {folder}/libhost{number}.so", said)
                self.check_host_side(folder)

    def test_same_bytes_again(self):
        program = write("mlp.py", MLP)
        one, other = (sources(program, WORK / name / "model", "cuda:sm_90a", "--hint", "m=4096")[0]
                      for name in self.folders("one", "other"))
        for file in one.rglob("*"):
            if file.is_file():
                self.assertEqual(file.read_bytes(), (other / file.relative_to(one)).read_bytes(), file)

    def folders(self, *names):
        for name in names:
            (WORK / name).mkdir(parents=True, exist_ok=True)
        return names

    def test_json(self):
        folder = WORK / "json"
        shutil.rmtree(folder, ignore_errors=True)
        said = json.loads(run(CODETTA, "build", write("steps.py", STEPS), "--form", "nvcc", "-o", folder, "--target",
                              "cuda:sm_80", "--name", "model", "--json", "--cache-dir", WORK / "cache").stdout)
        self.assertEqual(said["library"], f"{folder}/libmodel.so")
        self.assertEqual(said["functions"], ["model_steps"])
        for kernel in said["kernels"]:
            self.assertTrue((folder / f"{kernel}.cu").exists(), kernel)


def quick_nvcc():
    """nvcc, but it does not optimize the host's files: a quarter of their time, and nothing here asks how fast they are."""
    path = WORK / "quick-nvcc"
    path.write_text(f"""#!/bin/sh
for argument; do
  shift
  [ "$argument" = -O2 ] || set -- "$@" "$argument"
done
exec "{NVCC}" "$@"
""")
    path.chmod(0o755)
    return path


class Compiled(unittest.TestCase):
    def compile(self, program, name, target, *more):
        folder, _ = sources(program, WORK / f"compiled_{name}_{target[5:]}", target, "--name", name, *more)
        run("sh", folder / "build.sh", env={**os.environ, "NVCC": quick_nvcc(), "NVCC_PREPEND_FLAGS": "-Werror all-warnings"})
        library = folder / f"lib{name}.so"
        manifest = json.loads((folder / f"{name}.json").read_text())
        exported = run("nm", "-D", "--defined-only", library).stdout.split()[2::3]
        self.assertEqual(sorted(exported), sorted(manifest["exports"]))
        self.assertEqual(list(folder.glob("*.o")), [])
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library).stdout)
        for one in needed:  # the CUDA runtime is inside
            self.assertRegex(one, r"lib(stdc\+\+|gcc_s|c|m|pthread|dl|rt)\.so|ld-linux")
        # Unloaded before the pretended driver's own state goes.
        script = ("import _ctypes, ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\n"
                  f"said = library.{name}_get_last_error\nsaid.restype = ctypes.c_char_p\n"
                  f"print(library.{name}_init(), said().decode())\n_ctypes.dlclose(library._handle)\n")
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            self.assertIn("-6 E0640: no NVIDIA driver was found", run(sys.executable, "-c", script, library).stdout)
            # The runtime finds the pretended driver wanting, and the library says what it says.
            (WORK / "pretended").mkdir(exist_ok=True)
            (WORK / "pretended/libcuda.so.1").unlink(missing_ok=True)
            (WORK / "pretended/libcuda.so.1").symlink_to(PRETENDED)
            said = run(sys.executable, "-c", script, library,
                       env={**os.environ, "LD_LIBRARY_PATH": str(WORK / "pretended")}).stdout
            self.assertRegex(said, r"^-\d+ E0\d+: ")
            print(f"\n{library.name} for {target}: {library.stat().st_size} bytes; over the pretended driver: {said.strip()}")

    def test_architectures(self):
        listed = run(NVCC, "--list-gpu-code").stdout.split()
        known = [target for target in ("sm_80", "sm_90a", "sm_100a") if target.rstrip("a") in listed]
        self.assertTrue(known, f"{NVCC} has none of Codetta's architectures, but {listed}")
        for target in of_this_commit(known):
            self.compile(write("mlp.py", MLP), "mlp", f"cuda:{target}", "--hint", "m=4096")

    def test_programs(self):
        """nvcc takes seconds for each kernel: beside the product above, one program of three."""
        for program in of_this_commit(("steps_loops_and_constants", "kernel_of_the_user", "kernel_with_a_hook")):
            getattr(self, program)()

    def steps_loops_and_constants(self):
        scale = write("scale.py", "def scale(x: f32['n', 4], s: f32[4]):\n    y = x * s\n    return y\n")
        import struct
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
        header += b" " * (118 - len(header) - 1) + b"\n"
        (WORK / "s.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4))
        self.compile(scale, "scale", "cuda:sm_80", "--constant", f"s={WORK / 's.npy'}")
        self.compile(write("steps.py", STEPS), "steps", "cuda:sm_90a")

    def kernel_of_the_user(self):
        self.compile(USER[0], "sums", "cuda:sm_90a", *USER[1])

    def kernel_with_a_hook(self):
        """Twice in one library, with other work behind it."""
        (WORK / "twice.py").write_text(TWICE)
        source = SOURCE / "examples/user_kernel/hooked_sums.cu"
        self.assertIn("\n__device__ float power", source.read_text())  # a function of each unit
        self.compile(WORK / "twice.py", "twice", "cuda:sm_90a", "--kernel", f"running_sums={source}")


if __name__ == "__main__":
    if sys.argv[8] == "compile" and NVCC is None:
        print("SKIPPED: there is no nvcc")
    else:
        unittest.main(argv=sys.argv[:1] + sys.argv[9:], verbosity=2,
                      defaultTest="Sources" if sys.argv[8] == "sources" else "Compiled")
