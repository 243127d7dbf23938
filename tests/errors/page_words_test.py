# SPDX-License-Identifier: Apache-2.0
"""The messages that the pages of docs/errors show and that no command renders (those pages_test.py does) have the words of the sources: each
headline, note and help is a text of src, include or device, with values where that text has places for some. So a text that is changed there
can not stay as it was in its page. What the system, a driver or a linker says stands in OTHERS. Needs no built command."""
import ast
import functools
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from commit_slice import of_this_commit  # noqa: E402
from pages_test import BLOCK, PAGES, examples

ROOT = PAGES.parents[1]
TOKEN = re.compile(r'R"(\w*)\((?P<raw>.*?)\)\1"|"(?P<plain>(?:[^"\\\n]|\\.)*)"|//[^\n]*|/\*.*?\*/|\'(?:[^\'\\\n]|\\.)+\'|\w+|::|[^\s\w]', re.S)
PLACE = re.compile(r"(?<!\{)\{[^{}]*\}")
PRINTF = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:ll|l|z|h)?[sdiuxXgfpc]")
# Values have no two plain words in a row.
PROSE = re.compile(r"(?<![\w./'`-])[a-z]{2,},? [a-z]{2,}(?![\w./-])")
PARTS = re.compile(r"[:;] |, (?=in |for )")
OTHERS = {os.strerror(number) for number in range(1, 134)} | {
    "an illegal memory access was encountered", "operation not permitted when stream is capturing", "invalid argument", "out of memory",
    "no kernel image is available for execution on the device", "Killed signal terminated program cc1plus", "undefined symbol",
    "cannot open shared object file", "fatal error", "cannot find /opt/lib/codetta/libcodetta_engine.a"}
# Said by pages once, and by nothing else.
UNTRUE = ("C++ host text exists for CPUs and for CUDA", "the filter of DiscoveryOptions returned false",
          "widen the filter", "the cost model ranks them last", "ask for more candidates",
          "looked for libnvrtc.so.13, libnvrtc.so.12 and libnvrtc.so by the loader and in /usr/local/cuda/lib64; for nvcc in /usr/bin:/bin",
          "choose --target cpu, cpu:avx2, cpu:avx512, cuda:sm_90a, ...",
          "install clang-19 and lld-19 (or later ones, or ROCm's) where the search path leads; emitting sources needs neither")


def literals(text):
    """The string literals of a C++ text, those side by side as one; where + joins them with something, also with {} in its place."""
    tokens = []
    for match in TOKEN.finditer(text):
        is_text = match["raw"] is not None or match["plain"] is not None
        if match[0].startswith(("//", "/*")):
            continue
        value = match[0] if not is_text else match["raw"] if match["raw"] is not None else ast.literal_eval(f'"{match["plain"]}"') if "\\" in match["plain"] else match["plain"]
        if is_text and tokens and tokens[-1][0]:
            value = tokens.pop()[1] + value
        tokens.append((is_text, value))
    plus, i = (False, "+"), 0
    while i < len(tokens):
        if not tokens[i][0]:
            i += 1
            continue
        yield tokens[i][1]
        whole = ("{}" if i and tokens[i - 1] == plus else "") + tokens[i][1]
        i += 1
        while i < len(tokens) and tokens[i] == plus:
            i, depth = i + 1, 0
            while i < len(tokens) and (depth or not tokens[i][0] and tokens[i][1] not in "+,);:?"):
                depth += 0 if tokens[i][0] else (tokens[i][1] in "([{") - (tokens[i][1] in ")]}")
                i += 1
            whole += "{}"
            if i + 1 < len(tokens) and tokens[i] == plus and tokens[i + 1][0]:
                whole, i = whole + tokens[i + 1][1], i + 2
        yield whole


class Words:
    """What the sources can say."""

    def __init__(self):
        said = set()
        for path in (path for folder in ("src", "include", "device") for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".hpp", ".h", ".def")):
            said.update(literals(path.read_text()))
        said |= {PRINTF.sub("{}", text) for text in said if "%" in text}
        said |= {"{}" + text for text in said if text.startswith(" ")}
        wordings = re.findall(r'\{"([^"]+)",\s*"([^"]+)"\}', (ROOT / "src/cli/errors.cpp").read_text())  # what the command makes of it
        assert len(wordings) > 8
        for in_c, here in wordings:
            said |= {text.replace(in_c, here) for text in said if in_c in text}
        self.whole = {text.replace("{{", "{").replace("}}", "}") for text in said if not PLACE.search(text)} | OTHERS
        self.whole |= {text.strip() for text in self.whole}
        self.forms = []
        for text in said:
            pieces = [piece.replace("{{", "{").replace("}}", "}") for piece in PLACE.split(text)]
            if len(pieces) > 1 and len(re.findall("[A-Za-z]", "".join(pieces))) > 1:
                self.forms.append((max(pieces, key=len), re.compile("(.*?)".join(map(re.escape, pieces)), re.S)))
        self.forms.sort(key=lambda form: -len(form[0]))

    def of_value(self, text, depth):
        text = text.strip()
        return not PROSE.search(text) or (depth < 4 and self.has(text, depth + 1))

    @functools.cache
    def has(self, text, depth=0):
        """Whether the sources say `text`: a literal, one with values in its places, several behind each other, or names and a literal."""
        if text in self.whole:
            return True
        for longest, form in self.forms:
            match = form.fullmatch(text) if longest in text else None
            if match and all(self.of_value(group, depth) for group in match.groups()):
                return True
        for split in PARTS.finditer(text):
            behind = (text[split.end() :], text[split.start() :])  # "; made by {}" is a text as well
            if depth < 4 and self.of_value(text[: split.start()], depth) and any(self.of_value(rest, depth) for rest in behind):
                return True
        names = re.match(r"(?:(?![a-z]+ )\S+ )+", text)
        return names is not None and " " in text[names.end() :] and text[names.end() :] in self.whole


def shown(page):
    """The texts of the messages of a page that no command renders: headlines, notes, help."""
    blocks = list(BLOCK.finditer(page))
    rendered = {message.start() for *_, message in examples(blocks)}
    for block in blocks:
        if block[2].startswith("error[") and block.start() not in rendered:
            yield from re.findall(r"^(?:error\[E\d{4}\]|note|help): (.*)$", block[2], re.M)


def main():
    words, failures, count, exchanged = Words(), [], 0, []
    for page in sorted(PAGES.glob("E*.md")):
        for line in shown(page.read_text()):
            count += 1
            if not words.has(line):
                failures.append(f"{page.name} shows a text that no source has: {line}")
            words_of_line = re.finditer(r"(?<![\w./'`-])[a-z]{4,}(?![\w./'-])", line)
            exchanged += [line[: word.start()] + "quite another" + line[word.end() :] for word in words_of_line]
    # The check itself: where a word is exchanged, that is noticed, unless it stands for a value. A commit exchanges one of 16.
    exchanged = of_this_commit(exchanged, 16)
    changed, caught = len(exchanged), sum(not words.has(line) for line in exchanged)
    failures += [f"not noticed: {line}" for line in UNTRUE if words.has(line)]
    if changed == 0 or caught < 0.95 * changed:
        failures.append(f"of {changed} changes only {caught} are noticed")
    for failure in failures:
        print(failure)
    print(f"{count} texts, {caught} of {changed} changes noticed, {len(failures)} failures")
    return 1 if failures or count < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
