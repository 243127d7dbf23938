# SPDX-License-Identifier: Apache-2.0
"""Every example epilogue through the codetta command, bound as its `# bind:` line says, in all its dtypes, at full tiles, tails or a
single row as the commit picks (the full suite: at all of them), compiled and interpreted, each checked against the oracle (--check).
Argument: the command."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from commit_slice import of_this_commit  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "epilogues"
SIZES = [(33, 48, 40), (1, 17, 64), (64, 96, 3)]


def main():
    command, failures, count, cases = sys.argv[1], [], 0, []
    for path in sorted(EXAMPLES.glob("*.py")):
        line = re.search(r"^# bind: (.*)$", path.read_text(), re.M)[1]
        types = re.search(r"\btypes=(\S+)", line)
        fixed = dict(re.findall(r"\b([MNK])=(\d+)", line))
        for dtype in types[1].split(",") if types else ["f32"]:
            first = len(cases) // len(SIZES)  # neighbours are not of one size
            cases += [(path, dtype, fixed, SIZES[(first + i) % len(SIZES)]) for i in range(len(SIZES))]
    for path, dtype, fixed, (m, n, k) in of_this_commit(cases, len(SIZES)):
        m, n, k = fixed.get("M", m), fixed.get("N", n), fixed.get("K", k)
        for how in ([], ["--no-compiler"]):
            call = [command, "gemm", "--m", m, "--n", n, "--k", k, "--dtype", dtype, "--epilogue", path, "--check", "--no-cache", *how]
            done = subprocess.run([str(x) for x in call], capture_output=True, text=True, timeout=120)
            count += 1
            if done.returncode != 0:
                failures.append(f"{' '.join(str(x) for x in call[1:])}\n  status {done.returncode}: {done.stdout}{done.stderr}")
    for failure in failures:
        print(failure)
    print(f"{count} runs, {len(failures)} failures")
    return 1 if failures or count < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
