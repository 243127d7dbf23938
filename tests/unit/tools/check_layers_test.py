# SPDX-License-Identifier: Apache-2.0
"""check_layers accepts a clean tree and names each planted violation."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools" / "check_layers"
TABLE = "0 device :\n0 base :\n1 diag : base\n1 types : base\n2 ir : diag types\n"


def document_of(table):
    rows = (line.split("#")[0].split() for line in table.splitlines() if line.strip() and line[0] != "#")
    return "".join(f"| `src/{room}` | {level} | what it is | {' '.join(uses)} |\n" for level, room, _, *uses in rows)


class CheckLayers(unittest.TestCase):
    def check(self, files, table=TABLE):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for room in ("base", "diag", "types", "ir"):
                (root / "src" / room).mkdir(parents=True)
            for name, text in {"docs/layers.txt": table, "docs/ARCHITECTURE.md": document_of(table), "include/codetta/a.hpp": "", **files}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, str(TOOL), folder], capture_output=True, text=True)
            return done.returncode, done.stdout

    def rejects(self, files, message, table=TABLE):
        status, output = self.check(files, table)
        self.assertEqual(status, 1, output)
        self.assertIn(message, output)
        self.assertEqual(len(output.splitlines()), 1, output)

    def test_clean_tree(self):
        status, output = self.check({
            "src/ir/graph.cpp": '#include "ir/graph.hpp"\n#include <fmt/format.h>\n#include "base/ids.hpp"\n',
            "src/ir/graph.hpp": '#include "codetta/a.hpp"\n#include "types/dtype.hpp"\n',
            "src/ir/CMakeLists.txt": "codetta_room(ir\n  SOURCES graph.cpp\n  DEPENDS diag types base)\n",
        })
        self.assertEqual((status, output), (0, "check_layers: 5 rooms, all arrows point down\n"))

    def test_document_of_another_table(self):
        self.rejects({"docs/ARCHITECTURE.md": document_of(TABLE.replace("ir : diag types", "ir : diag"))}, "the row of ir (2: diag) is not that")
        self.rejects({"docs/ARCHITECTURE.md": document_of(TABLE.replace("2 ir : diag types\n", ""))}, "ir has no row in the table")

    def test_upward_include(self):
        self.rejects({"src/base/x.cpp": '\n#include "ir/graph.hpp"\n'},
                     'src/base/x.cpp:2: base must not include "ir/graph.hpp"; it may use no other room')

    def test_sibling_include(self):
        self.rejects({"src/diag/x.hpp": '#  include "types/dtype.hpp"\n'}, "src/diag/x.hpp:1: diag must not include")

    def test_public_header_includes_a_room(self):
        self.rejects({"include/codetta/b.hpp": '#include "base/ids.hpp"\n'}, "include/codetta/b.hpp:1: codetta must not")

    def test_device_includes_a_public_header(self):
        self.rejects({"device/cpu/k.h": '#include "codetta/a.hpp"\n'}, "sources for emitted code stand alone")

    def test_private_package_in_a_header(self):
        self.rejects({"src/ir/x.hpp": "#include <fmt/format.h>\n"}, "<fmt/format.h> belongs in a .cpp file")

    def test_include_without_a_room(self):
        self.rejects({"src/ir/x.cpp": '#include "../diag/x.hpp"\n', "src/diag/x.hpp": ""}, 'write "../diag/x.hpp" as')

    def test_link_list(self):
        self.rejects({"src/diag/CMakeLists.txt": "codetta_room(diag\n  SOURCES x.cpp\n  DEPENDS base types)\n"},
                     "src/diag/CMakeLists.txt: diag must not link types")

    def test_table_with_an_arrow_between_siblings(self):
        self.rejects({}, "types (level 1) uses diag (level 1)", TABLE.replace("types : base", "types : diag"))


if __name__ == "__main__":
    unittest.main()
