# SPDX-License-Identifier: Apache-2.0
"""A C++ compiler for tests in which the text of a host need not be fast."""

import pathlib
import subprocess

# What such text begins with, and what it is compiled with (src/driver/build.cpp).
HEADERS = ("gpu.h", "weights.h")
FLAGS = ("-std=c++20", "-O0", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-fno-exceptions", "-fno-rtti",
         "-fno-threadsafe-statics", "-ffunction-sections", "-fdata-sections", "-fno-lto", "-fno-gnu-unique")


def quick_compiler(cxx, source, work, kernels=False):
    """The path of a compiler that does not optimize the text of a host, and with `kernels` nothing else either: users' kernels
    keep their bits. The first header is there compiled, which is half of what is left; GCC takes it where it fits the flags,
    and reads the header where it does not, as other compilers do. Nothing is left in the source tree."""
    work = pathlib.Path(work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    for header in HEADERS:
        # What is a header by itself is told that `#pragma once` is of no use to it.
        subprocess.run([cxx, *FLAGS, "-w", "-I", source, "-x", "c++-header", source / "device/host" / header, "-o", work / f"{header}.gch"], check=True)
    path = work / "quick-c++"
    others = "" if kernels else f'case " $* " in *" -fno-threadsafe-statics "*) ;; *) exec "{cxx}" "$@" ;; esac\n'
    path.write_text(f"""#!/bin/sh
{others}for header in {" ".join(HEADERS)}; do
  if [ ! . -ef "{source}" ] && [ -e "device/host/$header" ] && [ ! -e "device/host/$header.gch" ]; then
    ln -s "{work}/$header.gch" "device/host/$header.gch" 2>/dev/null  # units are compiled at the same time
  fi
done
exec "{cxx}" "$@" -O0
""")
    path.chmod(0o755)
    return path
