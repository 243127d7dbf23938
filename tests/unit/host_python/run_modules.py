# SPDX-License-Identifier: Apache-2.0
"""Runs the emitted modules of a folder. Beside NAME.py lies NAME.args: a line a parameter, "array DTYPE SHAPE FILE" or
"number VALUE", "integer VALUE" or "flag 0" or "flag 1". Arrays are read from raw files and written back; what call() returns goes to NAME.result."""
import importlib.util
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from host_returns import check_returns  # noqa: E402


def nothing(inputs, outputs=None):
    return [np.zeros((4, 4), np.float32)] if outputs is None else 0


def main():
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.externs["nothing"] = nothing
        module.weights["weight"] = np.ones(1, np.float32)
        arguments, arrays = [], []
        for line in path.with_suffix(".args").read_text().splitlines():
            words = line.split()
            if words[0] != "array":
                arguments.append({"number": float, "integer": int, "flag": lambda bit: bit == "1"}[words[0]](words[1]))
                continue
            shape = tuple(int(n) for n in words[2].split(",") if n)
            array = np.fromfile(words[3], words[1]).reshape(shape)
            arguments.append(array)
            arrays.append((array, words[3]))
        codes = [module.call(*arguments) for _ in range(int(sys.argv[2]))]
        if module._engine is not None:
            check_returns(module._engine.lib)
        for array, file in arrays:
            array.tofile(file)
        path.with_suffix(".result").write_text(f"{codes[-1]} {module.get_last_error()}".strip())


if __name__ == "__main__":
    main()
