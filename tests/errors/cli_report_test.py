# SPDX-License-Identifier: Apache-2.0
"""Pages of `explain --report` and `tune --report`: valid, self-contained, whole, safe with hostile names; and files that
appear together or not at all. Argument: the built command."""
import html.parser
import pathlib
import re
import sys
import tempfile

from cli_support import FAILURES, expect, outcome, run

SIZES = ["--m", "9", "--n", "14", "--k", "6"]
VOID = {"meta", "br", "hr", "img", "input", "link"}
SVG = {"svg", "g", "title", "text", "rect", "line", "polyline", "circle"}
KNOWN = SVG | {"html", "head", "body", "style", "meta", "h1", "h2", "h3", "section", "p", "pre", "div", "details", "summary",
               "table", "thead", "tbody", "tr", "th", "td"}


class Page(html.parser.HTMLParser):
    """Elements that close in order, all known, none that fetches or runs anything."""

    def __init__(self, path):
        super().__init__()
        self.open, self.elements, self.headings, self.texts, self.problems = [], [], [], {}, []
        text = path.read_text(encoding="utf-8")
        if not text.startswith("<!DOCTYPE html>\n"):
            self.problems.append("no doctype")
        self.feed(text)
        self.close()
        if self.open:
            self.problems.append(f"left open: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        names = [name for name, _ in attributes]
        if tag not in KNOWN or len(set(names)) != len(names):
            self.problems.append(f"<{tag}> with {names}")
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "href", "xlink:href", "style") or "url(" in (value or ""):
                self.problems.append(f"<{tag} {name}={value}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if not self.open:
            if data.strip():
                self.problems.append(f"text outside: {data[:40]}")
            return
        self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data
        if self.open[-1] == "h2":
            self.headings.append(data)

    def need(self, what, condition):
        if not condition:
            self.problems.append(f"missing: {what}")


def checked(path, *wanted):
    if not path.exists():
        FAILURES.append(f"{path.name} was not written")
        return None
    page = Page(path)
    for heading in wanted:
        page.need(f"section {heading}", any(heading in h for h in page.headings))
    return page


def done(page):
    if page is not None:
        FAILURES.extend(page.problems)


def gemm_pages(folder, cache):
    epilogue = ("# </pre><script>alert('x')</script> & <b>\n"
                "def attack(accum, bias):\n    D = relu(accum * 1.0 + bias)\n    total = sum(D, axis='all')\n    return D, total\n")
    given = ["--epilogue", epilogue, "--tensor", "bias=[N]:f32", "--out", "total=[1,1]:f32", *cache]
    path = folder / "explain.html"
    expect(0, "chosen: ", "explain", *SIZES, *given, "--report", path)
    page = checked(path, "Problem", "Chosen kernel", "Candidates", "Rejections", "Graph", "Plan", "Emitted source")
    if page is not None:
        listed = run("kernels", *SIZES, *given).stdout
        for line in listed.splitlines():
            name = line.split()[0]
            page.need(name, name in page.texts["td"])
        page.need("every rejection", page.texts["td"].count("E04") >= listed.count("rejected   E"))
        page.need("bars", page.elements.count("rect") >= 1 and "svg" in page.elements)
        page.need("the hostile comment as text", "</pre><script>alert('x')</script> & <b>" in page.texts["pre"])
        page.need("graph before and after", page.texts["pre"].count("matmul") >= 2)
        page.need("source", "codetta_epilogue" in page.texts["pre"])
        page.need("no script", "script" not in page.elements)
    done(page)

    path = folder / "tune.html"
    expect(0, "kept in", "tune", *SIZES, *given, "--candidates", 3, "--report", path)
    page = checked(path, "Tuning", "Candidates")
    if page is not None:
        page.need("medians", "median us" in page.texts["th"])
        page.need("a bar each", page.elements.count("rect") >= 3)
    done(page)


def program_page(folder, cache):
    program = folder / "p.py"
    program.write_text("# <img src=x onerror=alert(1)> \"quoted\" \x01\n"
                       'def chain(x: f32["n", 32], v: f32[32, 48], w: f32[48, 16], u: f32[16, 8]):\n'
                       "    h = relu(x @ v)\n    g = tanh(h @ w)\n    y = g @ u\n    return y\n")
    path = folder / "program.html"
    expect(0, "launch", "explain", "--program", program, *cache, "--report", path)
    page = checked(path, "Program", "Kernels", "Memory", "Graph", "Plan", "Emitted source")
    if page is not None:
        page.need("the hostile comment as text", '<img src=x onerror=alert(1)> "quoted"' in page.texts["pre"])
        page.need("no image", "img" not in page.elements)
        page.need("the line of live bytes", page.elements.count("polyline") == 1 and "bytes live at once" in page.texts["title"])
        page.need("a place in the roofline for each kernel", page.elements.count("circle") >= 2 and "operations a byte" in page.texts["title"])
        page.need("two temporaries in the timeline", len(re.findall(r"bytes at \d+, steps", page.texts["title"])) == 2)
    done(page)


def together_or_not_at_all(folder, cache):
    two = ["gemm", *SIZES, *cache, "--epilogue", "def f(accum): D = relu(accum); F = accum; return D, F"]
    first, old = folder / "first.npy", folder / "old.npy"
    blocked = folder / "blocked"
    blocked.mkdir()
    old.write_text("as it was")
    for target in (folder / "nowhere" / "F.npy", blocked, folder / "nowhere" / "F.safetensors"):
        told = expect(3, "error[E0623]", *two, "--out", f"D={first}", "--out", f"F={target}")
        expect(3, "error[E0623]", *two, "--out", f"D={old}", "--out", f"F={target}")
        if str(target) not in told.stderr or ".part-" in told.stderr:
            FAILURES.append(f"{target} is not what the message names: {told.stderr}")
    if first.exists() or old.read_text() != "as it was" or list(folder.rglob("*.part-*")):
        FAILURES.append(f"a failed write left {sorted(map(str, folder.rglob('*')))}")
    expect(0, "wrote", *two, "--out", f"D={first}", "--out", f"F={old}")
    if not first.exists() or not old.read_bytes().startswith(b"\x93NUMPY"):
        FAILURES.append("two outputs were not written")
    page = folder / "nowhere" / "page.html"
    expect(3, "error[E0623]", "explain", *SIZES, *cache, "--report", page)


def empty_and_huge(folder, cache):
    """No rows: column reductions are still owed; K beyond memory is no matter when nothing is computed."""
    sums = "def f(accum): D = relu(accum); low = min(accum, axis='column'); s = sum(accum, axis='column'); return D, low, s"
    out = ["--out", "low=[1,N]:f32", "--out", f"s={folder / 's.npy'}@[N]:f32"]
    expect(0, "check", "gemm", "--m", 0, "--n", 5, "--k", 3, *cache, "--epilogue", sums, *out, "--check")
    if (folder / "s.npy").exists() and not (folder / "s.npy").read_bytes().endswith(bytes(20)):
        FAILURES.append("sums over no rows are not 0")
    for k in (10**15, 2**62):
        expect(0, "pass", "gemm", "--m", 0, "--n", 0, "--k", k, *cache, "--check")
    expect(3, "error[E0606]", "gemm", "--m", 0, "--n", 4, "--k", 10**15, *cache, "--check")  # B itself has no room


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cache = ["--cache-dir", folder / "cache"]
        for test in (gemm_pages, program_page, together_or_not_at_all, empty_and_huge):
            test(folder, cache)
    return outcome()


if __name__ == "__main__":
    sys.exit(main())
