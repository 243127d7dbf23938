# SPDX-License-Identifier: Apache-2.0
"""What libcodetta exports and needs. Usage: symbols_test.py <libcodetta.so>"""

import re
import subprocess
import sys

PUBLIC = re.compile(r"(typeinfo (name )?for |vtable for )?codetta(::(?!(base|diag|types|ir|package|frontend|oracle|opt|plan|"
                    r"toolchain|runtime|emit|device|driver|detail)::)|_)")
NEEDED = re.compile(r"lib(stdc\+\+|gcc_s|c\+\+|c\+\+abi|c|m|pthread|dl|asan|ubsan|tsan)\.so|ld-linux")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    library = sys.argv[1]
    names = [line.split(maxsplit=2)[-1] for line in output("nm", "-DC", "--defined-only", library).splitlines()]
    problems = [f"exported: {name}" for name in names if not PUBLIC.match(name)]
    if not any(name.startswith("codetta::version") for name in names):
        problems.append("codetta::version() is not exported")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))
    problems += [f"needs {name}" for name in needed if not NEEDED.match(name)]
    # FTZ/DAZ set by a start-up object of -ffast-math would change the arithmetic of every program that loads the library.
    if "set_fast_math" in output("nm", "-C", library):
        problems.append("linked with -ffast-math: sets FTZ/DAZ when loaded")
    print(*problems, sep="\n") if problems else print(f"{len(names)} symbols exported; needs {' '.join(needed)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
