# SPDX-License-Identifier: Apache-2.0
"""What the C++ compiler refuses of code over traced values, and the words in which it does. Argument: the compiler."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from commit_slice import of_this_commit  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = """#include <algorithm>
#include <cmath>
#include <codetta/graph.hpp>
#include <codetta/trace.hpp>
"""
PROGRAM = """using codetta::Expr;
using codetta::GraphValue;
template <class V>
void f(V x, V y) {
  (void)x, (void)y;
  %s
}
template void f(%s, %s);
"""
NO_VALUE = "a traced value has no value here, only when the kernel runs: write where"
CHAIN = r"write \(a < b\) & \(b < c\)"
ASSIGNED = r"not changed in place: write x = x \+ y"
# What both kinds of values refuse.
BOTH = [
    ("auto z = 0 < x < 6; (void)z;", CHAIN),
    ("if (x > y) y = x;", NO_VALUE),
    ("while (x == y) y = x;", NO_VALUE),
    ("auto z = x > y ? x : y; (void)z;", NO_VALUE),
    ("auto z = x > y && y > x; (void)z;", r"& \| ~ for && \|\| !"),
    ("auto z = x > y || y > x; (void)z;", NO_VALUE),
    ("auto z = !x; (void)z;", NO_VALUE),
    ("auto z = std::max(x, y); (void)z;", "maximum and minimum for std::max and std::min"),
    ("auto z = std::clamp(x, y, y); (void)z;", NO_VALUE),
    ("auto z = static_cast<float>(x); (void)z;", "cast for a conversion"),
    ("bool z(x == y); (void)z;", NO_VALUE),
    ("auto z = x < y < x; (void)z;", CHAIN),
    ("auto z = x >= y > x; (void)z;", CHAIN),
    ("x += y;", ASSIGNED),
    ("x -= y;", ASSIGNED),
    ("x *= y;", ASSIGNED),
    ("x /= y;", ASSIGNED),
    ("++x;", ASSIGNED),
    ("x--;", ASSIGNED),
    ("float z = x; (void)z;", "cannot convert|no viable conversion"),
    ("auto z = x << 1; (void)z;", "operator<<|invalid operands"),
    ("auto z = fmax(x, y); (void)z;", r"maximum\(x, y\) is the larger of both"),
    ("auto z = fmin(x, y); (void)z;", r"minimum\(x, y\) is the smaller of both"),
    ("auto z = fmod(x, y); (void)z;", "x % y has the sign of y"),
    ("auto z = fabs(x); (void)z;", r"abs\(x\)"),
    ("auto z = tan(x); (void)z;", r"sin\(x\) / cos\(x\)"),
    ("auto z = log10(x); (void)z;", r"log\(x\) \*"),
    ("auto z = isnan(x); (void)z;", "write x != x"),
    ("auto z = std::exp(x); (void)z;", "no matching function"),
    ("auto z = std::pow(x, y); (void)z;", "no matching function|no type named"),
]
EXPR = [
    ("auto z = max(x, 0); (void)z;", "deleted"),
    ("auto z = min(x, 1.5f); (void)z;", "deleted"),
    ("auto z = sum(x, 0.5); (void)z;", "ReduceOver|no matching function"),
    ("auto z = sum(x, false); (void)z;", "ReduceOver|no matching function"),
    ("auto z = atan2(x, y); (void)z;", "atan2|cannot convert"),
    ("auto z = x + \"y\"; (void)z;", r"operator\+|invalid operands"),
]
# What looks alike and compiles.
FINE = [
    "auto z = (x > y) & (y > x); z = ~z | (x != y); (void)z;",
    "auto inside = x < y; auto z = inside == (y < x); (void)z;",
    "V z = x; z = z + y; z = -z * y / x % y; (void)z;",
    "V kept = x > y; kept = kept & (y == x); V z = std::move(kept); (void)z;",
    "auto z = floordiv(x, y) - x; (void)z;",
    "auto z = true ? x : x > y; (void)z;",
]
FINE_EXPR = [
    "auto z = 0 < x; z = (0 < x) & (x < 6); z = where(z, 2, x) + 1 + 2u + 3.0f; (void)z;",
    "auto z = maximum(x, 0) + abs(y) + pow(x, 2) + sqrt(x); z = sum(z, -1) + max(z, {0}, false) + mean(z, codetta::Axis::Row); (void)z;",
    "auto z = [](auto v) { return v + 1; }(x); (void)z;",
]


def compiler(folder, *words):
    return subprocess.run([sys.argv[1], "-std=c++20", "-Wall", f"-I{ROOT}/include", *words], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "LC_ALL": "C"})


def compiled(folder, numbered):
    """Compiles numbered pieces as one file; returns status, what was said, and by piece the errors in it."""
    path = pathlib.Path(folder) / f"from{min(numbered)}.cpp"
    path.write_text("".join(f'#line 1 "piece{i}.cpp"\nnamespace piece{i} {{\n{PROGRAM % (code, value, value)}}}\n'
                            for i, (code, value) in numbered.items()))
    done = compiler(folder, "-fsyntax-only", "-fmax-errors=0", "-include", "headers.hpp", path)
    errors, asked_by = {i: [] for i in numbered}, None
    for line in done.stderr.splitlines():
        piece = re.match(r"piece(\d+)\.cpp:.*(error:|required from)", line)
        if "error:" in line:  # in the piece, or in a header of what the piece asks it for
            owner = int(piece[1]) if piece else asked_by if asked_by is not None else min(numbered) if len(numbered) == 1 else None
            if owner is not None:
                errors[owner].append(line)
            asked_by = None
        elif piece:
            asked_by = int(piece[1])
    return done.returncode, done.stderr, errors


def main():
    # Each for one kind of values as the commit picks (the full suite: for both), neighbours not for the same one.
    def of_a_kind(codes):
        return of_this_commit([(*code, kind) for i, code in enumerate(codes) for kind in (("Expr", "GraphValue"), ("GraphValue", "Expr"))[i % 2]], 2)

    cases = [(code, value, message) for code, message, value in of_a_kind(BOTH)]
    cases += [(code, "Expr", message) for code, message in EXPR]
    cases += [(code, value, None) for code, value in of_a_kind((code,) for code in FINE)]
    cases += [(code, "Expr", None) for code in FINE_EXPR]
    failures = 0

    def right(i, status, errors):
        message = cases[i][2]
        return status == 0 if message is None else status != 0 and re.search(message, "\n".join(errors[i]))

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        (pathlib.Path(folder) / "headers.hpp").write_text(HEADERS)
        compiler(folder, "-x", "c++-header", "headers.hpp", "-o", "headers.hpp.gch").check_returncode()  # read once
        # As one file, again and again without those that were right: some assertions of a header are told once a file. What
        # is wrong in such company is compiled alone.
        alone, files = [], 0
        for refused in (True, False):
            left, before = [i for i in range(len(cases)) if (cases[i][2] is not None) == refused], 0
            while left and len(left) != before:
                before = len(left)
                status, _, errors = compiled(folder, {i: cases[i][:2] for i in left})
                left = [i for i in left if not right(i, status, errors)]
                files += 1
            alone += left
        for i, (status, said, errors) in zip(alone, pool.map(lambda i: compiled(folder, {i: cases[i][:2]}), alone)):
            if not right(i, status, errors):
                failures += 1
                code, value, message = cases[i]
                print(f"{value}: {code}\n  wanted {message or 'no error'}, status {status}:\n{said[:1500]}")
    print(f"{len(cases)} pieces of C++ in {files} files, {len(alone)} again alone, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
