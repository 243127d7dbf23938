// SPDX-License-Identifier: Apache-2.0
// Programs whose branches and loops compute sizes: the same for runs on the host and on a device.
#pragma once

namespace codetta::test {

// In a turn of a loop a branch, and in that a loop, each with sizes that rest on those around it. x: f32[n, 4], n >= 6.
inline constexpr const char* sizes_in_sizes =
    "def inner_more(j, x, y):\n    return j < 3\n\n"
    "def inner(j, x, y):\n"
    "    return j + 1, x, y + sum(x[:j], dim=0)\n\n"
    "def then(i, x, y):\n"
    "    k = i + 1\n"
    "    part = x[:k] * 2.0\n"
    "    m = minimum(k, 2)\n"
    "    return y + sum(part[:m], dim=0) + sum(part, dim=0)\n\n"
    "def otherwise(i, x, y):\n"
    "    j, a, z = while_loop(inner_more, inner, i - i, x, y)\n"
    "    return z\n\n"
    "def more(i, x, y):\n    return sum(ones(i + 1), keepdim=False) < 6.0\n\n"
    "def step(i, x, y):\n"
    "    return i + 1, x, cond(i % 2 == 0, then, otherwise, i, x, y)\n\n"
    "def f(x: f32[\"n\", 4]):\n"
    "    i, a, y = while_loop(more, step, 0, x, zeros(1, 4))\n"
    "    return y\n";

// A function that is called in front of branches and twice in each, of one value as large as the caller says. x: f32[8,
// 4], k: i64 up to 7.
inline constexpr const char* sizes_of_one_function =
    "def head(x, k):\n    return sum(x[:k], dim=0) + sum(ones(k, 4), dim=0)\n\n"
    "def up(x, k):\n    return head(x, k) + head(x * 2.0, k + 1)\n\n"
    "def down(x, k):\n    return head(x, k) - head(x, minimum(k, 3))\n\n"
    "def f(x: f32[\"n\", 4], k: i64[()]):\n"
    "    a = head(x, k)\n"
    "    b = cond(k > 4, up, down, x, k)\n"
    "    c = cond(k > 2, up, down, x, k)\n"
    "    y = a + b * c\n"
    "    return y\n";

}  // namespace codetta::test
