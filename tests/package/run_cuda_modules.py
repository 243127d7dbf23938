# SPDX-License-Identifier: Apache-2.0
"""Runs emitted modules for CUDA over the pretended cuda.bindings. Each line of the list is: module, file for what
happens, then DTYPE:SHAPE for each argument, as Codetta names types, or an array's typestr; ^STRIDES behind it for a tensor with others than those of rows, +BYTES for one that
lies so far from where allocations begin, @PLACE for one that lies elsewhere. =NUMBER is a number. What happens: the result, a line a tensor with its address and
bytes, a line a launch. Usage: run_cuda_modules.py LIST [NAME=STATUS of a function that fails]"""
import ast
import ctypes
import importlib.util
import math
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent / "pretended_cuda"), str(pathlib.Path(__file__).parents[1] / "support")]
from cuda.bindings import driver  # noqa: E402
from host_returns import check_returns  # noqa: E402

BYTES = {"bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f8e4m3": 1,
         "f8e5m2": 1, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
TORCH = {"bool": "bool", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "bf16": "bfloat16"}
PLACES = {"host": (0, False, -1), "pinned": (1, False, 0), "managed": (1, True, -1), "device1": (2, False, 1)}


def torch_name(name):
    return "torch." + (TORCH.get(name) or {"i": "int", "u": "uint", "f": "float"}[name[0]] + name[1:])


class Memory:
    def __init__(self, size, shape, shift, place):
        self.size, self.shape = size, shape
        self.bytes = size * math.prod(shape)
        self.address = driver.cuMemAlloc(max(self.bytes + shift, 1))[1] + shift
        if place:
            driver.PLACES[self.address] = PLACES[place]
            driver.OWNERS[self.address - shift] = PLACES[place][2]


class Array(Memory):
    """What others' arrays say of themselves."""

    def __init__(self, typestr, *where):
        super().__init__(int(typestr[2:]), *where)
        self.__cuda_array_interface__ = {"shape": self.shape, "typestr": typestr, "data": (self.address, False),
                                         "version": 3}


class Tensor(Memory):
    """What PyTorch's tensors say of themselves, as far as modules ask."""

    def __init__(self, name, *where):
        super().__init__(BYTES[name], *where)
        self.dtype, self.strides = torch_name(name), None

    def data_ptr(self):
        return self.address

    def element_size(self):
        return self.size

    def stride(self):
        return self.strides or [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))]


def main():
    further, turns, captured, within = [], 1, 0, None
    for failing in sys.argv[2:]:
        name, status = failing.split("=")
        if name == "capability":
            driver.CAPABILITY[:] = divmod(int(status), 10)
        elif name == "cooperative":
            driver.COOPERATIVE[0] = int(status)
        elif name == "devices":
            driver.DEVICES[0] = int(status)
        elif name == "further":
            further.append(int(status) if status.isdigit() else status)
        elif name == "turns":
            turns = int(status)
        elif name == "captured":  # calls in front, each on a stream that is being captured
            captured = int(status)
        elif name == "within":  # the calls are on this stream, which is being captured
            within = int(status)
        else:
            driver.FAIL[name] = int(status)
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        module_file, result, *forms = line.split()
        spec = importlib.util.spec_from_file_location("module", module_file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        arguments, tensors = [], []
        for form in forms:
            if form.startswith("="):
                arguments.append(ast.literal_eval(form[1:]))
                continue
            form, _, place = form.partition("@")
            form, _, shift = form.partition("+")
            form, _, strides = form.partition("^")
            name, shape = form.split(":")
            tensors.append((Tensor if name in BYTES else Array)(
                name, tuple(int(n) for n in shape.split(",") if n), int(shift or 0), place))
            if strides:
                tensors[-1].strides = [int(n) for n in strides.split(",")]
            arguments.append(tensors[-1])
        driver.LAUNCHES.clear()
        driver.CALLS.clear()
        driver.ALIVE.clear()
        if further and module.set_further_devices(further) != 0:
            print(module.get_last_error())

        def call_on(stream):
            driver.STREAMS[stream] = driver.HOME
            if module.call(*arguments, stream=stream) != 0:
                print(module.get_last_error())
            driver.end_of_work()

        for stream in range(2000, 2000 + captured):
            driver.CAPTURES[stream] = stream
            call_on(stream)
        if within is not None:
            driver.STREAMS[within] = driver.HOME
            driver.CAPTURES[within] = within
        for _ in range(turns):
            code = module.call(*arguments, stream=within)
            sets = getattr(getattr(module, "_DevicesCall", None), "sets", [])
            driver.look_behind(within or 0, {one for found in sets for one in found.events + found.streams[1:]})
        if within is not None:
            driver.CAPTURES.clear()
        if captured:
            driver.CAPTURES.clear()
            driver.end_of_work()
            call_on(3000)
        if module._engine is not None:
            check_returns(module._engine.lib)
        lines = [f"result {code} {module.get_last_error()}".strip()]
        lines += [f"tensor {t.address} {t.bytes}" for t in tensors]
        lines += [f"wrong {one}" for one in dict.fromkeys(driver.WRONG)]
        lines += [f"left {driver.CURRENT[0]} {driver.CALLS.count('cuStreamCreate')} {driver.CALLS.count('cuEventRecord')}"]
        lines += [f"holds {ctypes.string_at(t.address, t.bytes).hex()}" for t in tensors if 0 < t.bytes <= 256]
        driver.WRONG.clear()
        for name, grid, block, shared, attributes, parameters in driver.LAUNCHES:
            numbers = [*grid, *block, shared, len(attributes)]
            numbers += [n for attribute in attributes for n in attribute]
            lines.append(f"launch {name} {' '.join(map(str, numbers))} {parameters.hex()}")
        pathlib.Path(result).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
