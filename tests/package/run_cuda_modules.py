# SPDX-License-Identifier: Apache-2.0
"""Runs emitted modules for CUDA over the pretended cuda.bindings. Each line of the list is: module, file for what
happens, then ELEMENT_BYTES:SHAPE for each argument, +BYTES behind it for one that lies so far from where allocations
begin. What happens: the result, a line a tensor with its address and
bytes, a line a launch. Usage: run_cuda_modules.py LIST [NAME=STATUS of a function that fails]"""
import importlib.util
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pretended_cuda"))
from cuda.bindings import driver  # noqa: E402


class Tensor:
    """What PyTorch's tensors say of themselves, as far as modules ask."""

    def __init__(self, size, shape, shift):
        self.size, self.shape = size, shape
        self.bytes = size * math.prod(shape)
        self.address = driver.cuMemAlloc(max(self.bytes + shift, 1))[1] + shift

    def data_ptr(self):
        return self.address

    def element_size(self):
        return self.size

    def stride(self):
        return [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))]


def main():
    for failing in sys.argv[2:]:
        name, status = failing.split("=")
        if name == "capability":
            driver.CAPABILITY[:] = divmod(int(status), 10)
        else:
            driver.FAIL[name] = int(status)
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        module_file, result, *forms = line.split()
        spec = importlib.util.spec_from_file_location("module", module_file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tensors = []
        for form in forms:
            form, _, shift = form.partition("+")
            size, shape = form.split(":")
            tensors.append(Tensor(int(size), tuple(int(n) for n in shape.split(",") if n), int(shift or 0)))
        driver.LAUNCHES.clear()
        code = module.call(*tensors)
        lines = [f"result {code} {module.get_last_error()}".strip()]
        lines += [f"tensor {t.address} {t.bytes}" for t in tensors]
        for name, grid, block, shared, attributes, parameters in driver.LAUNCHES:
            numbers = [*grid, *block, shared, len(attributes)]
            numbers += [n for attribute in attributes for n in attribute]
            lines.append(f"launch {name} {' '.join(map(str, numbers))} {parameters.hex()}")
        pathlib.Path(result).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
