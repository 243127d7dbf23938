# SPDX-License-Identifier: Apache-2.0
"""Libraries that `codetta build` makes, compiled with sanitizers and called by C programs that are, too: over good and bad input, from
several threads, loaded and unloaded. A planted overflow, leak, shift and race have to be found. A commit's hash picks one program and
one sanitizer; with CODETTA_TEST_FULL all run, and the engine but for its micro-kernels is instrumented as well.
Usage: that of aot_test.py, and CODETTA_BUILD names the build folder,
CODETTA_FAKE_DRIVER the pretended driver"""
import json
import os
import pathlib
import shlex
import shutil
import unittest

from aot_computed_test import PROGRAM as SIZED
from aot_support import CC, CXX, DIGITS, SOURCE, WORK, codetta, main, run
from commit_slice import of_this_commit

BUILD, DRIVER = (pathlib.Path(os.environ[name]) for name in ("CODETTA_BUILD", "CODETTA_FAKE_DRIVER"))
FULL = os.environ.get("CODETTA_TEST_FULL") == "ON"
HERE = SOURCE / "tests/package/aot/sanitized"
SANITIZERS = {"address": "-fsanitize=address,undefined -fno-sanitize-recover=all", "thread": "-fsanitize=thread"}
FLAGS = f"{'-O1' if FULL else '-O0'} -g1 -fno-omit-frame-pointer "  # half the time to compile
LOOPS = """def more(i, x, k):
    return i < k

def turn(i, x, k):
    h, g = call_extern("halves", x, out=("f32[m, 4]", "f32[m, 4]"), form="alloc")
    return i + 1, g + call_extern("scale", h, out="f32[m, 4]"), k

def scaled(x):
    return call_extern("scale", x, out="f32[m, 4]")

def kept(x):
    return relu(x)

def loops(x: f32["m", 4], k: i64[()], flag: bool[()]):
    i, z, n = while_loop(more, turn, 0, x, k)
    y = cond(flag, scaled, kept, x)
    return y, z
"""
COMPUTED = SIZED + """
def parted(x: f32["n", 8], k: i64[()], w: f32[8, 8]):
    y = relu(x[:k] @ w)
    rest = x[k:, :k // 2]
    return y, rest
"""
GUARDS = """def picked(x: f32["n", 24], i: i64["k"], w: f32[24, 24]):
    y = relu(take(x, i, 0) @ w)
    z = index_put(x, i, y)
    return y, z

def chain(x: donated[f32["n", 32]], z: donated[f32["n", 32]], w: f32[32, 32]):
    a = relu(x @ w)
    b = tanh(a @ w) * 0.5
    c = softmax(b @ w) + z
    y = c @ w
    return y
"""
PLANTED = """def planted(x: f32["n"], mode: f32):
    h = user_kernel("faulty", x, mode, out="f32[n]")
    y = relu(h) + x
    return y
"""
FAULTY = """void faulty(Tensor<const float, 1> x, float mode, Tensor<float, 1> y) {
  const int64_t n = x.size(0);
  volatile int64_t rows = mode == 1.0f ? n + 1 : n;
  float* copy = new float[n];
  for (int64_t i = 0; i < rows; ++i) copy[i] = x(i < n ? i : 0);
  volatile int by = mode == 3.0f ? 40 : 1;
  for (int64_t i = 0; i < n; ++i) y(i) = copy[i] * static_cast<float>(1 << by);
  if (mode != 2.0f) delete[] copy;
}
"""
HINTS = ["--hint", "n=1,64"] if FULL else []  # kernels for each, and twice the time to compile them
# By the name of the C program: text, options, arguments of the program.
PROGRAMS = {
    "digits": (DIGITS / "classifier.py", ["--weights", DIGITS / "digits.safetensors"], ["whole", "missing", "cut", "damaged"]),
    "loops": (LOOPS, [], []),
    "computed": (COMPUTED, ["--function", "sized", "--function", "parted"], []),
    "guards": (GUARDS, ["--function", "picked", "--function", "chain", *HINTS], []),
}
GPU = """def gpu(x: bf16["m", 64], w: bf16[64, 64], i: i64["k"]):
    h = relu(x @ w)
    y = take(h, i, 0) * 2.0
    return h, y
"""
# What a sanitizer says of what is planted, as a pattern. One that is linked into a program without it would say nothing.
FINDINGS = {"address": {"row": "heap-buffer-overflow", "short": "0 bytes (to the right of|after) 156-byte region", "leak": "LeakSanitizer: detected memory leaks",
                        "shift": "shift exponent 40 is too large"},
            "thread": {"race": "data race"}}


def has(sanitizer):
    (WORK / "empty.c").write_text("int main(void) { return 0; }\n")
    made = run(CC, *SANITIZERS[sanitizer].split(), WORK / "empty.c", "-o", WORK / "empty", code=None)
    return made.returncode == 0 and run(WORK / "empty", code=None).returncode == 0


def compiler(sanitizer):
    path = WORK / f"{sanitizer}-c++"
    path.write_text(f'#!/bin/sh\nexec "{CXX}" "$@" {FLAGS}{SANITIZERS[sanitizer]}\n')
    path.chmod(0o755)
    return path


def instrumented_engine(sanitizer):
    """The engine's folder with the engine compiled anew, but for the micro-kernels, which take minutes. Of a slice it is the pool of
    threads, for the thread sanitizer, which sees no order in what it has not instrumented."""
    folder, original = WORK / f"engine-{sanitizer}", BUILD / "codetta"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    members = set(run("ar", "t", original / "libcodetta_engine.a").stdout.split())
    compiled = 0
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        place = pathlib.Path(entry["file"]).relative_to(SOURCE) if pathlib.Path(entry["file"]).is_relative_to(SOURCE) else pathlib.Path()
        if f"{place.name}.o" not in members or place.parent not in (pathlib.Path("src/runtime/cpu"), pathlib.Path("src/types")):
            continue
        if not FULL and place.name != "thread_pool.cpp":
            continue
        command = shlex.split(entry["command"])
        command[command.index("-o") + 1] = str(folder / f"{place.name}.o")
        run(*command, "-w", *shlex.split(FLAGS + SANITIZERS[sanitizer]), cwd=entry["directory"])
        run("ar", "r", folder / "libcodetta_engine.a", folder / f"{place.name}.o")
        compiled += 1
    assert compiled >= (10 if FULL else 1), f"{compiled} files of the engine in {BUILD}/compile_commands.json"
    return folder


class Sanitized(unittest.TestCase):
    engines = {}

    def setUp(self):
        os.environ["ASAN_OPTIONS"] = "detect_leaks=1:detect_stack_use_after_return=1"
        os.environ["TSAN_OPTIONS"] = "halt_on_error=1"

    def library(self, name, text, sanitizer, *options):
        """Its folder, in which header and library have the program's name."""
        compiled = FULL or sanitizer == "thread"
        if compiled and sanitizer not in self.engines:
            self.engines[sanitizer] = instrumented_engine(sanitizer)
        engine = ["--engine-dir", self.engines[sanitizer]] if compiled else []
        # GCC 12 and 13 take variables in detect_stack_use_after_return's frames for aligned to 64 bytes, which these are not
        # (its bug 110027): a kernel of the user's that copies a view by a vector of AVX-512 would crash.
        narrow = ["--target", "cpu:avx2"] if "--target" not in options and "avx512f" in pathlib.Path("/proc/cpuinfo").read_text() else []
        folder = WORK / f"{sanitizer}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        program = text
        if isinstance(text, str):
            program = folder / f"{name}.py"
            program.write_text(text)
        codetta("build", program, "-o", folder / f"lib{name}.so", "--no-cache", "--compiler", compiler(sanitizer), *engine, *narrow, *options)
        return folder

    def caller(self, name, sanitizer, folder, source=None, libraries=True):
        linked = ["-I", folder, "-L", folder, f"-l{name}", f"-Wl,-rpath,{folder}"] if libraries else []
        source = source or HERE / f"{name}.c"
        path = folder / source.stem
        run(CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", *FLAGS.split(), *SANITIZERS[sanitizer].split(),
            "-I", SOURCE / "include", source, "-o", path, *linked, "-ldl")
        return path

    def weights(self, folder):
        whole = (DIGITS / "digits.safetensors").read_bytes()
        (folder / "digits.safetensors").write_bytes(whole)
        for name, data in (("whole", whole), ("cut", whole[:-100]), ("damaged", whole[:8] + b"[" + whole[9:])):
            (folder / name).write_bytes(data)

    def test_programs(self):
        for sanitizer, name in of_this_commit([(s, p) for p in PROGRAMS for s in SANITIZERS]):
            with self.subTest(sanitizer=sanitizer, program=name):
                if not has(sanitizer):
                    self.skipTest(f"no runtime of the {sanitizer} sanitizer")
                text, options, arguments = PROGRAMS[name]
                folder = self.library(name, text, sanitizer, *options)
                if name == "digits":
                    self.weights(folder)
                run(self.caller(name, sanitizer, folder), *(folder / argument for argument in arguments))
                if name == "digits":
                    leaks = self.caller(name, sanitizer, folder, SOURCE / "tests/package/aot/leaks.c", libraries=False)
                    run(leaks, folder / "libdigits.so", 200 if FULL else 20)

    def test_gpu_host_part(self):
        """The driver is pretended, so no kernel runs. NVRTC takes most of the time."""
        nvrtc = SOURCE / "build/nvrtc"
        if not FULL or not has("address") or not nvrtc.exists() or not DRIVER.exists():
            self.skipTest("of the full suite, where NVRTC and the sanitizer are")
        folder = self.library("gpu", GPU, "address", "--target", "cuda:sm_90a", "--cuda-home", nvrtc)
        (folder / "libcuda.so.1").unlink(missing_ok=True)
        (folder / "libcuda.so.1").symlink_to(DRIVER)
        run("env", f"LD_LIBRARY_PATH={folder}", self.caller("gpu", "address", folder))

    def test_planted(self):
        for sanitizer in of_this_commit(list(SANITIZERS)):
            with self.subTest(sanitizer=sanitizer):
                if not has(sanitizer):
                    self.skipTest(f"no runtime of the {sanitizer} sanitizer")
                (WORK / "faulty.cc").write_text(FAULTY)
                folder = self.library("planted", PLANTED, sanitizer, "--kernel", f"faulty={WORK / 'faulty.cc'}")
                program = self.caller("planted", sanitizer, folder)
                run(program, "none")
                for fault, said in FINDINGS[sanitizer].items():
                    done = run(program, fault, code=None)
                    self.assertNotEqual(done.returncode, 0, fault)
                    self.assertRegex(done.stderr, said, fault)


if __name__ == "__main__":
    main()
