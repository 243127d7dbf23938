#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python modules for CUDA on a GPU. --build CODETTA FOLDER emits them, without a GPU, and puts the engine's library
beside them; --run CODETTA FOLDER calls each on random data over cuda.bindings, holds runs in process to the oracle, and
the modules to the runs in process: the same bits. Kernels of the user's are among them, with all that a source can say
about its launch. Needs numpy and cuda.bindings (pip install cuda-bindings) for --run."""
import importlib.util
import json
import math
import os
import pathlib
import shutil
import sys

from aot_check import SOURCE, npy, npy_data, run, values

ARCHITECTURE = "cuda:sm_90a"
os.environ["CODETTA_NO_VENDOR"] = "1"  # modules have no kernels of cuBLASLt
DECAY = 0.5
COPYING = r"""
__device__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ void expect(unsigned long long* bar, unsigned bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(bar)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long* bar) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at(bar)) : "memory");
  }
}
"""
ROTATE = r"""
#pragma codetta kernel(x: f32[m, 64], out y: f32[m, 64]) block(64) grid(m) cluster(4) cooperative
extern "C" __global__ void rotate(const float* x, float* y) {
  __shared__ float row[64];
  row[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  unsigned rank, here, there;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  here = static_cast<unsigned>(__cvta_generic_to_shared(&row[threadIdx.x]));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"((rank + 1) % 4));
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
  y[blockIdx.x * 64 + threadIdx.x] = value;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""
LATE = r"""
#pragma codetta kernel(x: f32[n], k: f32, out y: f32[n]) sizes(n: i32, stride(x, 0)) block(128) grid(ceil_div(n, 128)) dependent
#pragma codetta window(x, bytes = 2 * n, percent = 80)
extern "C" __global__ void late(const float* x, float k, float* y, int32_t n, int64_t stride) {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int64_t i = int64_t(blockIdx.x) * 128 + threadIdx.x;
  const long long begin = clock64();
  while (clock64() - begin < 100000) {}
  if (i < n) y[i] = k * *(volatile const float*)&x[i * stride] + 1.0f;
}
"""
BOXES = r"""
#pragma codetta kernel(x: f32[m, n], out y: f32[48, 64]) sizes(stride(x, 0)) block(128) grid(2, 3)
#pragma codetta map(x, box(16, 32), swizzle(128))
""" + COPYING + r"""
extern "C" __global__ void boxes(const __grid_constant__ TensorMap x, float* y, int64_t) {
  __shared__ alignas(1024) float box[16 * 32];
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) {
    expect(&bar, sizeof box);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(box)), "l"(&x), "r"(int(blockIdx.x) * 32), "r"(int(blockIdx.y) * 16), "r"(at(&bar)) : "memory");
  }
  __syncthreads();
  wait(&bar);
  for (int i = threadIdx.x; i < 512; i += 128) {
    const int r = i / 32, c = i % 32;
    y[(blockIdx.y * 16 + r) * 64 + blockIdx.x * 32 + c] = box[r * 32 + (((c / 4) ^ (r % 8)) * 4 + c % 4)];
  }
}
"""
TAPS = r"""
#pragma codetta kernel(x: f32[b, h, w, 8], out y: f32[t, p, 8])
#pragma codetta sizes(p: i32, (h - 1) / 2 + 1: i32, (w - 1) / 2 + 1: i32)
#pragma codetta im2col(x, filter(3, 3), padding(1, 1), stride(2, 2), channels(8), pixels(32))
#pragma codetta block(64) grid(ceil_div(p, 32), t)
""" + COPYING + r"""
extern "C" __global__ void taps(const __grid_constant__ TensorMap x, float* y, int p, int oh, int ow) {
  __shared__ alignas(128) float box[32 * 8];
  __shared__ unsigned long long bar;
  const int first = blockIdx.x * 32, tap = blockIdx.y;
  if (threadIdx.x == 0) {
    expect(&bar, sizeof box);
    const int w = first % ow * 2 - 1, h = first / ow % oh * 2 - 1, n = first / (ow * oh);
    const unsigned short fw = tap % 3, fh = tap / 3;
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{%2, %3, %4, %5}], [%6], {%7, %8};"
                 ::"r"(at(box)), "l"(&x), "r"(0), "r"(w), "r"(h), "r"(n), "r"(at(&bar)), "h"(fw), "h"(fh) : "memory");
  }
  __syncthreads();
  wait(&bar);
  for (int i = threadIdx.x; i < 256; i += 64) {
    if (first + i / 8 < p) y[(int64_t(tap) * p + first + i / 8) * 8 + i % 8] = box[i];
  }
}
"""
# name: text or example, kernel of the user's (name and source or file), inputs, outputs, sizes of which the first are
# hints; all f32, an input without dims is a number.
EXAMPLES = SOURCE / "examples/user_kernel"
PROGRAMS = {
    "products": ("def products(x: f32['m', 256], w: f32[256, 512], b: f32[512], v: f32[512, 64]):\n"
                 "    h = gelu(x @ w + b)\n    y = softmax(h @ v)\n    return y\n", None,
                 {"x": ("m", 256), "w": (256, 512), "b": (512,), "v": (512, 64)}, {"y": ("m", 64)},
                 [{"m": 64}, {"m": 1}, {"m": 333}, {"m": 0}]),
    "sums": (EXAMPLES / "program.py", ("running_sums", EXAMPLES / "running_sums.cu"),
             {"x": ("m", 16), "w": (16, 24), "decay": (), "v": (24, 8)}, {"y": ("m", 8)},
             [{"m": 64}, {"m": 1}, {"m": 1000}, {"m": 0}]),
    "hooked": (EXAMPLES / "hooked.py", ("running_sums", EXAMPLES / "hooked_sums.cu"),
               {"x": ("m", "n"), "decay": (), "gate": ("m", "n"), "bias": ("n",)}, {"y": ("m", "n")},
               [{"m": 64, "n": 500}, {"m": 1, "n": 1}, {"m": 33, "n": 3000}, {"m": 0, "n": 7}]),
    "rotate": ("def f(x: f32['m', 64]):\n    y = user_kernel('rotate', x, out='f32[m, 64]')\n    return y\n",
               ("rotate", ROTATE), {"x": ("m", 64)}, {"y": ("m", 64)}, [{"m": 60}, {"m": 4}]),
    "late": ("def f(x: f32['n'], scale: f32):\n    a = user_kernel('late', x, scale, out='f32[n]')\n"
             "    b = user_kernel('late', a, scale, out='f32[n]')\n    y = user_kernel('late', b, scale, out='f32[n]')\n"
             "    return y\n", ("late", LATE), {"x": ("n",), "scale": ()}, {"y": ("n",)}, [{"n": 20000}, {"n": 1}]),
    "boxes": ("def f(x: f32['m', 'n']):\n    y = user_kernel('boxes', x, out='f32[48, 64]')\n    return y\n",
              ("boxes", BOXES), {"x": ("m", "n")}, {"y": (48, 64)}, [{"m": 48, "n": 64}, {"m": 41, "n": 52}]),
    "taps": ("def f(x: f32['b', 9, 11, 8]):\n    y = user_kernel('taps', x, out='f32[9, b * 30, 8]')\n    return y\n",
             ("taps", TAPS), {"x": ("b", 9, 11, 8)}, {"y": (9, 60, 8)}, [{"b": 2}]),
}
# What the others give is what a kernel of the user's has stored, which the oracle takes as it is; tests/cuda_device knows
# what these kernels compute.
CHECKED = ("products", "sums", "hooked")


def command_of(folder, name):
    """The program and its kernel, as the codetta command takes them."""
    program, kernel = PROGRAMS[name][:2]
    if isinstance(program, str):
        (folder / f"{name}.py").write_text(program)
        program = folder / f"{name}.py"
    words = [program, "--target", ARCHITECTURE]
    for symbol, size in PROGRAMS[name][4][0].items():
        words += ["--hint", f"{symbol}={size}"]
    if kernel:
        source = kernel[1]
        if isinstance(source, str):
            source = folder / f"{name}.cu"
            source.write_text(kernel[1])
        words += ["--kernel", f"{kernel[0]}={source}"]
    return words


def build(codetta, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        text = run(codetta, "emit", *command_of(folder, name), "--what=python")
        (folder / f"{name}_module.py").write_text(text)
        print(f"{name}_module.py: {len(text)} characters")
    for place in (codetta.parents[1] / "codetta", codetta.parents[1] / "lib/codetta"):
        if (place / "libcodetta_host.so").exists():
            shutil.copy(place / "libcodetta_host.so", folder)
            return
    sys.exit("python_check.py: no libcodetta_host.so beside the codetta command")


class Memory:
    """f32 in device memory, as modules take it."""

    def __init__(self, driver, shape, data):
        def check(result):
            assert int(result[0]) == 0, result
            return result[1] if len(result) > 1 else None

        self.driver, self.check, self.size = driver, check, len(data)
        self.address = int(check(driver.cuMemAlloc(max(len(data), 256))))
        if data:
            check(driver.cuMemcpyHtoD(self.address, bytes(data), len(data)))
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (self.address, False), "version": 3}

    def bytes(self):
        data = bytearray(self.size)
        self.check(self.driver.cuCtxSynchronize())
        if data:
            self.check(self.driver.cuMemcpyDtoH(data, self.address, len(data)))
        return bytes(data)

    def free(self):
        self.check(self.driver.cuMemFree(self.address))


def check(codetta, folder, driver, name):
    _, _, inputs, outputs, all_sizes = PROGRAMS[name]
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}_module.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ENGINE = str((folder / "libcodetta_host.so").resolve())
    assert module.init() == 0, module.get_last_error()
    compared = 0
    for sizes in all_sizes:
        def of(shape):
            return tuple(sizes.get(s, s) for s in shape)
        options, arguments = [], []
        for i, (argument, shape) in enumerate(inputs.items()):
            if not shape:
                options += ["--scalar", f"{argument}={DECAY}"]
                arguments.append(DECAY)
                continue
            data = values(of(shape), "f", 1 if argument == "x" else 0.1, 100 * i + sum(sizes.values()))
            npy(folder / f"{argument}.npy", of(shape), data, "f")
            options += ["--tensor", f"{argument}={folder / argument}.npy"]
            arguments.append(Memory(driver, of(shape), data))
        for output in outputs:
            options += ["--out", f"{output}={folder / output}_expected.npy"]
        command = [codetta, "run", *command_of(folder, name), *options, "--json"]
        if name in CHECKED:
            verdict = json.loads(run(*command, "--check"))["check"]["verdict"]
            assert verdict == "pass", f"{name} in process, for {sizes}: {verdict}"
        run(*command)
        results = {output: Memory(driver, of(shape), b"\xa5" * (4 * math.prod(of(shape))))
                   for output, shape in outputs.items()}
        for turn in range(2):
            status = module.call(*arguments, *results.values())
            assert status == 0, f"{name} for {sizes}: {module.get_last_error()}"
            for output, memory in results.items():
                assert memory.bytes() == npy_data(folder / f"{output}_expected.npy"), \
                    f"{name}.{output} for {sizes}, call {turn}: other bits than in process"
                compared += 1
        for memory in [*results.values(), *(a for a in arguments if isinstance(a, Memory))]:
            memory.free()
    print(f"{name}: {compared} results with the bits of runs in process")


def refusals(folder, driver):
    """What a device can not do is said with its numbers, and nothing is launched."""
    spec = importlib.util.spec_from_file_location("refused", folder / "hooked_module.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ENGINE = str((folder / "libcodetta_host.so").resolve())
    wide = [Memory(driver, shape, b"\0" * (4 * math.prod(shape))) for shape in ((1, 100000), (1, 100000), (100000,), (1, 100000))]
    status = module.call(wide[0], DECAY, wide[1], wide[2], wide[3])
    text = module.get_last_error()
    assert status == -1 and "Failed to set the allowed dynamic shared memory size to 1600000" in text, text
    print(text)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("--build", "--run"):
        sys.exit("usage: python_check.py --build|--run CODETTA FOLDER")
    mode, codetta, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    if not (codetta.is_file() and os.access(codetta, os.X_OK)):
        sys.exit(f"python_check.py: {codetta} is not the codetta command")
    if mode == "--build":
        build(codetta, folder)
        return
    from cuda.bindings import driver
    assert int(driver.cuInit(0)[0]) == 0
    status, context = driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])
    assert int(status) == 0 and int(driver.cuCtxSetCurrent(context)[0]) == 0
    for name in PROGRAMS:
        check(codetta, folder, driver, name)
    refusals(folder, driver)
    print(f"[  PASSED  ] {len(PROGRAMS) + 1} tests.")


if __name__ == "__main__":
    main()
