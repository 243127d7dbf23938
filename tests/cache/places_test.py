# SPDX-License-Identifier: Apache-2.0
"""Where the command keeps its cache, and what it does where it cannot keep one. Arguments: the built command, then
  environment   the folder by HOME, XDG_CACHE_HOME and CODETTA_CACHE_DIR, from an empty environment
  file_systems  file systems that are full, without inodes, read-only or noexec; needs the right to mount (else status 77)
  lost_entries  a cache that has some of a program's kernels where there is no compiler
"""
import json
import os
import pathlib
import pwd
import shlex
import stat
import subprocess
import sys
import tempfile

COMMAND = os.path.abspath(sys.argv[1])
FAILURES = []
# No compiler has seen it before; the answer is checked against the oracle.
GEMM = ["gemm", "--m", "9", "--n", "14", "--k", "6", "--dtype", "f32", "--check", "--epilogue",
        "def places(accum): D = tanh(accum) + 0.1875; return D"]
COMPILE = ["compile", *GEMM[1:-3], *GEMM[-2:]]
PATH = "/usr/local/bin:/usr/bin:/bin"


def fail(what, done):
    FAILURES.append(f"{what}: status {done.returncode}\n{done.stdout}{done.stderr}")


def run(arguments, environment, **options):
    """With nothing in the environment but what is given."""
    return subprocess.run([COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False, **options)


def folder_of(environment, **options):
    done = run(["cache", "--json"], environment, **options)
    try:
        return json.loads(done.stdout)["directory"]
    except (ValueError, KeyError):
        fail(f"cache --json with {environment}", done)
        return ""


def expect_folder(environment, wanted):
    found = folder_of(environment)
    if found != str(wanted):
        FAILURES.append(f"with {environment} the cache is {found!r}, not {str(wanted)!r}")


def expect_kept(environment, folder):
    """The first run makes an entry, the second finds it; the folder is nobody else's."""
    for hit in (False, True):
        done = run([*COMPILE, "--json"], environment)
        if done.returncode != 0 or done.stderr or json.loads(done.stdout)["hit"] != hit:
            fail(f"compile with {environment}, hit {hit}", done)
    if not folder.is_dir() or stat.S_IMODE(folder.stat().st_mode) != 0o700:
        FAILURES.append(f"{folder} is no folder of mode 0700")


def expect_one_line(done, what, words):
    """The right result, and one line that says why nothing is kept."""
    lines = done.stderr.splitlines()
    if done.returncode != 0 or "pass" not in done.stdout or len(lines) != 1 or not all(word in done.stderr for word in words):
        fail(what, done)


def test_environment(work):
    home, other = work / "home", work / "other"
    home.mkdir()
    other.mkdir()
    known = pathlib.Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache" / "codetta"
    was_there = known.exists()
    for environment in ({}, {"HOME": ""}, {"XDG_CACHE_HOME": "relative"}, {"XDG_CACHE_HOME": ""}):
        expect_folder(environment, known)
    if not was_there and known.is_dir() and not any(known.iterdir()):
        known.rmdir()
    # A relative folder would be another one in each working folder.
    for ignored in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}, {"XDG_CACHE_HOME": "./x"}):
        expect_folder({"HOME": str(home), **ignored}, home / ".cache" / "codetta")
    expect_folder({"HOME": str(home), "XDG_CACHE_HOME": str(other)}, other / "codetta")
    expect_folder({"HOME": str(home), "XDG_CACHE_HOME": str(other), "CODETTA_CACHE_DIR": str(work / "named")}, work / "named")
    expect_folder({"HOME": str(home), "CODETTA_CACHE_DIR": ""}, home / ".cache" / "codetta")
    if pathlib.Path("relative").exists():
        FAILURES.append("a relative XDG_CACHE_HOME was used")
    expect_kept({"PATH": PATH, "HOME": str(home)}, home / ".cache" / "codetta")
    expect_kept({"HOME": str(home), "XDG_CACHE_HOME": str(other)}, other / "codetta")  # compilers are found without PATH
    # A home that is not there, and one that cannot be: no folder, no loss but time.
    expect_kept({"HOME": str(work / "made" / "on demand")}, work / "made" / "on demand" / ".cache" / "codetta")
    expect_one_line(run(GEMM, {"HOME": "/proc/none"}), "gemm with HOME=/proc/none", ["/proc/none/.cache/codetta"])
    nobody = 54321
    if os.geteuid() != 0 or any(user.pw_uid == nobody for user in pwd.getpwall()):
        return
    starts = lambda: os.setuid(nobody)
    try:
        if run(["--version"], {}, preexec_fn=starts).returncode != 0:
            return
    except OSError:  # the build folder is root's alone
        return
    expect_one_line(run(GEMM, {}, preexec_fn=starts), "gemm of a user without a home", ["no cache folder", "HOME"])


def mounted(work, options, script):
    """The output of the script in a mount namespace of its own, where `work` is a tmpfs with these options."""
    lines = f"mount -t tmpfs -o {options} tmpfs {shlex.quote(str(work))} || exit 77\n{script}"
    environment = {"PATH": f"{PATH}:/usr/sbin:/sbin", "CODETTA_CACHE_DIR": str(work / "cache"), "TMPDIR": "/tmp"}
    return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", lines], env=environment,
                          capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, check=False)


def test_file_systems(work):
    gemm, compile_json = shlex.join([COMMAND, *GEMM]), shlex.join([COMMAND, *COMPILE, "--json"])
    try:
        if os.geteuid() != 0 or mounted(work, "size=64k", "exit 0").returncode != 0:
            raise OSError
    except OSError:
        print("SKIPPED: no right to mount a file system")
        sys.exit(77)
    # Nothing is executed from the folder, so a noexec one serves as any other.
    done = mounted(work, "noexec,mode=700", f"{compile_json} && {compile_json} && {gemm}")
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or done.stderr or [r["hit"] for r in reports] != [False, True] or "pass" not in done.stdout:
        fail("noexec", done)
    filled = f"mkdir -m 700 {work}/cache && (cat /dev/zero > {work}/filler 2>/dev/null; true)"
    expect_one_line(mounted(work, "size=64k,mode=700", f"{filled} && {gemm}"), "full", ["No space left"])
    expect_one_line(mounted(work, "size=1m,nr_inodes=2,mode=700", f"mkdir -m 700 {work}/cache && {gemm}"), "no inodes",
                    ["No space left"])
    expect_one_line(mounted(work, "mode=700", f"mkdir -m 700 {work}/cache && mount -o remount,ro {work} && {gemm}"),
                    "read-only", ["Read-only file system"])
    # What was kept before serves a folder that takes no more.
    done = mounted(work, "mode=700", f"{compile_json} && mount -o remount,ro {work} && {compile_json}")
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or [r["hit"] for r in reports] != [False, True]:
        fail("read-only after the first", done)
    # Room enough for the entry, none for a second: the folder holds whole entries only.
    done = mounted(work, "size=64k,mode=700", f"{filled} && {gemm}; {gemm}; rm {work}/filler; {compile_json} && {compile_json}")
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or [r["hit"] for r in reports] != [False, True]:
        fail("full, then not", done)


# The largest of a row is found by one kernel, and compared by another one with values that it computes again.
COMPARED = """def f(x: f32["n", 64], w: f32[64, 64], g: f32[64], c: f32[64]):
    t = gelu(x * g + c)
    best = max(t, dim=-1)
    z = relu((x @ w) * best)
    hot = cast(t >= best, i64) * cast(z >= 0.0, i64)
    count = sum(hot, dim=-1)
    y = z + t
    return count, y
"""


def test_lost_entries(work):
    """Compiled and interpreted kernels give gelu other bits: those that compute a value again are all of one kind."""
    program, cache = work / "compared.py", work / "cache"
    program.write_text(COMPARED)
    arguments = ["run", str(program), "--dim", "n=200", "--check", "--cache-dir", str(cache)]
    if run(arguments, {"PATH": PATH}).returncode != 0 or len(binaries := sorted(cache.rglob("*.bin"))) < 2:
        FAILURES.append(f"of the program {sorted(cache.rglob('*'))} was kept")
        return
    for lost in [None, *binaries]:
        kept = lost.read_bytes() if lost else b""
        if lost:
            lost.unlink()
        done = run(arguments, {"PATH": "/nonexistent"})
        if done.returncode != 0 or "pass" not in done.stdout or ("interpreted" in done.stderr) != bool(lost):
            fail(f"without a compiler and without {lost}", done)
        if lost:
            lost.write_bytes(kept)


def main():
    with tempfile.TemporaryDirectory(prefix="codetta-places-") as folder:
        work = pathlib.Path(folder).resolve()
        os.chdir(work)
        work.chmod(0o755)
        {"environment": test_environment, "file_systems": test_file_systems, "lost_entries": test_lost_entries}[sys.argv[2]](work)
        os.chdir("/")
    for failure in FAILURES:
        print(failure)
    print(f"{len(FAILURES)} failures")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
