# SPDX-License-Identifier: Apache-2.0
"""Writes the cases of python/check_examples.py and has the program that is named judge them with the oracle."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: NumPy is not installed (Debian: python3-numpy)")
    sys.exit(77)

root = pathlib.Path(__file__).resolve().parents[3]
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, "-B", str(root / "python" / "check_examples.py"), "--write", folder], check=True)
    sys.exit(subprocess.run([sys.argv[1], folder]).returncode)
