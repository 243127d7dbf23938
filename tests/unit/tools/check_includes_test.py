# SPDX-License-Identifier: Apache-2.0
"""check_includes accepts a clean tree and names each file that does not compile by itself."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools" / "check_includes"
CLEAN = {
    "include/codetta/a.hpp": "#pragma once\nstruct A {\n  int n = 0;\n};\n",
    "src/ir/graph.hpp": '#pragma once\n#include "codetta/a.hpp"\nA graph();\n',
    "src/ir/graph.cpp": '#include "ir/graph.hpp"\nA graph() { return {}; }\n',
    "device/host/items.h": "#pragma once\ninline int items() { return 1; }\n",
    "device/gpu/tile.h": "__global__ this is for another compiler\n",
}


class CheckIncludes(unittest.TestCase):
    def check(self, files, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **files}.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, "-B", str(TOOL), "--root", folder, *arguments], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def test_clean_tree(self):
        self.assertEqual(self.check({}), (0, "check_includes: 4 files, 0 do not compile by themselves\n"))

    def test_files_that_lack_an_include(self):
        for name in ("include/codetta/b.hpp", "src/ir/b.hpp", "device/cpu/b.hpp", "device/host/b.h"):
            status, output = self.check({name: "#pragma once\nstd::string text();\n"})
            self.assertEqual(status, 1)
            self.assertIn(f"{name} does not compile by itself:", output)
            self.assertIn("5 files, 1 do not", output)
        status, output = self.check({"src/ir/b.cpp": "A other() { return {}; }\n"})
        self.assertEqual(status, 1)
        self.assertIn("src/ir/b.cpp does not compile by itself:", output)

    def test_a_warning_is_a_failure(self):
        status, output = self.check({"src/ir/b.cpp": "int narrow(long n) { return n; }\n"})
        self.assertEqual(status, 1)
        self.assertIn("-Werror=conversion", output)

    def test_headers_only(self):
        self.assertEqual(self.check({"src/ir/b.cpp": "A other();\n"}, "--headers"), (0, "check_includes: 3 files, 0 do not compile by themselves\n"))

    def test_parts_are_picked_by_the_commit(self):  # none here: the first
        wrong = {"include/codetta/b.hpp": "B wrong();\n"}  # the second of five files
        status, output = self.check(wrong, "--slice", "2")
        self.assertEqual(status, 0, output)
        self.assertIn("part 0 of 2", output)
        self.assertIn("3 files", output)
        self.assertEqual(self.check(wrong, "--slice", "1")[0], 1)

    def test_files_by_name(self):
        wrong = {"src/ir/b.hpp": "B wrong();\n"}
        self.assertEqual(self.check(wrong, "src/ir/graph.hpp")[0], 0)
        self.assertEqual(self.check(wrong, "src/ir/graph.hpp", "src/ir/b.hpp")[0], 1)

    def test_no_compiler(self):
        self.assertEqual(self.check({}, "--compiler", "no-such-compiler"), (2, "check_includes: there is no no-such-compiler\n"))


if __name__ == "__main__":
    unittest.main()
