# SPDX-License-Identifier: Apache-2.0
"""Libraries for CUDA that carry their kernels as sources (`codetta build --form nvrtc`), over the pretended driver and with the real NVRTC: launches are those of
a library with compiled kernels, and what is missing or wrong has a text. Usage: gpu_nvrtc_test.py <codetta> <cc> <c++> <source folder> <work folder> <nvrtc folder> <pretended driver>"""

import functools
import json
import os
import pathlib
import sys
import unittest

CODETTA, CC, CXX = sys.argv[1:4]
SOURCE, WORK, NVRTC, DRIVER = (pathlib.Path(a) for a in sys.argv[4:8])
sys.path.insert(0, str(SOURCE / "tests/support"))
from quick_compiler import quick_compiler  # noqa: E402
from run_command import run  # noqa: E402

PROGRAM = """def mlp(x: bf16["m", 256], w: bf16[256, 512], v: bf16[512, 128]):
    h = relu(x @ w)
    y = h @ v
    return y
"""
# Refuses a later architecture than the one that it is built for.
KERNEL = """#pragma codetta kernel(x: f32[n], out y: f32[n])
#pragma codetta block(32) grid(1)
extern "C" __global__ void picky(const float* x, float* y) {
#if __CUDA_ARCH__ > 800
#error "this one is for sm_80 alone"
#endif
  y[threadIdx.x] = x[threadIdx.x];
}
"""
# init() and two calls, with what they launched: status, text, functions, grids.
SCRIPT = """import ctypes, json, sys
path, name, function, count = sys.argv[1:5]
l, driver, context = ctypes.CDLL(path), ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxPushCurrent_v2(context) == 0
made = [ctypes.c_void_p() for _ in range(int(count))]
for one in made:
    assert driver.cuMemAlloc_v2(ctypes.byref(one), ctypes.c_size_t(8 << 20)) == 0
error = getattr(l, name + '_get_last_error')
error.restype = ctypes.c_char_p
calls = [getattr(l, name + '_init')()] if 'init' in sys.argv else []
for _ in range(2):
    calls.append(getattr(l, f'{name}_{function}')(*made, *([ctypes.c_int64(512)] if function == 'mlp' else []), None))
text = ctypes.create_string_buffer(1 << 20)
driver.codetta_fake_launches.restype = ctypes.c_bool
assert driver.codetta_fake_launches(text, ctypes.c_size_t(1 << 20))
print(json.dumps([calls, error().decode() if any(calls) else '', [line.split()[:8] for line in text.value.decode().splitlines()]]))
"""
# A capture with what is named in it: a call, a query of its workspace, init(), a call outside of it. Statuses of each, of the capture's end and last text.
CAPTURED = """import ctypes, json, sys
path, name, *steps = sys.argv[1:]
l, driver, context, stream = ctypes.CDLL(path), ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxPushCurrent_v2(context) == 0 and driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
made = [ctypes.c_void_p() for _ in range(2)]
for one in made:
    assert driver.cuMemAlloc_v2(ctypes.byref(one), ctypes.c_size_t(4096)) == 0
error, size = getattr(l, name + '_get_last_error'), getattr(l, f'{name}_{name}_workspace_size')
error.restype, size.restype = ctypes.c_char_p, ctypes.c_int64
call = lambda on: getattr(l, f'{name}_{name}')(*made, on)
ways = {'call': lambda: call(stream), 'size': size, 'init': getattr(l, name + '_init'), 'outside': lambda: call(None)}
said, codes = '', []
assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
for step in steps:
    codes.append(ways[step]())
    said = error().decode() if codes[-1] else said
graph = ctypes.c_void_p()
codes.append(driver.cuStreamEndCapture(stream, ctypes.byref(graph)))
print(json.dumps([codes, said]))
"""
ROWS = """#pragma codetta kernel(x: f32[m, n], out y: f32[m, n])
#pragma codetta block(32) grid(m)
extern "C" __global__ void rows(const float* x, float* y) {
  for (int i = threadIdx.x; i < 40; i += 32) y[blockIdx.x * 40 + i] = x[blockIdx.x * 40 + i];
}
"""
# Outputs of a kernel of the user's that lie as it takes them, with rows apart, and as columns, each under capture with the workspace that its sizes say.
STRIDED = """import ctypes, json, sys
path, m = sys.argv[1], 6
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]
l, driver, context, stream = ctypes.CDLL(path), ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxPushCurrent_v2(context) == 0 and driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
made = [ctypes.c_void_p() for _ in range(3)]
for one in made:
    assert driver.cuMemAlloc_v2(ctypes.byref(one), ctypes.c_size_t(65536)) == 0
l.rows_get_last_error.restype, l.rows_rows_workspace_size.restype = ctypes.c_char_p, ctypes.c_int64
driver.codetta_fake_launches.restype = ctypes.c_bool
codes, size = [l.rows_init()], l.rows_rows_workspace_size(ctypes.c_int64(m))
for strides in ((40, 1), (64, 1), (1, 8)):
    tensors = (Tensor * 2)(*(Tensor(made[i], 13, 2, (ctypes.c_int64 * 8)(m, 40), (ctypes.c_int64 * 8)(*strides) if i else (ctypes.c_int64 * 8)(40, 1)) for i in range(2)))
    assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
    codes.append(l.rows_rows_tensors(tensors, 2, made[2], ctypes.c_int64(size), stream))
    graph = ctypes.c_void_p()
    codes.append(driver.cuStreamEndCapture(stream, ctypes.byref(graph)))
print(json.dumps([codes, size, l.rows_get_last_error().decode() if any(codes) else '']))
"""
LOADS = """#include <dlfcn.h>
#include <stddef.h>
int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  int (*init)(void) = NULL;
  if (library != NULL) *(void**)&init = dlsym(library, "mlp_init");
  if (init == NULL || init() != 0) return 2;
  if (dlclose(library) != 0) return 3;
  return dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL ? 4 : 0;
}
"""
# A library in the place of NVRTC: of version MAJOR, for sm_80 and ARCH, which makes nothing.
PRETENDED = """#include <stddef.h>
int nvrtcVersion(int* major, int* minor) { return *major = MAJOR, *minor = 3, 0; }
int nvrtcGetNumSupportedArchs(int* count) { return *count = 2, 0; }
int nvrtcGetSupportedArchs(int* archs) { return archs[0] = 80, archs[1] = ARCH, 0; }
int nvrtcCreateProgram(void** program, const char* text, const char* name, int count, const char* const* headers, const char* const* names) { return *program = &nvrtcVersion, 0; }
int nvrtcDestroyProgram(void** program) { return *program = 0, 0; }
#ifdef TOGETHER /* refuses what is compiled alone */
#include <unistd.h>
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  static int begun;
  __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 2000 && __atomic_load_n(&begun, __ATOMIC_SEQ_CST) < 2; ++i) usleep(10000);
  return __atomic_load_n(&begun, __ATOMIC_SEQ_CST) < 2 ? 6 : 0;
}
#else
int nvrtcCompileProgram(void* program, int count, const char* const* options) { return 0; }
#endif
int nvrtcGetCUBINSize(void* program, size_t* bytes) { return *bytes = 0, 0; }
int nvrtcGetCUBIN(void* program, char* code) { return 0; }
int nvrtcGetProgramLogSize(void* program, size_t* bytes) { return *bytes = 4, 0; }
#ifdef LOG
int nvrtcGetProgramLog(void* program, char* log) { return log[0] = 's', log[1] = 'o', log[2] = '!', log[3] = 0, 0; }
#endif
"""


@functools.cache
def quick():
    return quick_compiler(CXX, SOURCE, WORK, kernels=True)


def build(name, *options, program="mlp", code=0):
    path = WORK / f"lib{name}.so"
    done = run(CODETTA, "build", WORK / f"{program}.py", "-o", path, "--name", program, "--cuda-home", NVRTC, "--cache-dir", WORK / "cache", "--compiler", quick(),
               *options, code=code)
    return path if code == 0 else done.stderr


def call(path, *more, function="mlp", count=4, nvrtc=NVRTC / "lib"):
    folders = [str(WORK / "pretended"), *([str(nvrtc)] if nvrtc else [])]
    done = run(sys.executable, "-c", SCRIPT, path, function, function, str(count), *more, env={**os.environ, "LD_LIBRARY_PATH": ":".join(folders)})
    return json.loads(done.stdout)


class Sources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (WORK / "mlp.py").write_text(PROGRAM)
        (WORK / "pretended").mkdir(exist_ok=True)
        (WORK / "pretended/libcuda.so.1").unlink(missing_ok=True)
        (WORK / "pretended/libcuda.so.1").symlink_to(DRIVER)

    def test_launches(self):
        """What a library with compiled kernels launches, is what one of their sources launches, whichever function compiles them."""
        compiled = build("compiled", "--target", "cuda:sm_90a", "--hint", "m=512")
        sources = build("sources", "--target", "cuda:sm_90a", "--hint", "m=512", "--form", "nvrtc")
        wanted = call(compiled)
        self.assertEqual(wanted[0], [0, 0])
        self.assertGreaterEqual(len(wanted[2]), 4)
        self.assertEqual(call(sources), wanted)
        calls, _, launches = call(sources, "init")
        self.assertEqual((calls, launches), ([0, 0, 0], wanted[2]))
        inside = sources.read_bytes()
        self.assertIn(b"device/cuda/", inside)
        self.assertNotIn(b"\x7fELF", inside[4:])
        self.assertIn(b"\x7fELF", compiled.read_bytes()[4:])
        self.assertEqual(json.loads((WORK / "mlp.json").read_text())["kernels_as"], "sources for NVRTC")
        self.assertIn("which NVRTC compiles first", " ".join((WORK / "mlp.h").read_text().replace("*", " ").split()))
        self.assertNotIn(str(NVRTC).encode(), inside)
        first = sources.read_bytes()
        build("sources", "--target", "cuda:sm_90a", "--hint", "m=512", "--form", "nvrtc")
        self.assertEqual(sources.read_bytes(), first)
        (WORK / "loads.c").write_text(LOADS)
        run(CC, "-std=c11", WORK / "loads.c", "-o", WORK / "loads", "-ldl")
        run(WORK / "loads", sources, env={**os.environ, "LD_LIBRARY_PATH": f"{WORK / 'pretended'}:{NVRTC / 'lib'}"})

    def test_later_devices(self):
        """Sources for sm_80 are compiled for the device, of 9.0 here; those for sm_100a are for that alone."""
        sources = build("older", "--target", "cuda:sm_80", "--hint", "m=512", "--form", "nvrtc")
        calls, error, launches = call(sources, "init")
        self.assertEqual((calls, error), ([0, 0, 0], ""))
        self.assertGreaterEqual(len(launches), 4)
        (WORK / "twice.py").write_text("def twice(x: f32[32]):\n    y = x * 2.0\n    return y\n")
        calls, error, _ = call(build("twice", "--target", "cuda:sm_100a", "--form", "nvrtc", program="twice"), function="twice", count=2)
        self.assertEqual(calls, [-6, -6])
        self.assertIn("E0430: the kernels are compiled for another architecture than the device's: this library is made for sm_100a", error)

    def test_devices_are_compiled_for_at_once(self):
        """init() of a library for two devices, of which each has one kernel: neither waits for that of the other."""
        if (os.cpu_count() or 1) < 2:
            self.skipTest("one processor compiles one kernel after the other")
        (WORK / "pair.py").write_text("def pair(x: f32[32]):\n    y = exp(x)\n    z = tanh(to_device(y, 1))\n    return y, z\n")
        path = build("pair", "--target", "cuda:sm_80", "--form", "nvrtc", program="pair")
        (WORK / "pretended.c").write_text(PRETENDED)
        folder = WORK / "together"
        folder.mkdir(exist_ok=True)
        run(CC, "-shared", "-fPIC", "-DMAJOR=12", "-DARCH=90", "-DLOG", "-DTOGETHER", WORK / "pretended.c", "-o", folder / "libnvrtc.so.13")
        script = """import ctypes, sys
l = ctypes.CDLL(sys.argv[1])
l.pair_get_last_error.restype = ctypes.c_char_p
assert l.pair_set_further_devices((ctypes.c_int32 * 1)(0), 1) == 0, l.pair_get_last_error()
print(l.pair_init(), l.pair_get_last_error().decode())
"""
        said = run(sys.executable, "-c", script, path, env={**os.environ, "LD_LIBRARY_PATH": f"{WORK / 'pretended'}:{folder}"}).stdout
        self.assertRegex(said, r"^-8 E0504: .*: it made no binary \(0\)", "the pretended compiler makes none; alone it would say 6")

    def test_captures(self):
        """A call under capture compiles nothing: it says what to call before, and the capture stays valid. What does not enqueue may compile."""
        (WORK / "half.py").write_text("def half(x: f32[32]):\n    y = x * 0.5\n    return y\n")
        path = build("half", "--target", "cuda:sm_90a", "--form", "nvrtc", program="half")
        env = {**os.environ, "LD_LIBRARY_PATH": f"{WORK / 'pretended'}:{NVRTC / 'lib'}"}
        for steps, codes in ((["call"], [-1]), (["size", "call"], [0, 0]), (["init", "call"], [0, 0]), (["call", "outside", "call"], [-1, 0, 0])):
            found, said = json.loads(run(sys.executable, "-c", CAPTURED, path, "half", *steps, env=env).stdout)
            self.assertEqual(found, [*codes, 0], (steps, said))
            if -1 in codes:
                self.assertRegex(said, r"^E0535: a kernel would have to be compiled while a stream is captured: codetta_\w+ has not been compiled for a device like .+ yet; "
                                 r"the capture is still valid: call half_init\(\) before it begins$")
        self.assertIn("(E0535), and the capture stays valid", (WORK / "half.h").read_text())

    def test_workspaces_of_outputs_that_lie_otherwise(self):
        """Where a kernel of the user's writes an output that does not lie as it takes it, the workspace has room for what it writes, whatever the strides."""
        (WORK / "rows.cu").write_text(ROWS)
        (WORK / "rows.py").write_text('def rows(x: f32["m", 40]):\n    y = user_kernel("rows", x, out="f32[m, 40]")\n    return y\n')
        path = build("rows", "--target", "cuda:sm_90a", "--kernel", f"rows={WORK / 'rows.cu'}", "--form", "nvrtc", program="rows")
        env = {**os.environ, "LD_LIBRARY_PATH": f"{WORK / 'pretended'}:{NVRTC / 'lib'}"}
        codes, size, error = json.loads(run(sys.executable, "-c", STRIDED, path, env=env).stdout)
        self.assertEqual((set(codes), error), ({0}, ""))
        self.assertEqual(size, 1024, "6 rows of 40 floats in units of 256 bytes")
        self.assertEqual(json.loads((WORK / "rows.json").read_text())["programs"][0]["by_size"]["when_uneven"], [1])

    def test_what_is_missing_or_wrong(self):
        sources = build("sources", "--target", "cuda:sm_90a", "--hint", "m=512", "--form", "nvrtc")
        alone = call(sources, "init", nvrtc=None)
        if alone[0][0] != 0:  # there is none but that of the tests
            self.assertEqual(alone[0], [-6, -6, -6])
            self.assertRegex(alone[1], r"^E0530: no CUDA compiler was found: .*looked for libnvrtc\.so\.13, libnvrtc\.so\.12 and libnvrtc\.so ")
        (WORK / "pretended.c").write_text(PRETENDED)
        unusable = "E0531: the CUDA compiler can not be used: "
        for flags, said in (
            (None, unusable + r".*libnvrtc\.so\.13: "),  # the loader's own words
            (["-DMAJOR=11", "-DARCH=90", "-DLOG"], unusable + r"it is NVRTC 11\.3, and 12\.0 is the oldest that is supported"),
            (["-DMAJOR=12", "-DARCH=90"], unusable + r"libnvrtc lacks nvrtcGetProgramLog; 12\.0 is the oldest that does"),
            (["-DMAJOR=12", "-DARCH=89", "-DLOG"], r"E0532: the CUDA compiler does not know the architecture: NVRTC 12\.3 has no sm_90"),
            (["-DMAJOR=12", "-DARCH=90", "-DLOG"], r"E0504: the compiler rejected a kernel: NVRTC 12\.3 of codetta_\w+, --gpu-architecture=sm_90a: it made no binary \(0\): so!"),
        ):
            if flags is None and alone[0][0] == 0:
                continue
            folder = WORK / "in_its_place"
            folder.mkdir(exist_ok=True)
            (folder / "libnvrtc.so.13").write_text("no library")
            if flags is not None:
                run(CC, "-shared", "-fPIC", *flags, WORK / "pretended.c", "-o", folder / "libnvrtc.so.13")
            calls, error, launches = call(sources, "init", nvrtc=folder)
            self.assertEqual((set(calls), launches), ({-8 if "E0504" in said else -6}, []), error)
            self.assertRegex(error, "^" + said)
        (WORK / "picky.cu").write_text(KERNEL)
        (WORK / "picky.py").write_text('def picky(x: f32[32]):\n    y = user_kernel("picky", x, out="f32[32]")\n    return y\n')
        path = build("picky", "--target", "cuda:sm_80", "--kernel", f"picky={WORK / 'picky.cu'}", "--form", "nvrtc", program="picky")
        for more in ((), ("init",)):
            calls, error, launches = call(path, *more, function="picky", count=2)
            self.assertEqual((calls[0], launches), (-8, []))
            self.assertRegex(error, r"^E0504: the compiler rejected a kernel: NVRTC \d+\.\d+ of codetta_picky_\w+, --gpu-architecture=sm_90: (.|\n)*this one is for sm_80 alone")
        for target in ("cpu", "hip:gfx942"):
            refused = run(CODETTA, "build", WORK / "mlp.py", "-o", WORK / "libno.so", "--target", target, "--form", "nvrtc", code=1).stderr
            self.assertRegex(refused, rf"error\[E0440\]: there are no sources for NVRTC for {target}")


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    if not (NVRTC / "lib").exists():
        print("SKIPPED: there is no NVRTC at", NVRTC)
        return
    unittest.main(argv=sys.argv[:1] + sys.argv[8:], verbosity=2)


if __name__ == "__main__":
    main()
