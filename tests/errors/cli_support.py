# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: they get the built command as their argument, and collect what fails."""
import struct
import subprocess
import sys
import time

COMMAND = sys.argv[1]
FAILURES = []


def run(*arguments, **options):
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options)


def expect(status, text, *arguments, **options):
    """The exit status and a part of what is said."""
    done = run(*arguments, **options)
    said = done.stdout + done.stderr
    if done.returncode != status or text not in said:
        FAILURES.append(f"codetta {' '.join(map(str, arguments))}\n  status {done.returncode}, wanted {status}; wanted '{text}' in:\n{said}")
    return done


def array(path, shape, kind="f4"):
    """A .npy file of small numbers."""
    count = 1
    for size in shape:
        count *= size
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    values = [(i * 7 % 11) - 5 for i in range(count)]
    body = struct.pack(f"<{count}{'f' if kind == 'f4' else 'i'}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body)
    return path


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def outcome():
    """Says what has failed; the exit status."""
    for failure in FAILURES:
        print(failure)
    print(f"{len(FAILURES)} failures")
    return 1 if FAILURES else 0
