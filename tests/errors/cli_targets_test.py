# SPDX-License-Identifier: Apache-2.0
"""Targets and compilers of GPUs on machines with and without one: what is assumed where code is only emitted, every configuration by its name, and
which CUDA compiler is taken. Argument: the built command."""
import json
import os
import pathlib
import tempfile

from cli_support import FAILURES, expect, outcome, run

SIZES = ["--m", 512, "--n", 1024, "--k", 512, "--dtype", "bf16"]


def emission(folder, cache):
    """Without a device an architecture is assumed, and said; with one it is the device's."""
    program = folder / "mlp.py"
    program.write_text('def mlp(x: bf16["m", 64], w: bf16[64, 32]):\n    y = relu(x @ w)\n    return y\n')
    for target, assumed in (("cuda", "cuda:sm_90a"), ("hip", "hip:gfx942")):
        none = run("kernels", *SIZES, *cache, "--target", target).returncode == 3
        note = f"no device is here, whose architecture it would be for: this is for --target {assumed}; name another one\n"
        for words in (["emit", *SIZES], ["emit", program], ["emit", program, "--what", "plan,memory"]):
            done = expect(0, "", *words, *cache, "--target", target)
            if (note in done.stderr) != none:
                FAILURES.append(f"{words} for {target} says {done.stderr}")
            if none and done.stdout != expect(0, "", *words, *cache, "--target", assumed).stdout:
                FAILURES.append(f"{words} for {target} emits other code than for {assumed}")
        done = expect(0, "", "emit", *SIZES, *cache, "--target", target, "--json")
        if none and json.loads(done.stderr.splitlines()[0]) != {"log": note.rstrip()}:
            FAILURES.append(f"emit --json for {target} says {done.stderr}")
        for verb in ("emit", "kernels"):
            expect(3, "error[E0", verb, *SIZES, *cache, "--target", target, "--device", 99)
    expect(2, "error[E0402]", "emit", *SIZES, *cache, "--target", "cuda:sm_9x")
    for target in ("metal", "cpu"):
        if expect(0, "", "emit", *SIZES, *cache, "--target", target).stderr:
            FAILURES.append(f"emit for {target} says something")


    # -o names a folder there, whatever it is called.
    expect(0, "function  mlp_mlp", "build", program, *cache, "--target", "metal", "-o", folder / "libmlp.dylib")
    if not (folder / "libmlp.dylib" / "mlp.h").is_file():
        FAILURES.append("no header mlp.h of a library for Metal")
    expect(1, "error[E0230]: 'lib-mlp' cannot", "build", program, *cache, "--target", "metal", "-o", folder / "lib-mlp")


def configurations(cache):
    """What the list leaves out is listed by --all, and taken by its name."""
    cross = [*SIZES, *cache, "--target", "cuda:sm_90a"]
    listed = json.loads(expect(0, "", "kernels", *cross, "--json").stdout)["kernels"]
    every = json.loads(expect(0, "", "kernels", *cross, "--all", "--json").stdout)
    names, known = [kernel["name"] for kernel in every["kernels"]], {kernel["name"] for kernel in listed}
    if len(set(names)) != len(names) or not known < set(names) or any(r["code"] == "E0418" for r in every["rejections"]):
        FAILURES.append(f"kernels --all has {len(names)} kernels, the list {len(known)}")
    other = next(name for name in names if name not in known and "_g4_" in name)
    expect(0, other, "kernels", *cross, "--kernel", other)
    expect(0, "__global__", "emit", *cross, "--kernel", other)
    # A part of listed names leaves those alone; the whole name of one is it alone.
    first = listed[0]["name"]
    if expect(0, first, "kernels", *cross, "--kernel", first).stdout.count("estimated") != 1:
        FAILURES.append(f"--kernel {first} leaves others")
    some = json.loads(expect(0, "", "kernels", *cross, "--kernel", "sm80", "--json").stdout)["kernels"]
    if not {kernel["name"] for kernel in some} < known:
        FAILURES.append("--kernel sm80 takes what is not listed")
    expect(2, "or of one that `codetta kernels --all` lists", "kernels", *cross, "--kernel", "sm90_64x65x64")
    expect(0, "", "kernels", "--m", 5, "--n", 7, "--k", 3, "--all", *cache)
    expect(2, "--all has no effect with CUTLASS", "kernels", *SIZES, *cache, "--target", "cutlass:sm_90", "--all")
    expect(2, "gemm has no option --all", "gemm", *SIZES, *cache, "--all")


def compilers(folder, cache):
    cross = ["--m", 64, "--n", 64, "--k", 64, *cache, "--target", "cuda:sm_80"]
    expect(2, "leave out --cuda-compiler", "compile", *cross, "--cuda-compiler", "clang")
    expect(3, "there is no program /nowhere/nvcc", "compile", *cross, "--cuda-compiler", "/nowhere/nvcc")
    expect(2, "--cuda-compiler has no effect", "compile", "--m", 5, "--n", 7, "--k", 3, *cache, "--cuda-compiler", "nvcc")
    # A toolkit of our own, in a script.
    home = folder / "cuda"
    (home / "bin").mkdir(parents=True)
    nvcc = home / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\n[ \"$1\" != --version ] || { echo 'release 13.1, V13.1.7'; exit 0; }\n[ \"$1\" != --dryrun ] || exit 0\n"
                    "while [ $# -gt 0 ]; do [ \"$1\" != -o ] || out=$2; shift; done\nprintf '\\177ELF' > $out\n")
    nvcc.chmod(0o755)
    expect(0, "compiled; cache", "compile", *cross, "--cuda-compiler", "nvcc", "--cuda-home", home)
    expect(0, "was compiled already", "compile", *cross, "--cuda-compiler", nvcc)
    expect(0, "was compiled already", "compile", *cross, env={**os.environ, "CODETTA_CUDA_COMPILER": str(nvcc)})
    nvcc.write_text(nvcc.read_text() + "# changed\n")
    expect(0, "compiled; cache", "compile", *cross, "--cuda-compiler", nvcc)
    found = {row["what"]: row for row in json.loads(run("doctor", *cache, "--target", "cuda", "--cuda-compiler", nvcc, "--json").stdout)}
    if found["CUDA compiler"]["detail"] != f"{nvcc} (nvcc 13.1), as asked" or found["nvcc"]["detail"] != f"{nvcc} (nvcc 13.1)":
        FAILURES.append(f"doctor says {found}")
    nvcc.write_text("#!/bin/sh\nexit 1\n")
    found = {row["what"]: row for row in json.loads(run("doctor", *cache, "--target", "cuda", "--cuda-compiler", nvcc, "--json").stdout)}
    if found["CUDA compiler"]["ok"] or "is no nvcc" not in found["CUDA compiler"]["detail"]:
        FAILURES.append(f"doctor says {found}")
    expect(3, "error[E0531]", "compile", *cross, "--cuda-compiler", nvcc)


def main():
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        cache = ["--cache-dir", folder / "cache"]
        emission(folder, cache)
        configurations(cache)
        compilers(folder, cache)
    return outcome()


if __name__ == "__main__":
    raise SystemExit(main())
