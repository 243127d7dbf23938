# SPDX-License-Identifier: Apache-2.0
"""What tests of libraries that `codetta build` makes share. Their arguments: <codetta> <cc> <c++> <source folder> <work folder>"""

import ctypes
import functools
import os
import pathlib
import random
import re
import struct
import sys
import unittest

CODETTA, CC, CXX = sys.argv[1:4]
SOURCE, WORK = pathlib.Path(sys.argv[4]), pathlib.Path(sys.argv[5])
sys.path.insert(0, str(SOURCE / "tests/support"))
import run_command  # noqa: E402
from quick_compiler import quick_compiler  # noqa: E402
DIGITS = SOURCE / "examples/digits"
NEEDED = re.compile(r"lib(stdc\+\+|gcc_s|c\+\+|c\+\+abi|c|m|pthread|dl)\.so|ld-linux")
F32 = 13


def record_codes(text):
    """What tests/support/code_recorder.hpp does, of what a command has told."""
    folder = os.environ.get("CODETTA_CODES")
    if folder:
        with open(pathlib.Path(folder) / str(os.getpid()), "a", encoding="ascii") as file:
            file.writelines(code + "\n" for code in re.findall(r"error\[(E0\d{3})\]", text))


def run(*command, code=0, cwd=None):
    done = run_command.run(*command, code=None, cwd=cwd)
    record_codes(done.stderr)
    return run_command.checked(done, code)


def codetta(*arguments, code=0):
    cache = [] if "--no-cache" in arguments else ["--cache-dir", WORK / "cache"]
    return run(CODETTA, *arguments, *cache, code=code)


def npy(path, shape, values, code="f"):
    descr = {"f": "<f4", "d": "<f8", "q": "<i8", "?": "|b1"}[code]
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    data = struct.pack(f"<{len(values)}{code}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    return data


def npy_data(path):
    raw = path.read_bytes()
    return raw[10 + struct.unpack_from("<H", raw, 8)[0]:]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]


def tensor(buffer, shape, dtype=F32, strides=None):
    steps, step = [], 1
    for size in reversed(shape):
        steps.insert(0, step)
        step *= size
    address = ctypes.addressof(buffer) if buffer is not None else None
    return Tensor(address, dtype, len(shape), (ctypes.c_int64 * 8)(*shape), (ctypes.c_int64 * 8)(*(strides or steps)))


def floats(data_or_count):
    if isinstance(data_or_count, int):
        return (ctypes.c_float * data_or_count)(*([-7.0] * data_or_count))
    return (ctypes.c_float * (len(data_or_count) // 4)).from_buffer_copy(data_or_count)


class Library:
    def __init__(self, path, name):
        self.so, self.name = ctypes.CDLL(str(path)), name
        self.error = getattr(self.so, name + "_get_last_error")
        self.error.restype = ctypes.c_char_p

    def __call__(self, function, *arguments):
        call = getattr(self.so, f"{self.name}_{function}")
        call.restype = ctypes.c_int64 if function.endswith("_size") else ctypes.c_int
        return call(*arguments)

    def text(self):
        return self.error().decode()


@functools.cache
def quick():
    return quick_compiler(CXX, SOURCE, WORK)


def build(program, name, *options, code=0, optimized=False):
    if not optimized and not {"--compiler", "--no-compiler"} & set(options):
        options = (*options, "--compiler", quick())
    if not {"--hint", "--by-size", "--tune"} & set(options):
        options = (*options, "--by-size", "1")  # what other tests are about is the same for any kernels, and built sooner
    path = WORK / f"lib{name}.so"
    text = program if isinstance(program, pathlib.Path) else WORK / f"{name}.py"
    if not isinstance(program, pathlib.Path):
        text.write_text(program)
    done = codetta("build", text, "-o", path, *options, code=code)
    return (path, done) if code == 0 else done.stderr


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    os.environ.pop("CODETTA_CACHE_DIR", None)
    random.seed(20)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:], verbosity=1)
