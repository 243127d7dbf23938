# SPDX-License-Identifier: Apache-2.0
"""Of a list of cases those that the current commit picks, as tests/support/slice.hpp has it for programs."""

import os
import pathlib
import subprocess


def of_this_commit(cases, of=None):
    """One of each `of` cases in a row, without a number one of all; the full suite runs all of them."""
    cases = list(cases)
    if os.environ.get("CODETTA_TEST_FULL") == "ON":
        return cases
    found = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "rev-parse", "HEAD"], capture_output=True, text=True)
    commit = found.stdout.strip() or "0"
    picked = [case for number, case in enumerate(cases) if (number + int(commit[:7], 16)) % (of or len(cases)) == 0]
    named = ": " + ", ".join(map(str, picked)) if len(picked) < 6 else ""
    print(f"\nslice of {commit}: {len(picked)} of {len(cases)}{named}", flush=True)
    return picked
