# SPDX-License-Identifier: Apache-2.0
"""check_format finds what is not formatted: in slices what was changed last, and all of the others within as many commits as there are parts."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOOD, BAD = "int x;\n", "int   x ;\n"


class CheckFormat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("include", "src", "device", "tests", "fuzz", "bench", "examples", "tools"):
            (self.root / name).mkdir()
        for name in ("tools/check_format", ".clang-format"):
            shutil.copy(ROOT / name, self.root / name)
        self.git("init", "-q")

    def git(self, *words):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, stdout=subprocess.DEVNULL)

    def commit(self, **files):
        for name, text in files.items():
            (self.root / "src" / f"{name}.cpp").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "c")

    def found(self, *words):
        done = subprocess.run([self.root / "tools/check_format", *words], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        names = [line.split()[1] for line in done.stdout.splitlines() if line.endswith(".cpp")]
        self.assertEqual(done.returncode, 1 if names else 0, done.stdout)
        return sorted(pathlib.Path(name).stem for name in names)

    def test_slices(self):
        self.commit(a=BAD, b=BAD, c=GOOD, d=GOOD)
        self.assertEqual(self.found("--slice", "2"), ["a", "b"])  # this commit's
        for i in range(20):
            self.commit(c=GOOD + f"int y{i};\n")
        self.assertEqual(self.found(), ["a", "b"])
        seen = set()
        for i in range(40):  # one of two neighbours, another one at some commit
            names = self.found("--slice", "2")
            self.assertEqual(len(names), 1)
            seen.update(names)
            if len(seen) == 2:
                break
            self.commit(c=GOOD + f"int z{i};\n")
        self.assertEqual(seen, {"a", "b"})
        (self.root / "src/d.cpp").write_text(BAD)
        (self.root / "src/e.cpp").write_text(BAD)
        self.assertLessEqual({"d", "e"}, set(self.found("--slice", "1000")))  # of no commit yet

    def test_repairs(self):
        self.commit(a=BAD)
        subprocess.run([self.root / "tools/check_format", "--repair"], check=True)
        self.assertEqual((self.root / "src/a.cpp").read_text(), GOOD)

    def test_words_that_it_does_not_know(self):
        for words in (["--slice"], ["--slice", "0"], ["--slice", "3x"], ["--slice", ""], ["--fix"], ["--repair", "2"]):
            done = subprocess.run([self.root / "tools/check_format", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("usage: tools/check_format", done.stderr)


if __name__ == "__main__":
    sys.exit(77) if not shutil.which("clang-format-14") or not shutil.which("git") else unittest.main()
