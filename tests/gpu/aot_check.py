#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries for CUDA on a GPU. --build CODETTA FOLDER makes them, without a GPU: with kernels inside, with their sources
for NVRTC, without hints, and where nvcc is on PATH once more from the sources that --form nvcc writes; --run CODETTA
FOLDER calls each on random data, holds runs in process to the oracle, and the libraries to the runs in process: the same
bits, or, where a run in process took a kernel of the vendor's, another compiler made the library, or it has kernels for
numbers of rows, the same numbers. Standard library only."""
import array
import ctypes
import itertools
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURE = "cuda:sm_90a"
# name: text or example, inputs, outputs, dtype ("f" or "e"), sizes of which the first are hints; an input without dims is a
# scalar
PROGRAMS = {
    "chain": ("def chain(x: f16['m', 1024], w: f16[1024, 3072], b: f16[3072], v: f16[3072, 1024]):\n"
              "    h = gelu(x @ w + b)\n    y = h @ v\n    return y\n",
              {"x": ("m", 1024), "w": (1024, 3072), "b": (3072,), "v": (3072, 1024)}, {"y": ("m", 1024)}, "e",
              [{"m": 512}, {"m": 1}, {"m": 8}, {"m": 1000}, {"m": 0}]),
    "deep": ("def deep(x: f16['m', 16384], w: f16[16384, 256], r: f16['m', 256]):\n    y = x @ w + r\n    return y\n",
             {"x": ("m", 16384), "w": (16384, 256), "r": ("m", 256)}, {"y": ("m", 256)}, "e", [{"m": 128}, {"m": 5}]),
    "odd": ("def odd(x: f16['m', 1001], w: f16[1001, 333]):\n    y = softmax(x @ w)\n    return y\n",
            {"x": ("m", 1001), "w": (1001, 333)}, {"y": ("m", 333)}, "e", [{"m": 500}, {"m": 3}]),
    "attention": (SOURCE / "examples/programs/attention.py",
                  {"q": ("heads", "s", 64), "k": ("heads", "t", 64), "v": ("heads", "t", 64)},
                  {"context": ("heads", "s", 64)}, "f",
                  [{"heads": 3, "s": 20, "t": 33}, {"heads": 1, "s": 1, "t": 1}, {"heads": 0, "s": 5, "t": 5}]),
    "llama_block": (SOURCE / "examples/programs/llama_block.py",
                    {"x": ("b", "s", 256), "attention_weight": (256,), "wq": (256, 256), "wk": (256, 256),
                     "wv": (256, 256), "wo": (256, 256), "cosines": ("s", 16), "sines": ("s", 16), "mlp_weight": (256,),
                     "w_gate": (256, 768), "w_up": (256, 768), "w_down": (768, 256)}, {"y": ("b", "s", 256)}, "f",
                    [{"b": 2, "s": 16}, {"b": 1, "s": 1}, {"b": 1, "s": 37}]),
    "hooked": (SOURCE / "examples/user_kernel/hooked.py",
               {"x": ("m", "n"), "decay": (), "gate": ("m", "n"), "bias": ("n",)}, {"y": ("m", "n")}, "f",
               [{"m": 64, "n": 500}, {"m": 1, "n": 1}, {"m": 1000, "n": 33}, {"m": 0, "n": 7}]),
}
# Factors of three leading dims, which another program copies where they have more strides than two.
UNEVEN = """def attend(x: f16["b", 3, 2, "m", 64], k: f16["b", 3, 2, "m", 64]):
    s = cast(exp(x @ transpose(k, 3, 4) * 0.125), f16)
    y = cast(s @ k, f16)
    return s, y
"""
# A function of the caller's that allocates its result in each turn of a loop and in a branch.
ALLOCATING = """def more(i, x, z):
    return i < 3

def turn(i, x, z):
    h = call_extern("rows", x, out="f32[k, 4]", form="alloc")
    return i + 1, x, z * 2.0 + sum(relu(h), dim=0)

def taken(x, z):
    g = call_extern("rows", x, out="f32[j, 4]", form="alloc")
    return z - sum(g, dim=0)

def left(x, z):
    return z * 3.0

def calls(x: f32["m", 4], z: f32[1, 4], flag: bool):
    i, same, end = while_loop(more, turn, 0, x, z)
    y = cond(flag, taken, left, same, end)
    return y
"""
# Folders of further libraries of each program, and what makes them others.
FORMS = {"nvrtc": ["--form", "nvrtc"], "by_size": ["--by-size", "5"]}
KERNELS = {"hooked": ["--kernel", f"running_sums={SOURCE / 'examples/user_kernel/hooked_sums.cu'}"]}
DECAY = 0.5


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def text_of(folder, name):
    program = PROGRAMS[name][0]
    if isinstance(program, pathlib.Path):
        return program
    path = folder / f"{name}.py"
    path.write_text(program)
    return path


def hints_of(name):
    return sum((["--hint", f"{symbol}={size}"] for symbol, size in PROGRAMS[name][4][0].items()), [])


def without_hints(command):
    """--hint and what follows it left out."""
    return [word for before, word in zip([None, *command], command) if "--hint" not in (before, word)]


def build(codetta, folder):
    (folder / "nvcc").mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        command = [codetta, "build", text_of(folder, name), "--target", ARCHITECTURE, *hints_of(name), *KERNELS.get(name, [])]
        print(run(*command, "-o", folder / f"lib{name}.so").strip())
        for form, more in FORMS.items():
            (folder / form).mkdir(exist_ok=True)
            print(run(*(command if form == "nvrtc" else without_hints(command)), *more, "-o", folder / form / f"lib{name}.so").strip())
        if shutil.which("nvcc"):
            print(run(*command, "-o", folder / "nvcc" / name, "--form", "nvcc").strip())
            print(run("sh", folder / "nvcc" / name / "build.sh").strip())
    (folder / "attend.py").write_text(UNEVEN)
    print(run(codetta, "build", folder / "attend.py", "--target", ARCHITECTURE, "--hint", "b=2", "--hint", "m=40", "-o", folder / "libattend.so").strip())
    (folder / "calls.py").write_text(ALLOCATING)
    print(run(codetta, "build", folder / "calls.py", "--target", ARCHITECTURE, "-o", folder / "libcalls.so").strip())


def npy(path, shape, data, code):
    header = f"{{'descr': '<{dict(f='f4', e='f2')[code]}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def npy_code(path):
    """Of the elements: f (f32) or e (f16)."""
    return {b"<f4": "f", b"<f2": "e"}[path.read_bytes().split(b"'descr': '")[1][:3]]


def npy_data(path):
    raw = path.read_bytes()
    return raw[10 + struct.unpack_from("<H", raw, 8)[0]:]


class Driver:
    """Device memory through libcuda."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            raise AssertionError(f"{name} gives {status}")

    def upload(self, data):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 256)))
        if data:
            self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address

    def download(self, address, count):
        data = ctypes.create_string_buffer(max(count, 1))
        self.call("cuCtxSynchronize")
        if count:
            self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(count))
        return data.raw[:count]

    def free(self, address):
        self.call("cuMemFree_v2", address)


def numbers(data, code):
    return struct.unpack(f"<{len(data) // dict(f=4, e=2)[code]}{code}", data)


NORMAL = array.array("f", (random.Random(7).gauss(0, 1) for _ in range(1 << 16)))


def values(shape, code, scale, seed):
    count = math.prod(shape)
    start = random.Random(seed).randrange(len(NORMAL))
    piece = [scale * v for v in NORMAL[start:] + NORMAL[:start]]
    unit = struct.pack(f"<{len(piece)}{code}", *piece)
    size = count * dict(f=4, e=2)[code]
    return (unit * (size // len(unit) + 1))[:size]


class Library:
    """One function of a library; counts its results that are the bits, and those that are the numbers, of others."""

    def __init__(self, path, name, function):
        so = ctypes.CDLL(str(path))
        self.call, self.error = getattr(so, f"{name}_{function}"), getattr(so, f"{name}_get_last_error")
        self.error.restype = ctypes.c_char_p
        self.same = self.near = 0


def check(codetta, folder, driver, name):
    _, inputs, outputs, code, all_sizes = PROGRAMS[name]
    function = {"hooked": "user_kernel_with_hook"}.get(name, name)
    libraries = {"": Library(folder / f"lib{name}.so", name, function)}
    for form in FORMS:
        libraries[f", {form}"] = Library(folder / form / f"lib{name}.so", name, function)
    sources = folder / "nvcc" / name / f"lib{name}.so"
    if sources.exists():
        libraries[" by nvcc"] = Library(sources, name, function)
    for sizes in all_sizes:
        def of(shape):
            return tuple(sizes.get(s, s) for s in shape)
        options, arguments, memory = [], [], []
        for i, (argument, shape) in enumerate(inputs.items()):
            if not shape:
                options += ["--scalar", f"{argument}={DECAY}"]
                arguments.append(ctypes.c_float(DECAY))
                continue
            data = values(of(shape), code, 1 if argument in "xqkvr" else 0.03, 100 * i + sum(sizes.values()))
            npy(folder / f"{argument}.npy", of(shape), data, code)
            options += ["--tensor", f"{argument}={folder / argument}.npy"]
            memory.append(driver.upload(data))
            arguments.append(memory[-1])
        for output in outputs:
            options += ["--out", f"{output}={folder / output}_expected.npy"]
        verdict = json.loads(run(codetta, "run", text_of(folder, name), "--target", "cuda", *options, *hints_of(name),
                                 *KERNELS.get(name, []), "--check", "--json"))["check"]["verdict"]
        assert verdict == "pass", f"{name} in process, for {sizes}: {verdict}"
        for form, library in libraries.items():
            results = {}
            for output, shape in outputs.items():
                kind = npy_code(folder / f"{output}_expected.npy")
                count = math.prod(of(shape)) * dict(f=4, e=2)[kind]
                results[output] = (driver.upload(b"\xa5" * count), count, kind)
            status = library.call(*arguments, *(address for address, *_ in results.values()),
                                  *(ctypes.c_int64(size) for size in sizes.values()), None)
            assert status == 0, f"{name}{form} for {sizes}: {status}: {library.error().decode()}"
            for output, (address, count, kind) in results.items():
                got, expected = driver.download(address, count), npy_data(folder / f"{output}_expected.npy")
                driver.free(address)
                if got == expected:
                    library.same += 1
                    continue
                library.near += 1
                a, b = numbers(got, kind), numbers(expected, kind)
                scale = max((abs(v) for v in b), default=0)
                worst = max(abs(x - y) for x, y in zip(a, b))
                limit = scale * (2e-2 if code == "e" else 1e-4)
                assert len(a) == len(b) and worst <= limit, \
                    f"{name}{form}.{output} for {sizes}: {worst} apart, {limit} allowed"
        for address in memory:
            driver.free(address)
    for form, library in libraries.items():
        print(f"{name}{form}: {library.same} results with the bits of runs in process, {library.near} with their numbers")


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]


F16 = 11


def turned(data, shape):
    """The f16 elements of a row-major tensor with its rows outermost, leading dims the other way round and gaps of 8 elements: bytes
    and strides."""
    *leading, n = shape
    strides = tuple((n + 8) * math.prod(leading[:i]) for i in range(len(leading))) + (1,)
    made = bytearray(b"\xa5" * (2 * (n + 8) * math.prod(leading)))
    for i, place in enumerate(itertools.product(*map(range, leading))):
        at = 2 * sum(index * stride for index, stride in zip(place, strides))
        made[at:at + 2 * n] = data[2 * n * i:2 * n * (i + 1)]
    return bytes(made), strides


def check_uneven(folder, driver):
    """Tensors whose leading dims have three strides give the bits that row-major ones give, and nothing is written into gaps."""
    library = Library(folder / "libattend.so", "attend", "attend_tensors")
    shapes = {"x": (2, 3, 2, 40, 64), "k": (2, 3, 2, 40, 64), "s": (2, 3, 2, 40, 40), "y": (2, 3, 2, 40, 64)}
    given = {name: values(shapes[name], "e", 1, seed) for seed, name in enumerate("xk")}

    def call(laid_otherwise):
        tensors, memory = [], {}
        for name, shape in shapes.items():
            data = given.get(name, b"\xa5" * (2 * math.prod(shape)))
            strides = tuple(math.prod(shape[i + 1:]) for i in range(5))
            if name in laid_otherwise:
                data, strides = turned(data, shape)
            memory[name] = driver.upload(data), len(data)
            tensors.append(Tensor(memory[name][0].value, F16, 5, (ctypes.c_int64 * 8)(*shape), (ctypes.c_int64 * 8)(*strides)))
        status = library.call((Tensor * 4)(*tensors), ctypes.c_int32(4), None, ctypes.c_int64(0), None)
        assert status == 0, f"attend, {laid_otherwise} turned: {status}: {library.error().decode()}"
        results = {name: driver.download(*memory[name]) for name in "sy"}
        for address, _ in memory.values():
            driver.free(address)
        return results

    expected = call("")
    assert any(expected["y"]) and b"\xa5\xa5" * 4 not in expected["y"]
    for laid_otherwise in ("x", "k", "s", "y", "sk", "xksy"):
        for name, got in call(laid_otherwise).items():
            wanted = turned(expected[name], shapes[name])[0] if name in laid_otherwise else expected[name]
            assert got == wanted, f"attend.{name}, {laid_otherwise} turned: other bits than of row-major tensors"
            library.same += 1
    print(f"attend: {library.same} results of tensors that lie otherwise with the bits of those that are row-major")


class Handed(ctypes.Structure):  # CodettaTensor of codetta/extern.h
    pass


Release = ctypes.CFUNCTYPE(None, ctypes.POINTER(Handed))
Handed._fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8), ("rank", ctypes.c_int32),
                   ("dtype", ctypes.c_int32), ("device", ctypes.c_int32), ("reserved", ctypes.c_int32), ("release", Release), ("owner", ctypes.c_void_p)]
Extern = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Handed), ctypes.c_int, ctypes.POINTER(Handed), ctypes.c_int)
F32 = 13


def check_allocating(folder, driver):
    """A function that allocates as many rows as it likes in each turn of a loop and in a branch; memory in the order of the stream."""
    so = ctypes.CDLL(str(folder / "libcalls.so"))
    so.calls_get_last_error.restype = ctypes.c_char_p
    m, kept, counts, given_back = 50, set(), [], []
    rng = random.Random(5)
    x = [float(rng.randrange(-9, 10)) for _ in range(m * 4)]
    z = [-1.0, 0.0, 1.0, 2.0]

    def release(tensor):
        kept.remove(tensor[0].data)
        given_back.append(tensor[0].data)
        driver.call("cuMemFreeAsync", ctypes.c_uint64(tensor[0].data), ctypes.c_void_p(tensor[0].owner))

    def rows(context, inputs, input_count, outputs, output_count):
        count, stream, address = counts.pop(0), ctypes.c_void_p(inputs[0].owner), ctypes.c_uint64()
        if count < 0:
            return 77
        driver.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(max(16 * count, 16)), stream)
        if count:
            driver.call("cuMemcpyDtoDAsync_v2", address, ctypes.c_uint64(inputs[0].data), ctypes.c_size_t(16 * count), stream)
        kept.add(address.value)
        outputs[0].data, outputs[0].rank, outputs[0].dtype, outputs[0].owner = address.value, 2, F32, inputs[0].owner
        outputs[0].shape[:2], outputs[0].strides[:2], outputs[0].release = (count, 4), (4, 1), released
        return 0

    released, function = Release(release), Extern(rows)
    dx, dz = driver.upload(struct.pack(f"<{m * 4}f", *x)), driver.upload(struct.pack("<4f", *z))
    assert so.calls_set_extern_rows(function, None) == 0

    def call(returned, flag):
        counts[:], given_back[:] = list(returned), []
        dy = driver.upload(b"\xff" * 16)
        status = so.calls_calls(dx, dz, ctypes.c_bool(flag), dy, ctypes.c_int64(m), None)
        got = struct.unpack("<4f", driver.download(dy, 16))
        driver.free(dy)
        assert not kept, "all that was allocated is given back"
        return status, got

    results = 0
    for returned in ((7, 50, 1, 33), (0, 3, 49, 0), (50, 50, 50, 50), (1, 2, 3, 4)):
        for flag in (True, False):
            status, got = call(returned, flag)
            assert status == 0, f"calls for {returned}: {status}: {so.calls_get_last_error().decode()}"
            wanted = list(z)
            for count in returned[:3]:
                wanted = [2 * w + sum(max(x[4 * r + c], 0.0) for r in range(count)) for c, w in enumerate(wanted)]
            wanted = [w - sum(x[4 * r + c] for r in range(returned[3])) if flag else 3 * w for c, w in enumerate(wanted)]
            assert list(got) == wanted, f"calls for {returned}, {flag}: {got}, wanted {wanted}"
            assert len(given_back) == 3 + flag
            results += 1
    for returned, calls_before in (((4, -1, 6, 7), 1), ((4, 5, 6, -1), 3)):
        status, _ = call(returned, True)
        assert status != 0 and b"E0617" in so.calls_get_last_error() and len(given_back) == calls_before, so.calls_get_last_error()
    print(f"calls: {results} results of functions that allocate, as computed here")


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("--build", "--run"):
        sys.exit("usage: aot_check.py --build|--run CODETTA FOLDER")
    mode, codetta, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    if not (codetta.is_file() and os.access(codetta, os.X_OK)):
        sys.exit(f"aot_check.py: {codetta} is not the codetta command: {'a folder' if codetta.is_dir() else 'no program'} is there")
    if mode == "--build":
        build(codetta, folder)
        return
    driver = Driver()
    for name in PROGRAMS:
        check(codetta, folder, driver, name)
    check_uneven(folder, driver)
    check_allocating(folder, driver)
    print("[  PASSED  ] %d tests." % (len(PROGRAMS) + 2))


if __name__ == "__main__":
    main()
