# SPDX-License-Identifier: Apache-2.0
"""Runs emitted modules: a line of the list is a module, the file for what call() returns, and the arrays, each with "r"
or "w" (written back), numpy's name of its type, its shape and the file that holds it."""
import importlib.util
import sys

import numpy as np


def main():
    modules = {}
    for line in open(sys.argv[1]):
        words = line.split()
        path, result = words[:2]
        if path not in modules:
            spec = importlib.util.spec_from_file_location(f"program_{len(modules)}", path)
            modules[path] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(modules[path])
        arrays = []
        for at in range(2, len(words), 4):
            access, dtype, shape, file = words[at:at + 4]
            sizes = tuple(int(size) for size in shape.strip("[]").split(",") if size)
            arrays.append((access, np.fromfile(file, dtype).reshape(sizes), file))
        code = modules[path].call(*(array for _, array, _ in arrays))
        for access, array, file in arrays:
            if access == "w":
                array.tofile(file)
        with open(result, "w") as said:
            said.write(f"{code} {modules[path].get_last_error()}".strip() if code else "0")


if __name__ == "__main__":
    main()
