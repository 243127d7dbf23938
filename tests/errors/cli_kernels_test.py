# SPDX-License-Identifier: Apache-2.0
"""Kernels of the user's that go wrong on a CPU: what is said of those that crash, before the command ends as the signal would end it, and of those that
call what is not defined. Argument: the built command."""
import json
import pathlib
import resource
import shlex
import signal
import tempfile

from cli_support import FAILURES, expect, outcome, run

PROGRAM = """def f(x: f32["n", 8], by: f32):
    h = x + 1.0
    y = user_kernel("own", h, by, out="f32[n, 8]")
    z = relu(y) * 2.0
    return z
"""
SOURCE = """extern "C" int munmap(void*, unsigned long);
extern "C" [[noreturn]] void abort();
extern "C" int on_exit(void (*)(int, void*), void*);
__attribute__((noinline)) int deep(volatile int* at) {
  volatile int here[4096];
  here[5] = *at;
  return deep(here + 5) + here[7];
}
void own(Tensor<const float, 2> x, float by, Tensor<float, 2> y) {
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t c = 0; c < 8; ++c) y(r, c) = x(r, c) * by;
  BODY
}
"""
LOOP = """def more(i: i32, x: f32["n", 8]):
    return i < 3

def step(i: i32, x: f32["n", 8]):
    y = user_kernel("own", x, 2.0, out="f32[n, 8]")
    return i + 1, y

def f(x: f32["n", 8]):
    i, y = while_loop(more, step, 0, x)
    return y
"""


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def crashes(folder, cache):
    """The signal, the step, the lines and a reproducer that can be pasted, in text and JSON; nothing of a run that works."""
    program, words = folder / "p.py", ["--kernel", f"own={folder / 'own.cc'}", *cache]
    program.write_text(PROGRAM)

    def said(body, *more, file=program):
        (folder / "own.cc").write_text(SOURCE.replace("BODY", body))
        return run("run", file, *words, *more, cwd=folder, preexec_fn=no_core)

    for body, number in (("*(volatile int*)8 = 1;", signal.SIGSEGV), ("__builtin_trap();", signal.SIGILL), ("abort();", signal.SIGABRT),
                         ("volatile int one = 1; y(0, 0) = deep(&one);", signal.SIGSEGV)):
        for option in ([], ["--json"], ["--check"], ["--bisect"], ["--values"]):
            done = said(body, "--dim", "n=5", *option)
            text = json.loads(done.stderr.splitlines()[-1])["diagnostics"][0] if option == ["--json"] else done.stderr
            whole = f"error[{text['code']}]: {text['headline']}\nnote: {text['reason']}\nhelp: {text['help']}\n" if option == ["--json"] else text
            lines = whole.splitlines()
            if (done.returncode != -number or f"error[E0617]: kernel own crashed: {number.name}" not in lines or lines[-2].count("(launch_kernel), kernel codetta_own_") != 1 or
                    not lines[-2].endswith('p.py:3: y = user_kernel("own", h, by, out="f32[n, 8]")')):
                FAILURES.append(f"a kernel with {body}, {option}: status {done.returncode}\n{done.stdout}{done.stderr}")
    # What the last line says to do is what there is to do.
    command = shlex.split(lines[-1].split("`")[1])
    command[command.index("FOLDER")] = str(folder / "alone")
    expect(0, "codetta_own_", *command[1:], cwd=folder)
    if not (folder / "alone" / "build.sh").exists():
        FAILURES.append(f"no reproducer by {command}")
    # One that writes over all of the memory in front of its result, and what it has left for later.
    for body, number, headline in (("for (volatile float* p = &y(0, 0);; --p) *p = 1e30f;", signal.SIGSEGV, "kernel own crashed: SIGSEGV"),
                                   ("on_exit((void (*)(int, void*))abort, nullptr);", signal.SIGABRT, "the command crashed behind the run: SIGABRT")):
        for option in ([], ["--json"], ["--check"]):
            done = said(body, "--dim", "n=5", *option)
            text = json.loads(done.stderr.splitlines()[-1])["diagnostics"][0]["headline"] if option == ["--json"] and done.stderr else done.stderr
            if done.returncode != -number or headline not in text or "--repro codetta_own_" not in done.stderr:
                FAILURES.append(f"{body}, {option}: status {done.returncode}\n{done.stdout}{done.stderr}")
            if "behind" in headline and "(launch_kernel), kernel codetta_own_" not in done.stderr:
                FAILURES.append(f"{body}, {option}: no step in\n{done.stderr}")
    said("__builtin_trap();", "--dim", "n=5", "--save-values", "values")
    if [path.suffix for path in (folder / "values").iterdir()] != [".npy"]:
        FAILURES.append(f"kept of the step before: {list((folder / 'values').iterdir())}")
    done = said("", "--dim", "n=5", "--check")
    if done.returncode != 0 or "E0617" in done.stderr:
        FAILURES.append(f"a kernel that works: {done.returncode}\n{done.stderr}")
    # A step behind it that falls into what the kernel did.
    done = said("munmap((void*)(((unsigned long)&y(0, 0) + 65535) / 65536 * 65536), 65536);", "--dim", "n=40000")
    for part in ("error[E0617]: kernel codetta_relu_mul_", " crashed: SIGSEGV\n", "p.py:4: z = relu(y) * 2.0\n", "kernel codetta_own_",
                 ", ran before it, and may have written where it may not\n", "--repro codetta_own_"):
        if done.returncode != -signal.SIGSEGV or part not in done.stderr:
            FAILURES.append(f"a step behind a kernel that takes memory away: no {part!r}, status {done.returncode}\n{done.stderr}")
    # In a loop, at its third pass.
    program = folder / "loop.py"
    program.write_text(LOOP)
    done = said("static int passes = 0; if (++passes == 3) __builtin_trap();", "--dim", "n=5", file=program)
    if done.returncode != -signal.SIGILL or "note: list 1, step " not in done.stderr or "loop.py:5" not in done.stderr:
        FAILURES.append(f"a kernel in a loop: status {done.returncode}\n{done.stderr}")


HOOKED = """def f(x: f32["n", 8]):
    y = user_kernel("own", x, out="f32[n, 8]")
    z = relu(y) * 2.0
    return z
"""


def picked_otherwise(folder, cache):
    """The command for a reproducer finds the kernel that ran also where hints, what tune has measured, or a check decided which one that is."""
    source = """#pragma codetta config(A = 0) config(A = 1)
    void own(Tensor<const float, 2> x, RESULT y) {
      if (x.size(0) == 7) __builtin_trap();
      volatile float s = 0;
      if (A == 0) for (int i = 0; i < 200000; ++i) s = s + 1;
      for (int64_t r = 0; r < x.size(0); ++r) for (int64_t c = 0; c < 8; ++c) y(r, c) = x(r, c);
    }"""
    (folder / "p.py").write_text(HOOKED)
    (folder / "plain.cc").write_text(source.replace("RESULT", "Tensor<float, 2>"))
    (folder / "hooked.cc").write_text(source.replace("RESULT", "Hook<float, 2>").replace("y(r, c) = x(r, c)", "y.store(r, c, x(r, c))"))
    expect(0, "", "tune", "p.py", "--kernel", "own=plain.cc", "--dim", "n=5", *cache, cwd=folder)
    names = set()
    for number, (file, *words) in enumerate((["plain.cc"], ["plain.cc", "--hint", "n=5"], ["plain.cc", "--hint", "n=5", "--hint", "n=900"], ["hooked.cc", "--check"], ["hooked.cc"])):
        done = run("run", "p.py", "--kernel", f"own={file}", "--dim", "n=7", *words, *cache, cwd=folder, preexec_fn=no_core)
        said = [line.split("`")[1] for line in done.stderr.splitlines() if line.startswith("help: `")]
        if done.returncode != -signal.SIGILL or len(said) != 1:
            FAILURES.append(f"{file} {words}: status {done.returncode}\n{done.stderr}")
            continue
        command = shlex.split(said[0])
        command[command.index("FOLDER")] = str(folder / f"alone{number}")
        names.add(command[-1])
        expect(0, command[-1], *command[1:], cwd=folder)
    if len(names) < 3:  # of a checked run, of one that is not, and without a hook
        FAILURES.append(f"kernels that are picked otherwise: {sorted(names)}")


def undefined(folder, cache):
    """What is declared and not defined is a mistake of the source, told at its line: in a run, where the loader finds it, and in a library, where a linker does."""
    (folder / "p.py").write_text(PROGRAM)
    (folder / "own.cc").write_text(SOURCE.replace("void own", "namespace there { template <class T> T absent(T); }\nvoid own").replace("BODY", "there::absent<long>(2);"))
    shown = ("error[E0313]: the source of 'codetta_own_", "' uses what is not defined: long there::absent<long>(long)\n  --> own.cc:13:10\n",
             "  |          ^^^^^^ declared, and defined nowhere\nnote: ", "\nhelp: define it in the source of the kernel\n")
    for words in (["run", "p.py", "--dim", "n=5"], ["compile", "p.py"], ["build", "p.py", "--hint", "n=5", "-o", "libp.so"]):
        done = expect(1, shown[1], *words, "--kernel", "own=own.cc", *cache, cwd=folder)
        for part in shown:
            if part not in done.stderr:
                FAILURES.append(f"{words}: no {part!r}\n{done.stderr}")
    if (folder / "libp.so").exists():
        FAILURES.append("a library that calls what is not defined was made")
    # A source that is called as Codetta's own text is, is the user's all the same.
    (folder / "device").mkdir()
    for name in ("device/own.cc", "codetta_own.cc"):
        for body, said in (("misspelt;", "the compiler rejected the source of 'codetta_own_"), ("int absent(int); absent(2);", "uses what is not defined: absent(int)\n")):
            (folder / name).write_text(SOURCE.replace("BODY", body))
            expect(1, said, "run", "p.py", "--kernel", f"own={name}", "--dim", "n=5", *cache, cwd=folder)
            done = expect(1, f"  --> {name}:12:", "run", "p.py", "--kernel", f"own={name}", "--dim", "n=5", *cache, cwd=folder)
            if "error[E0313]" not in done.stderr:
                FAILURES.append(f"{name} {body}\n{done.stderr}")


def helpers(folder, cache):
    """What a source includes of its own files is part of it, and none of these is written over."""
    (folder / "p.py").write_text(PROGRAM)
    (folder / "lib").mkdir()
    (folder / "lib" / "parts.h").write_text('#pragma once\n#include "deeper.h"\n')
    (folder / "lib" / "deeper.h").write_text("#pragma once\nstatic int helper(int a) { return a; }\n")
    (folder / "own.cc").write_text('#include "lib/parts.h"\n' + SOURCE.replace("BODY", "helper(2);"))
    own = ["--kernel", "own=own.cc", *cache]
    for words in (["run", "p.py", "--dim", "n=5"], ["explain", "p.py"], ["build", "p.py", "--hint", "n=5", "-o", "libhelped.so"]):
        expect(0, "", *words, *own, cwd=folder)
    expect(2, "error[E0701]", "compile", "p.py", *own, "--report", "lib/deeper.h", cwd=folder)
    expect(2, "error[E0701]", "build", "p.py", *own, "-o", "libhelped.so", "--header", "lib/../lib/parts.h", cwd=folder)
    (folder / "lib" / "deeper.h").write_text("\nstatic int helper(int a) { return misspelt; }\n")
    expect(1, "--> lib/deeper.h:2:", "run", "p.py", "--dim", "n=5", *own, cwd=folder)
    (folder / "lib" / "deeper.h").unlink()
    (folder / "lib" / "deeper.h").mkdir()
    expect(2, "let the files that a kernel includes be readable", "run", "p.py", "--dim", "n=5", *own, cwd=folder)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        crashes(folder, ["--cache-dir", folder / "cache"])
        picked_otherwise(folder, ["--cache-dir", folder / "cache"])
        undefined(folder, ["--cache-dir", folder / "cache"])
        helpers(folder, ["--cache-dir", folder / "cache"])
    return outcome()


if __name__ == "__main__":
    raise SystemExit(main())
