# SPDX-License-Identifier: Apache-2.0
"""Times the functions of a library of `codetta build`: random tensors in, median and least time of a call out, and a digest of what was
written, by which builds and machines are compared.
usage: python3 THIS_FILE [SIZE=N ...] [function=NAME] [seconds=S] [seed=N]     sizes that are not given are 64

Plain Python over the library and its manifest, which lie beside this file. Floats are uniform in -1 to 1, integers 0 and 1, numbers 1.
Tensors of libraries for a GPU lie in its memory; a time there is that of enqueued calls up to the end of the last, divided by their number."""
import ctypes
import json
import pathlib
import random
import statistics
import struct
import sys
import time
import zlib

TYPES = {name: number for number, name in enumerate(
    "bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 f32 f64".split())}
BYTES = (1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8)
GUARD = 256  # bytes of alignment


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
                ("strides", ctypes.c_int64 * 8)]


class Host:
    """Memory of this process."""

    def __init__(self):
        self.kept = []

    def place(self, data):
        memory = ctypes.create_string_buffer(len(data) + GUARD)
        self.kept.append(memory)
        address = (ctypes.addressof(memory) + GUARD - 1) // GUARD * GUARD
        ctypes.memmove(address, data, len(data))
        return address

    def read(self, address, size):
        return ctypes.string_at(address, size)

    def wait(self):
        pass


class Gpu:
    """Memory of the first device, by the driver that the library loads itself."""

    def __init__(self, hip):
        self.hip = hip
        names = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so") if hip else ("libcuda.so.1",)
        for name in names:
            try:
                self.driver = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            sys.exit(f"no driver was found: looked for {', '.join(names)}")
        if not hip:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.ask("cuInit", 0)
            self.ask("cuDeviceGet", ctypes.byref(device), 0)
            self.ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.ask("cuCtxSetCurrent", context)

    def ask(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        if status != 0:
            sys.exit(f"{name} failed with {status}")

    def place(self, data):
        address, size = ctypes.c_void_p(), ctypes.c_size_t(max(len(data), 1))
        self.ask("hipMalloc" if self.hip else "cuMemAlloc_v2", ctypes.byref(address), size)
        if data and self.hip:
            self.ask("hipMemcpy", address, ctypes.c_char_p(data), ctypes.c_size_t(len(data)), 1)
        elif data:
            self.ask("cuMemcpyHtoD_v2", address, ctypes.c_char_p(data), ctypes.c_size_t(len(data)))
        return address.value

    def read(self, address, size):
        if size == 0:
            return b""
        data = ctypes.create_string_buffer(size)
        if self.hip:
            self.ask("hipMemcpy", data, ctypes.c_void_p(address), ctypes.c_size_t(size), 2)
        else:
            self.ask("cuMemcpyDtoH_v2", data, ctypes.c_void_p(address), ctypes.c_size_t(size))
        return data.raw

    def wait(self):
        self.ask("hipDeviceSynchronize" if self.hip else "cuCtxSynchronize")


def random_bytes(generator, dtype, count):
    """`count` elements; what is long repeats itself."""
    some = min(count, 65521)
    if dtype >= 13:
        block = struct.pack(f"<{some}{'fd'[dtype - 13]}", *(generator.uniform(-1, 1) for _ in range(some)))
    elif dtype == 12:
        block = b"".join(struct.pack("<f", generator.uniform(-1, 1))[2:] for _ in range(some))
    elif dtype == 11:
        block = struct.pack(f"<{some}e", *(generator.uniform(-1, 1) for _ in range(some)))
    elif dtype >= 9:
        block = bytes(generator.randrange(0x38 if dtype == 9 else 0x3C) | generator.choice((0, 0x80)) for _ in range(some))
    else:
        block = b"".join(generator.randrange(2).to_bytes(BYTES[dtype], "little") for _ in range(some))
    size = count * BYTES[dtype]
    return (block * (size // max(len(block), 1) + 1))[:size]


def size_of(text, sizes):
    return text if isinstance(text, int) else eval(text, {"__builtins__": {}, "min": min, "max": max}, sizes)


def call_of(library, program, name, sizes, memory, seed):
    """The function as a call without arguments, the bytes that go in and out, and where what it writes lies."""
    generator, tensors, moved, written = random.Random(seed), [], 0, []
    for argument in program["arguments"]:
        dtype = TYPES[argument["dtype"]]
        shape = [] if argument.get("scalar") else [size_of(dim, sizes) for dim in argument["shape"]]
        count, strides = 1, []
        for size in reversed(shape):
            strides.insert(0, count)
            count *= max(size, 1)
        count = 0 if 0 in shape else count
        if argument.get("scalar"):
            one = struct.pack("<f" if dtype == 13 else "<d", 1.0) if dtype >= 13 else (1).to_bytes(BYTES[dtype], "little")
            address = Host.place(NUMBERS, one)
        elif argument["role"] == "output":
            address = memory.place(b"\xA5" * (count * BYTES[dtype]))
            written.append((argument["name"], address, count * BYTES[dtype]))
        else:
            address = memory.place(random_bytes(generator, dtype, count))
        moved += count * BYTES[dtype]
        tensors.append(Tensor(address, dtype, len(shape), (ctypes.c_int64 * 8)(*shape), (ctypes.c_int64 * 8)(*strides)))
    table = (Tensor * max(len(tensors), 1))(*tensors)
    function, error = getattr(library, program["symbol"] + "_tensors"), getattr(library, name + "_get_last_error")
    error.restype = ctypes.c_char_p
    count, nothing = ctypes.c_int32(len(tensors)), ctypes.c_int64(0)

    def call():
        if function(table, count, None, nothing, None) != 0:
            sys.exit(f"{program['symbol']}: {error().decode()}")
    return call, moved, written


def timed(call, wait, seconds):
    call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    inner = max(1, min(10000, int(1e-3 / max(time.perf_counter() - start, 1e-7))))
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < 5 or (time.perf_counter() < end and len(samples) < 1000):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        wait()
        samples.append((time.perf_counter() - start) / inner)
    return samples


def number(kind, name, text):
    try:
        return kind(text)
    except ValueError:
        sys.exit(f"{name} is no number: {text}")


NUMBERS = Host()


def main():
    asked = dict(pair.partition("=")[::2] for pair in sys.argv[1:])
    if any(pair in ("-h", "--help") or "=" not in pair for pair in sys.argv[1:]):
        sys.exit(__doc__)
    folder = pathlib.Path(__file__).resolve().parent
    manifest = json.loads((folder / MANIFEST).read_text())
    target = manifest["target"].split(":")[0]
    memory = Host() if target == "cpu" else Gpu(target == "hip")
    library = ctypes.CDLL(str(folder / LIBRARY))
    wanted = asked.pop("function", "")
    seconds, seed = number(float, "seconds", asked.pop("seconds", 1)), number(int, "seed", asked.pop("seed", 1))
    programs = [program for program in manifest["programs"] if wanted in ("", program["name"])]
    known = {size for program in programs for size in program["sizes"]}
    if not programs or not asked.keys() <= known:
        sys.exit(f"{'no function is called ' + wanted if not programs else 'sizes are ' + ', '.join(sorted(known))}")
    for program in programs:
        sizes = {size: number(int, size, asked.get(size, 64)) for size in program["sizes"]}
        call, moved, written = call_of(library, program, manifest["library"], sizes, memory, seed)
        samples = timed(call, memory.wait, seconds)
        median = statistics.median(samples)
        said = ", ".join(f"{size} = {value}" for size, value in sizes.items())
        print(f"{program['symbol']}{' with ' + said if said else ''}: median {median * 1e6:.2f} us, least {min(samples) * 1e6:.2f} us of "
              f"{len(samples)} samples; {moved} bytes of arguments, {moved / median / 1e9:.2f} GB/s")
        for name, address, size in written:
            print(f"  {name}: {size} bytes, digest {zlib.crc32(memory.read(address, size)):08x}")
