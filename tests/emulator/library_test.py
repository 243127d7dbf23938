# SPDX-License-Identifier: Apache-2.0
"""A library that is built for AMD's GPUs computes over the emulator in the place of AMD's runtime what the program says, called by a C program that links it and one that
unloads it: both end well. Arguments: the codetta command, a C compiler, the emulated runtime."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from watch_test import FAILURES, Machine

PROGRAM = 'def mlp(x: f32["m", 8], w: f32[8, 16], v: f32[16, 4]):\n    y = relu(x @ w) @ v\n    return y\n'
# x is the row + 1, w is 1 or -1, v is the column + 1: y = (row + 1) * 8 * 8 * (column + 1). The emulated device's memory is the host's.
MAIN = """#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "mlp.h"
static int (*allocate)(void** memory, size_t bytes);
static float* filled(int rows, int columns, int which) {
  void* memory = NULL;
  if (allocate(&memory, sizeof(float) * (size_t)(rows * columns)) != 0) return NULL;
  for (int i = 0; i < rows * columns; ++i) {
    const int row = i / columns, column = i % columns;
    ((float*)memory)[i] = (float)(which == 0 ? row + 1 : which == 1 ? (column % 2 ? -1 : 1) : which == 2 ? column + 1 : 0);
  }
  return memory;
}
int main(int argc, char** argv) {
  int (*init)(void) = NULL;
  int (*call)(const float*, const float*, const float*, float*, int64_t, void*) = NULL;
#ifdef LINKED
  void* library = NULL;
  init = mlp_init;
  call = mlp_mlp;
#else
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) return 2;
  *(void**)&init = dlsym(library, "mlp_init");
  *(void**)&call = dlsym(library, "mlp_mlp");
#endif
  /* The runtime is loaded by the library, so that it is torn down before it. */
  if (dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD) != NULL || init() != 0) return 3;
  void* runtime = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD);
  if (runtime == NULL) return 4;
  *(void**)&allocate = dlsym(runtime, "hipMalloc");
  for (int m = 1; m < 8; m += 3) {
    float *x = filled(m, 8, 0), *w = filled(8, 16, 1), *v = filled(16, 4, 2), *y = filled(m, 4, 3);
    if (call(x, w, v, y, m, NULL) != 0) return 5;
    for (int i = 0; i < 4 * m; ++i) {
      const int wanted = (i / 4 + 1) * 64 * (i % 4 + 1);
      if (y[i] != (float)wanted) return printf("y[%d] of %d rows is %g, not %d\\n", i, m, y[i], wanted), 6;
    }
  }
  if (argc > 2 && (dlclose(library) != 0 || dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL)) return 7;
  puts("all is right");
  return 0;
}
"""

# Without rows t is 4 times exp(0) and e is exp(0), which the product's kernel has no rows for.
WITHOUT = 'def none(x: f32["m", 8], w: f32[8, 4]):\n    y = x @ w\n    c = exp(sum(y, dim=0))\n    t = sum(c)\n    e = max(c, dim=1)\n    return y, t, e\n'
EMPTY = """import ctypes, sys
l = ctypes.CDLL(sys.argv[1])
assert l.none_init() == 0
hip = ctypes.CDLL("libamdhip64.so.6")
def memory(count, value):
    at = ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(at), ctypes.c_size_t(4 * count)) == 0
    made = ctypes.cast(at, ctypes.POINTER(ctypes.c_float))
    for i in range(count): made[i] = value
    return made
x, w, y, found = memory(16, 0.0), memory(32, 1.0), memory(8, 99.0), []
for m in (2, 0):
    t, e = memory(1, 99.0), memory(1, 99.0)
    found += [l.none_none(x, w, y, t, e, ctypes.c_int64(m), None), t[0], e[0]]
print(found)
"""

# Rows are taken from what has none only where the loop has a turn.
TURNS = """def more(t, n, h, x):
    return t < n

def turn(t, n, h, x):
    return t + 1, n, h + take(x, t), x

def turns(x: f32["l", 4], n: i64):
    _, _, h, _ = while_loop(more, turn, cast(0, i64), n, zeros(4), x)
    return h
"""
TAKES = """import ctypes, sys
l = ctypes.CDLL(sys.argv[1])
assert l.turns_init() == 0
l.turns_get_last_error.restype = ctypes.c_char_p
hip = ctypes.CDLL("libamdhip64.so.6")
def memory(count, value):
    at = ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(at), ctypes.c_size_t(4 * count)) == 0
    made = ctypes.cast(at, ctypes.POINTER(ctypes.c_float))
    for i in range(count): made[i] = value
    return made
x, h = memory(12, 1.0), memory(4, 99.0)
for rows, turns in ((3, 2), (0, 0), (3, 3), (0, 1)):
    status = l.turns_turns(x, ctypes.c_int64(turns), h, ctypes.c_int64(rows), None)
    print(status == 0, h[0] if status == 0 else l.turns_get_last_error().decode())
"""

# A kernel of the user's writes outputs that lie as temporaries do, and others are copied from one: y is x + 1, and nothing beside it is touched.
OWN = 'def own(x: f32["m", 8]):\n    y = user_kernel("add", x, out="f32[m, 8]")\n    return y\n'
ADD = """#pragma codetta kernel(x: f32[m, n], out y: f32[m, n])
#pragma codetta sizes(m, n) block(64) grid(ceil_div(m * n, 64))
extern "C" __global__ void add(const float* x, float* y, int64_t m, int64_t n) {
  const int64_t i = blockIdx.x * 64 + threadIdx.x;
  if (i < m * n) y[i] = x[i] + 1.0f;
}
"""
STRIDES = """import ctypes, random, sys
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]
l = ctypes.CDLL(sys.argv[1])
assert l.own_init() == 0
l.own_get_last_error.restype = ctypes.c_char_p
hip = ctypes.CDLL("libamdhip64.so.6")
def memory(count):
    at = ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(at), ctypes.c_size_t(4 * count)) == 0
    return at.value, ctypes.cast(at, ctypes.POINTER(ctypes.c_float))
l.own_own_workspace_size.restype = ctypes.c_int64
for m, first, row, column in ((5, 0, 8, 1), (5, 1, 8, 1), (5, 4, 12, 1), (5, 0, 1, 5), (5, 32, -8, 1), (1, 0, 99, 1), (0, 3, 8, 1)):
    (at, x), (to, y) = memory(8 * m + 1), memory(200)
    for i in range(8 * m): x[i] = random.uniform(-1, 1)
    for i in range(200): y[i] = 99.0
    tensors = (Tensor * 2)(Tensor(at, 13, 2, (m, 8), (8, 1)), Tensor(to + 4 * first, 13, 2, (m, 8), (row, column)))
    size = l.own_own_workspace_size(ctypes.c_int64(m))
    assert 32 * m <= size <= 32 * m + 256, f"{size} bytes for {m} rows beside an output that lies otherwise"
    for space, bytes in ((None, 0), (memory(size // 4 + 1)[0], size)):
        status = l.own_own_tensors(tensors, 2, ctypes.c_void_p(space), ctypes.c_int64(bytes), None)
        assert status == 0, l.own_get_last_error()
        for r in range(m):
            for c in range(8):
                wanted = ctypes.c_float(x[8 * r + c] + 1.0).value
                assert y[first + r * row + c * column] == wanted, (m, first, row, column, bytes, r, c)
                y[first + r * row + c * column] = 99.0
        assert all(y[i] == 99.0 for i in range(200)), (m, first, row, column, bytes)
print("all is right")
"""

# Behind a size that the call computes other kernels take over where rows are aligned less than those of the hint's rely on, or where there are none; what is donated has
# been written over by then, so that the call can not begin anew. x has a 1 in each row of its first `full`, which are k.
LATE = """def late(x: f16["m", 16], d: donated[f32["m", 4]]):
    h = d * 2.0
    k = sum(cast(max(x, dim=1, keepdim=False) > 0.0, i64), keepdim=False)
    p = cast(x @ transpose(x[:k]), f16)
    y = cast(p @ x[:k], f32)
    q = cast(x @ transpose(x), f16) * cast(sum(x[:k], keepdim=False), f16)
    z = cast(q @ x, f32)
    t = sum(exp(sum(cast(x[:k] @ transpose(x), f32), dim=0) * 0.0))
    return h, y, z, t
"""
CALLS = """import ctypes, sys
l = ctypes.CDLL(sys.argv[1])
assert l.late_init() == 0
l.late_get_last_error.restype = ctypes.c_char_p
hip = ctypes.CDLL("libamdhip64.so.6")
def memory(count, kind):
    at = ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(at), ctypes.c_size_t(max(count, 1) * ctypes.sizeof(kind))) == 0
    return ctypes.cast(at, ctypes.POINTER(kind))
for m in (64, 30, 1, 0):
    for full in (64, 20, 0):
        rows = [[int(i < full and (7 * i + 3 * j) % 5 == 0) for j in range(16)] for i in range(m)]
        k = sum(any(row) for row in rows)
        x, d = memory(16 * m, ctypes.c_uint16), memory(4 * m, ctypes.c_float)
        h, y, z, t = memory(4 * m, ctypes.c_float), memory(16 * m, ctypes.c_float), memory(16 * m, ctypes.c_float), memory(1, ctypes.c_float)
        for i in range(m):
            for j in range(16): x[16 * i + j] = 0x3C00 * rows[i][j]
            for j in range(4): d[4 * i + j] = float(i + j)
        status = l.late_late(x, d, h, y, z, t, ctypes.c_int64(m), None)
        assert status == 0, (m, full, l.late_get_last_error())
        def product(a, b): return [[sum(r * b[i][j] for i, r in enumerate(row)) for j in range(16)] for row in a]
        turned = [[sum(a * b for a, b in zip(row, other)) for other in rows] for row in rows]
        every = sum(sum(row) for row in rows[:k])
        wanted = ([2.0 * (i + j) for i in range(m) for j in range(4)], product([row[:k] for row in turned], rows[:k]), product([[every * v for v in row] for row in turned], rows))
        assert [h[i] for i in range(4 * m)] == wanted[0], (m, full, "h")
        for name, made, right in (("y", y, wanted[1]), ("z", z, wanted[2])):
            assert [made[i] for i in range(16 * m)] == [float(v) for row in right for v in row], (m, full, name)
        assert t[0] == float(m), (m, full, t[0])
print("all is right")
"""


def main():
    if shutil.which("g++") is None:
        print("skipped: the emulator needs a g++")
        return 77
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        machine = Machine(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[3]).resolve(), folder)
        (folder / "mlp.py").write_text(PROGRAM)
        machine.run("build", "mlp.py", "-o", "libmlp.so", "--target", "hip:gfx942")
        (folder / "main.c").write_text(MAIN)
        for name, options in (("linked", ["-DLINKED", "-L.", "-lmlp"]), ("loads", [])):
            built = subprocess.run([sys.argv[2], "-std=c11", "main.c", "-o", name, *options, "-ldl", "-Wl,-rpath,$ORIGIN"], cwd=folder, capture_output=True, text=True)
            if built.returncode:
                FAILURES.append(built.stderr)
        for command in (["./linked"], ["./loads", "./libmlp.so"], ["./loads", "./libmlp.so", "unload"]):
            done = subprocess.run(command, cwd=folder, env=machine.environment, capture_output=True, text=True, timeout=300)
            if done.returncode or done.stdout != "all is right\n":
                FAILURES.append(f"{command}: status {done.returncode}: {done.stdout}{done.stderr}")
        (folder / "none.py").write_text(WITHOUT)
        machine.run("build", "none.py", "-o", "libnone.so", "--target", "hip:gfx942")
        done = subprocess.run([sys.executable, "-c", EMPTY, "./libnone.so"], cwd=folder, env=machine.environment, capture_output=True, text=True, timeout=300)
        if done.returncode or done.stdout != "[0, 4.0, 1.0, 0, 4.0, 1.0]\n":
            FAILURES.append(f"no rows: status {done.returncode}: {done.stdout}{done.stderr}")
        (folder / "turns.py").write_text(TURNS)
        machine.run("build", "turns.py", "-o", "libturns.so", "--target", "hip:gfx942")
        done = subprocess.run([sys.executable, "-c", TAKES, "./libturns.so"], cwd=folder, env=machine.environment, capture_output=True, text=True, timeout=300)
        nothing = "E0618: elements of x are taken by indices, and it has none: it is f32[0, 4], and 4 elements are computed of it"
        if done.returncode or done.stdout != f"True 2.0\nTrue 0.0\nTrue 3.0\nFalse {nothing}\n":
            FAILURES.append(f"turns: status {done.returncode}: {done.stdout}{done.stderr}")
        (folder / "late.py").write_text(LATE)
        machine.run("build", "late.py", "-o", "liblate.so", "--target", "hip:gfx942", "--hint", "m=64")
        done = subprocess.run([sys.executable, "-c", CALLS, "./liblate.so"], cwd=folder, env=machine.environment, capture_output=True, text=True, timeout=300)
        if done.returncode or done.stdout != "all is right\n":
            FAILURES.append(f"behind a computed size: status {done.returncode}: {done.stdout}{done.stderr}")
        (folder / "own.py").write_text(OWN)
        (folder / "add.hip").write_text(ADD)
        for options in ([], ["--no-checks"]):
            machine.run("build", "own.py", "-o", "libown.so", "--target", "hip:gfx942", "--kernel", "add=add.hip", *options)
            done = subprocess.run([sys.executable, "-c", STRIDES, "./libown.so"], cwd=folder, env=machine.environment, capture_output=True, text=True, timeout=300)
            if done.returncode or done.stdout != "all is right\n":
                FAILURES.append(f"a kernel of the user's, {options}: status {done.returncode}: {done.stdout}{done.stderr}")
    print("\n".join(FAILURES))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
