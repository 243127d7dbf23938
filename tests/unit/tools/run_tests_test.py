# SPDX-License-Identifier: Apache-2.0
"""run_tests counts cases of GoogleTest reports, whole scripts, skips and deaths."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools" / "run_tests"
REPORT = """<?xml version="1.0"?><testsuites><testsuite name="s">
<testcase name="a" status="run" result="completed"/><testcase name="b" status="run" result="completed"/>
<testcase name="c" status="run" result="skipped"/><testcase name="d" status="notrun" result="suppressed"/>{more}
</testsuite></testsuites>"""
FAILURE = '<testcase name="e" status="run" result="completed"><failure message="m"/></testcase>'


class RunTests(unittest.TestCase):
    def run_tests(self, tests, made=None, arguments=()):
        """tests: name -> (exit status, GoogleTest report or None); made: the codes that each of them makes, of two."""
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            lines = []
            if made is not None:
                table = [f'CODETTA_CODE({number}, name, Program, "title")' for number in (101, 542)]
                (build / "codes.def").write_text("\n".join(table) + "\n")
            for name, (status, report) in tests.items():
                script = f"exit {status}"
                if report:
                    (build / f"{name}.in").write_text(report)
                    script = f"cp {build}/{name}.in {build}/gtest/{name}.xml; " + script
                if made:
                    script = f"echo {made} >>$CODETTA_CODES/{name}; " + script
                lines.append(f"add_test({name} sh -c [=[{script}]=])")
                lines.append(f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)")
            (build / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
            done = subprocess.run([sys.executable, str(TOOL), folder, *arguments], capture_output=True, text=True)
            return done.returncode != 0, done.stdout.splitlines()[-1]

    def test_cases_and_scripts(self):
        self.assertEqual(self.run_tests({"g": (0, REPORT.format(more="")), "script": (0, None), "absent": (77, None)}),
                         (False, "3 passed, 0 failed, 3 skipped"))

    def test_failing_case_is_counted_once(self):
        self.assertEqual(self.run_tests({"g": (1, REPORT.format(more=FAILURE)), "s": (1, None)}),
                         (True, "2 passed, 2 failed, 2 skipped"))

    def test_death_after_the_report_is_a_failure(self):
        self.assertEqual(self.run_tests({"g": (9, REPORT.format(more=""))}), (True, "2 passed, 1 failed, 2 skipped"))

    def test_every_code_is_made(self):
        both, one = "E0101 E0542", "E0101"
        self.assertEqual(self.run_tests({"s": (0, None)}, both), (False, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_tests({"s": (0, None)}, one), (True, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_tests({"s": (0, None), "gpu": (77, None)}, one), (True, "1 passed, 1 failed, 1 skipped"))
        self.assertEqual(self.run_tests({"s": (0, None), "t": (77, None)}, one), (False, "1 passed, 0 failed, 2 skipped"))
        self.assertEqual(self.run_tests({"s": (1, None)}, one), (True, "0 passed, 1 failed, 1 skipped"))
        self.assertEqual(self.run_tests({"s": (0, None)}, one, ["-R", "s"]), (False, "1 passed, 0 failed, 1 skipped"))

    def test_no_tests_is_a_failure(self):
        failed, _ = self.run_tests({})
        self.assertTrue(failed)


if __name__ == "__main__":
    unittest.main()
