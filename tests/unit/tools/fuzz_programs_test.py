# SPDX-License-Identifier: Apache-2.0
"""fuzz_programs names every target, and commits in turn pick all that not every run of the tests has."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL, RUN = ROOT / "tools/fuzz_programs", ROOT / "tools/run_fuzz"


def names(which, commit=None):
    """Names, and what is told beside them; of a commit that git is made to have, "" for none."""
    with tempfile.TemporaryDirectory() as folder:
        git = pathlib.Path(folder) / "git"
        git.write_text(f"#!/bin/sh\necho {commit}\n" if commit else "#!/bin/sh\nexit 128\n")
        git.chmod(0o755)
        done = subprocess.run([TOOL, which], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    return done.returncode, done.stdout.split(), done.stderr


class FuzzPrograms(unittest.TestCase):
    def test_all(self):
        files = sorted(path.name.removesuffix("_fuzz.cpp") for path in (ROOT / "fuzz").glob("*_fuzz.cpp"))
        self.assertEqual(sorted(names("all")[1]), files)

    def test_commits_pick_all_of_the_others(self):
        readers, all_of_them = names("readers")[1], names("all")[1]
        self.assertEqual(sorted(readers), ["cache", "frontend", "npy", "package", "safetensors"])
        picked = []
        for number in range(48):
            commit = f"{number:07x}" + 33 * "a"
            status, found, told = names("slice", commit)
            self.assertEqual((status, told), (0, f"fuzz targets of the slice of {commit}: {' '.join(found)}\n"))
            self.assertIn(len(found), (1, 2))
            picked += found
        self.assertEqual(sorted({*picked, *readers}), sorted(all_of_them))
        self.assertFalse(set(picked) & set(readers))
        self.assertEqual(picked.count("bind"), 3)
        self.assertEqual(picked.count("log"), 16)

    def test_without_a_commit(self):
        self.assertEqual(names("slice", "")[0], 0)
        self.assertEqual(len(names("slice", "")[1]), 2)

    def test_usage(self):
        self.assertEqual(names("some"), (2, [], "usage: tools/fuzz_programs all | readers | slice\n"))

    def test_what_is_not_built_hides_no_finding(self):
        """All are looked for before any runs."""
        with tempfile.TemporaryDirectory() as build:
            (pathlib.Path(build) / "fuzz").mkdir()
            first = pathlib.Path(build) / "fuzz/npy_fuzz"
            first.write_text("#!/bin/sh\nexit 1\n")
            first.chmod(0o755)
            done = subprocess.run([RUN, build, "1", "npy", "cache"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (77, "cache: not built\n"))
            self.assertEqual(subprocess.run([RUN, build, "1", "npy"], capture_output=True).returncode, 1)

    def test_no_target_is_no_success(self):
        with tempfile.TemporaryDirectory() as root:
            tools = pathlib.Path(root) / "tools"
            tools.mkdir()
            shutil.copy(RUN, tools / "run_fuzz")
            (tools / "fuzz_programs").write_text("#!/bin/sh\nexit 1\n")
            (tools / "fuzz_programs").chmod(0o755)
            for slice_ in ([], ["--slice"]):
                done = subprocess.run([tools / "run_fuzz", root, "1", *slice_], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (2, "no fuzz target is named\n"))


if __name__ == "__main__":
    unittest.main()
