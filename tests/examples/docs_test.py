# SPDX-License-Identifier: Apache-2.0
"""The commands that README.md and docs/language.md show, run as they stand in a folder with the files that they name; and README's message
as it is really printed. Argument: the codetta command."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def main():
    command, failures, count = sys.argv[1], [], 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "examples").symlink_to(ROOT / "examples")
        run = lambda *words: subprocess.run([command, *words], cwd=folder, env={**os.environ, "CODETTA_CACHE_DIR": folder + "/cache"}, capture_output=True, text=True, timeout=240)
        # A [48, 64], fc1 [64, 96], bias [96]: what the documents read from files.
        (pathlib.Path(folder) / "my.py").write_text("def scaled(accum, alpha, bias):\n    D = relu(accum * alpha + bias)\n    return D\n")
        made = [run("gemm", "--m", m, "--n", n, "--k", "2", "--epilogue", f"def f(accum): {name} = {value}; return {name}", "--out", f"{name}={file}")
                for m, n, name, value, file in (("48", "64", "D", "relu(accum)", "A.npy"), ("64", "96", "fc1", "accum * 1.0", "weights.safetensors"), ("3", "96", "b", "sum(accum, dim=0)", "bias.npy@[1,N]:f32"))]
        failures += [done.stderr for done in made if done.returncode != 0]
        for document in ("README.md", "docs/language.md"):
            for _, block in FENCE.findall((ROOT / document).read_text()):
                for line in block.splitlines():
                    if not line.startswith("codetta ") or "--target cuda" in line:
                        continue
                    count += 1
                    done = run(*shlex.split(line)[1:])
                    if done.returncode != 0:
                        failures.append(f"{document}: {line}\n  status {done.returncode}: {done.stdout}{done.stderr}")
        (pathlib.Path(folder) / "mlp.py").write_text("# A layer.\ndef layer(accum, bias):\n    D = relu(accum + bias)\n    return D\n")
        said = run("gemm", "--m", "256", "--n", "128", "--k", "8", "--epilogue", "mlp.py", "--tensor", "bias=[64]:f32").stderr
        if said not in (ROOT / "README.md").read_text():
            failures.append(f"README.md does not show what is said:\n{said}")
    for failure in failures:
        print(failure)
    print(f"{count} commands, {len(failures)} failures")
    return 1 if failures or count < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
