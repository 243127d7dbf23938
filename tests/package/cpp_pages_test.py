# SPDX-License-Identifier: Apache-2.0
"""The C++ of the documents: the snippets of docs/cpp.md are one program, which is compiled and run; those of README.md are compiled, and the first of
them, a whole file, is run; and what the pages of docs/errors show as C++ says what they show behind it (columns differ between compilers, and
are left out). Arguments: the compiler, flags=<its flags>, the sources, the library, a folder to work in."""
import pathlib
import re
import shlex
import subprocess
import sys

COMPILER, FLAGS, SOURCES, LIBRARY, WORK = sys.argv[1], shlex.split(sys.argv[2].removeprefix("flags=")), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4]), pathlib.Path(sys.argv[5])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.S | re.M)
FAILURES = []


def blocks(page, language):
    return [text for kind, text in BLOCK.findall((SOURCES / page).read_text()) if kind == language]


def built(name, text, link=True):
    """The program, or None where it does not compile."""
    source, program = WORK / f"{name}.cpp", WORK / name
    source.write_text(text)
    how = [f"-L{LIBRARY.parent}", "-lcodetta", f"-Wl,-rpath,{LIBRARY.parent}", "-pthread", "-o", program] if link else ["-fsyntax-only"]
    done = subprocess.run([COMPILER, "-std=c++20", *FLAGS, "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}/include", source, *how], capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        FAILURES.append(f"{name} does not compile:\n{done.stderr[:3000]}")
    return program if done.returncode == 0 else None


def run(name, program, *arguments):
    done = subprocess.run([program, *arguments], cwd=WORK, capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        FAILURES.append(f"{name} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def cpp_page():
    head, *parts = blocks("docs/cpp.md", "cpp")
    unused = "".join(f"(void){name};\n" for name in ("as_it_lies", "halves", "own", "error", "ours", "first"))
    program = built("cpp_page", f"{head}\nint main() {{\n{''.join(parts)}{unused}return 0;\n}}\n")
    if program:
        said = run("docs/cpp.md", program)
        for wanted in ("error[E0602]", "E0602 about ''", ": 1\n", "codetta "):
            if wanted not in said.stdout + said.stderr:
                FAILURES.append(f"docs/cpp.md does not say {wanted!r}:\n{said.stdout}{said.stderr}")
    return len(parts)


def readme():
    first, *others = blocks("README.md", "cpp")
    if first != (SOURCES / "examples/hello/hello.cpp").read_text().split("\n", 2)[2]:
        FAILURES.append("README.md does not show examples/hello/hello.cpp (without its first two lines)")
    program = built("readme", first)
    if program:
        run("README.md", program)
    for i, text in enumerate(others):
        built(f"readme_{i}", f"#include <codetta/codetta.hpp>\nvoid f(const codetta::GemmArguments& arguments, void* stream) {{\n{text}}}\n", link=False)


def error_pages():
    """All of them are one program, whose argument says which page's code runs: most of what each costs is the header."""
    functions, pages = [], {}
    without_column = lambda text: re.sub(r"(engine\.cpp:\d+):\d+", r"\1", text)
    for page in sorted((SOURCES / "docs" / "errors").glob("E*.md")):
        texts = blocks(page, "cpp")
        if not texts:
            continue
        result = re.findall(r"^(?:const )?auto (\w+) =", texts[0], re.M)[-1]
        pages[page.stem] = next(text for text in blocks(page, "") if text.startswith("error["))
        functions.append(f'static int {page.stem}() {{\n#line 1 "engine.cpp"\n{texts[0]}#line 1 "test.cpp"\nif ({result}) return 1;\n'
                         f"std::fputs({result}.error().render().c_str(), stdout);\nreturn 0;\n}}\n")
    picks = "".join(f'if (std::strcmp(page, "{page}") == 0) return {page}();\n' for page in pages)
    includes = "".join(f"#include <{header}>\n" for header in ("codetta/codetta.hpp", "cstdio", "cstring", "span", "vector"))
    program = built("error_pages", f"{includes}{''.join(functions)}int main(int, char** arguments) {{\nconst char* const page = arguments[1];\n{picks}return 2;\n}}\n")
    for page, wanted in pages.items():
        said = run(page, program, page).stdout if program else ""
        if without_column(said) != without_column(wanted):
            FAILURES.append(f"{page}.md shows\n{wanted}and the code says\n{said}")
    return len(pages)


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    parts, shown = cpp_page(), error_pages()
    readme()
    for failure in FAILURES:
        print(failure)
    print(f"{parts} snippets of docs/cpp.md, {shown} pages of errors, {len(FAILURES)} failures")
    return 1 if FAILURES or parts < 8 or shown < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
