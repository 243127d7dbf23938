# SPDX-License-Identifier: Apache-2.0
"""Libraries for CPUs take tensors however they lie. Usage: aot_layouts_test.py <codetta> <cc> <c++> <source folder> <work folder>"""

import ctypes
import itertools
import random
import unittest

from aot_support import DIGITS, Library, Tensor, build, floats, main, tensor

TEXT = """def layer(x: f32["m", "k"], w: f32["k", "n"], b: f32["n"], s: f32["k", "n"]):
    y = relu(x @ w + b)
    z = exp(x) * 2.0
    d = x @ w
    u = x @ (w * s)
    r = max(z, dim=0)
    return y, z, d, u, r
"""
SIZES = {"m": 7, "k": 10, "n": 33}
SHAPES = {"x": "mk", "w": "kn", "b": "n", "s": "kn", "y": "mn", "z": "mk", "d": "mn", "u": "mn", "r": "1k"}
OUTPUTS = "yzdur"


class Laid:
    """The elements of a dense tensor, somewhere in memory of their own: `strides` in elements, from `begin` on."""

    def __init__(self, values, shape, strides, begin):
        self.shape, self.strides, self.begin = shape, strides, begin
        self.memory = floats(begin + 1 + sum(max(s, 0) * (n - 1) for s, n in zip(strides, shape)) + 5)
        if values is not None:
            for place, value in zip(self.places(), values):
                self.memory[place] = value

    def places(self):
        return [self.begin + sum(i * s for i, s in zip(at, self.strides)) for at in itertools.product(*map(range, self.shape))]

    def values(self):
        return [self.memory[place] for place in self.places()]

    def gaps(self):
        places = set(self.places())
        return [value for place, value in enumerate(self.memory) if place not in places]

    def tensor(self):
        made = tensor(self.memory, self.shape, strides=self.strides)
        made.data = ctypes.addressof(self.memory) + 4 * self.begin
        return made


def dense(shape):
    return Laid(None, shape, [shape[-1], 1] if len(shape) == 2 else [1], 0)


def somewhere(values, shape):
    order = random.sample(range(len(shape)), len(shape))
    step, begin = random.choice((1, 1, 2, 3)), random.randrange(4)
    strides = [0] * len(shape)
    for dim in order:
        strides[dim] = step
        step = step * shape[dim] + random.choice((0, 3))
    for dim, size in enumerate(shape):
        if random.randrange(4) == 0:
            begin += (size - 1) * strides[dim]
            strides[dim] = -strides[dim]
    return Laid(values, shape, strides, begin)


class Layouts(unittest.TestCase):
    def test_any(self):
        random.seed(5)
        for options in ((), ("--no-checks",)):
            library = Library(build(TEXT, "layouts", *options)[0], "layouts")
            shapes = {name: [SIZES.get(s, 1) for s in dims] for name, dims in SHAPES.items()}
            flat = {name: dense(shape) for name, shape in shapes.items()}
            for name in "xwbs":
                flat[name].memory[:] = [random.uniform(-1, 1) for _ in flat[name].memory]

            def call(tensors):
                return library("layer_tensors", (Tensor * 9)(*(t.tensor() for t in tensors)), ctypes.c_int32(9), None,
                               ctypes.c_int64(0), None)

            self.assertEqual(call(flat.values()), 0, library.text())
            for turn in range(40):
                # One of them at first, then all.
                moved = [list(shapes)[turn]] if turn < 9 else list(shapes)
                laid = {name: somewhere(flat[name].values() if name in "xwbs" else None, shape) if name in moved else
                        flat[name] if name in "xwbs" else dense(shape) for name, shape in shapes.items()}
                self.assertEqual(call(laid.values()), 0, library.text())
                for name in OUTPUTS:
                    layouts = [(other, laid[other].strides) for other in laid]
                    self.assertEqual(laid[name].values(), flat[name].values(), f"{name} of {layouts}")
                    self.assertEqual(set(laid[name].gaps()), {-7.0}, f"beside {name} of {layouts}")

    def test_what_has_its_place_costs_nothing(self):
        """Constants lie as the library has them: only the scores of the digits have kernels of two forms."""
        _, done = build(DIGITS / "classifier.py", "digits_layouts", "--weights", DIGITS / "digits.safetensors", "--embed-weights")
        self.assertIn("3 kernels", done.stderr)


if __name__ == "__main__":
    main()
