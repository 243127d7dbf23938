# SPDX-License-Identifier: Apache-2.0
"""The commands that the documents show, run as they stand in a folder with the files that they name; what README.md, docs/debugging.md and docs/language.md show of
their output; and the tables of docs/command.md and docs/semantics.md. A command for a GPU or a compiler that is not there has to end with the code that says so, and is
counted apart. Argument: the codetta command."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from quick_compiler import quick_compiler  # noqa: E402

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
CODE = re.compile(r"error\[(E\d{4})\]")
MODEL = 'def model(x: bf16["batch", 64], w: bf16[64, 32]):\n    y = relu(x @ w)\n    return y\n'
MLP = 'def mlp(x: f32["m", 8], w: f32[8, 16], v: f32[16, 8]):\n    h = relu(x @ w)\n    y = h @ v\n    return y\n'
# What a document's commands read, beside the tensors of `tensors()`.
DOCUMENTS = {
    "README.md": {"my.py": "def scaled(accum, alpha, bias):\n    D = relu(accum * alpha + bias)\n    return D\n"},
    "docs/language.md": {}, "docs/explain.md": {}, "docs/evt.md": {}, "docs/metal.md": {}, "docs/aot.md": {"model.py": MODEL}, "docs/hip.md": {"program.py": MLP},
    "docs/debugging.md": {"mlp.py": MLP, "P.py": MLP.replace('"m"', '"n"')}, "docs/command.md": {"program.py": MLP}}
# What may be missing where a command is for this target.
MISSING = {"cuda": {"E0530", "E0531", "E0640", "E0641", "E0642"}, "hip": {"E0536", "E0537", "E0642", "E0654"}}
COUNTS = {"run": 0, "missing": 0}
FAILURES = []


class Folder:
    """A folder to run commands in."""

    def __init__(self, command, path):
        self.command, self.path = command, pathlib.Path(path)
        (self.path / "examples").symlink_to(ROOT / "examples")
        nvrtc = ROOT / "build" / "nvrtc"  # where tools/bootstrap puts it
        self.environment = {**os.environ, "CODETTA_CACHE_DIR": f"{path}/cache"}
        found = shutil.which("g++")
        if found:  # host text of libraries need not be fast here
            compiler = quick_compiler(found, ROOT, self.path / "quick")
            (self.path / "quick" / "g++").symlink_to(compiler)
            self.environment["PATH"] = f"{compiler.parent}:{os.environ['PATH']}"
        self.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (os.environ.get("LD_LIBRARY_PATH"), f"{nvrtc}/lib" if nvrtc.is_dir() else None)))

    def run(self, *words):
        return subprocess.run([self.command, *words], cwd=self.path, env=self.environment, capture_output=True, text=True, timeout=240)

    def write(self, files):
        for name, text in files.items():
            (self.path / name).write_text(text)

    def expect(self, document, line, status=0):
        """Runs the line; None where what it is for is missing."""
        words = shlex.split(line, comments=True)
        done = self.run(*words[1:])
        target = next((word for word in words if word.startswith(("cuda", "hip"))), "").partition(":")[0]
        missing = CODE.search(done.stderr)
        if missing and done.returncode == 3 and missing[1] in MISSING.get(target, ()):
            COUNTS["missing"] += 1
            return None
        COUNTS["run"] += 1
        shown = re.search(r"# (\w+   .*)$", line)  # what it prints, among other lines
        if shown and shown[1] not in done.stdout:
            FAILURES.append(f"{document}: {line}\n  prints {done.stdout}")
        if done.returncode != status:
            FAILURES.append(f"{document}: {line}\n  status {done.returncode}, wanted {status}: {done.stdout}{done.stderr}")
        return done


def tensors(folder):
    """A [48, 64], fc1 [64, 96], bias [96]."""
    for m, n, name, value, file in (("48", "64", "D", "relu(accum)", "A.npy"), ("64", "96", "fc1", "accum * 1.0", "weights.safetensors"), ("3", "96", "b", "sum(accum, dim=0)", "bias.npy@[1,N]:f32")):
        done = folder.run("gemm", "--m", m, "--n", n, "--k", "2", "--epilogue", f"def f(accum): {name} = {value}; return {name}", "--out", f"{name}={file}")
        if done.returncode != 0:
            FAILURES.append(done.stderr)


def lines(block):
    """The command lines of a block, those that end in a backslash with what follows."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.startswith("codetta ")]


def rows(text, heading):
    """The cells of the rows of the table behind a heading, without its first two lines."""
    table = re.search(r"(?:^\|.*\n)+", text[text.index(heading) :], re.M)[0]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table.splitlines()[2:]]


def without_numbers(text):
    """What a run says, without what differs between machines."""
    for pattern, put in ((r"_[0-9a-f]{8}\b", "_#"), (r"\bstep \d+", "step #"), (r"\bt\d+\b", "t#"), (r"[\d.]+ of its bound", "# of its bound")):
        text = re.sub(pattern, put, text)
    return text


def readme(folder, text):
    folder.write({"mlp.py": "# A layer.\ndef layer(accum, bias):\n    D = relu(accum + bias)\n    return D\n"})
    said = folder.run("gemm", "--m", "256", "--n", "128", "--k", "8", "--epilogue", "mlp.py", "--tensor", "bias=[64]:f32").stderr
    if said not in text:
        FAILURES.append(f"README.md does not show what is said:\n{said}")


def debugging(folder, text):
    """Every option and command of the table, and the output that is shown."""
    kernel = json.loads(folder.run("explain", "P.py", "--json").stdout)["kernels"][0]["name"]
    count = 0
    for _, cell, _ in rows(text, "| question |"):
        for span in re.findall(r"`([^`]+)`", cell):
            if not span.startswith(("--", "codetta ")):
                continue
            line = span if span.startswith("codetta ") else f"codetta run P.py --dim n=5 {span}"
            folder.expect("docs/debugging.md", line.replace("KERNEL", kernel))
            count += 1
    shown = re.search(r"^```\n\$ (codetta [^\n]*)\n(.*?)^```", text, re.M | re.S)
    said = folder.expect("docs/debugging.md", shown[1]).stdout
    if without_numbers(said) != without_numbers(shown[2]):
        FAILURES.append(f"docs/debugging.md shows\n{shown[2]}and the command says\n{said}")
    if count < 8:
        FAILURES.append(f"docs/debugging.md: {count} options were found")


def failing(folder, text):
    """What is said of every text of examples/epilogues/failing, whole."""
    texts = sorted((ROOT / "examples" / "epilogues" / "failing").glob("*.py"))
    for path in texts:
        line = f"codetta gemm --m 5 --n 7 --k 3 --epilogue examples/epilogues/failing/{path.name}"
        said = folder.expect("docs/language.md", line, 1).stderr
        if f"$ {line}\n{said}\n" not in text.replace("```", "\n"):
            FAILURES.append(f"docs/language.md does not show\n$ {line}\n{said}")
    if len(texts) < 7:
        FAILURES.append(f"{len(texts)} failing examples were found")


def keys_of(value):
    """The keys of objects at any depth; not those of objects by name (sizes, configurations), nor the texts by stage."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(keys_of(inner) for key, inner in value.items() if key not in ("sizes", "config")))


def explained(folder, text):
    """Every key that is named; lists have more."""
    real = keys_of(json.loads(folder.run("explain", "examples/programs/llama_block.py", "--json").stdout))
    documented = set(re.findall(r"`(\w+)`", text[text.index("## JSON") :])) - {"null"}
    if not documented or documented - real:
        FAILURES.append(f"docs/explain.md: there are no {sorted(documented - real)}")


def command(folder, text):
    listed = {name for row in rows(text, "| command |") for name in re.findall(r"`(\w+)`", row[0])}
    known = set(re.findall(r"^  (\w+)  ", folder.run("--help").stdout.partition("Commands:")[2].partition("\n\n")[0], re.M))
    if listed != known:
        FAILURES.append(f"docs/command.md lists the commands {sorted(listed)}, and there are {sorted(known)}")
    for status, _, example in rows(text, "| status |"):
        if example.startswith("`"):
            done = folder.expect("docs/command.md", example.strip("`"), int(status))
            families = {"1": "program", "2": "usage", "3": "environment"}
            if status in families and f'"family":"{families[status]}"' not in folder.run(*shlex.split(example.strip("`"))[1:], "--json").stderr:
                FAILURES.append(f"docs/command.md: {example} is not of the family {families[status]}: {done.stderr}")
    listed = {row[0].strip("`") for row in rows(text, "| variable |")}
    known = set(re.findall(r'"(CODETTA_\w+)"', (ROOT / "src" / "driver" / "environment.cpp").read_text()))
    if listed != known:
        FAILURES.append(f"docs/command.md lists the variables {sorted(listed)}, and the driver reads {sorted(known)}")
    for line, cell in rows(text, "| command | keys |"):
        name = line.strip("`")
        done = folder.expect("docs/command.md", name + " --json", 2 if "--mm" in name else 0)
        real = keys_of(json.loads(done.stdout or done.stderr))
        if cell.startswith("["):
            continue  # another page has them
        names = lambda part: set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", part)))
        documented = names(cell)
        if "`check`:" in cell:
            checked = names(cell[cell.index("`check`:") : cell.index("; `bench`")])
        if "as of gemm" in cell:
            documented |= checked
        if name.split()[1] == "emit":
            documented = {"graph", "source"}
        optional = {"device", "rejected", "check_smaller", "instead"}
        if documented - optional != real - optional:
            FAILURES.append(f"docs/command.md: {name} --json: only documented {sorted(documented - real - optional)}, not documented {sorted(real - documented)}")


def options_and_targets(folder):
    """Every command that any page, or a room's, names has the options that stand behind it, and every target of make is there."""
    listed = lambda text: set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))
    commands = re.findall(r"^  (\w+)  ", folder.run("--help").stdout.partition("Commands:")[2].partition("\n\n")[0], re.M)
    options = {name: listed(folder.run(name, "--help").stdout) for name in commands}
    targets = set(re.findall(r"^([\w-]+)\s*:", (ROOT / "Makefile").read_text(), re.M))
    pages = [path for place in ("*.md", "docs/*.md", "docs/errors/*.md", "examples/**/*.md", "src/*/README.md", "bench/README.md") for path in ROOT.glob(place)]
    count = 0
    for page in pages:
        text = page.read_text()
        spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", text)) + [line.strip() for _, block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
        for span in spans:
            words = span.split("#")[0].removeprefix("$ ").split()
            if len(words) < 2 or words[0] not in ("codetta", "make") or words[1].startswith("-") or words[1] in ("VERB", "..."):
                continue
            count += 1
            missing = set(words[1:2]) - (targets if words[0] == "make" else set(commands))
            if words[0] == "codetta" and not missing:
                missing = listed(" ".join(words[2:])) - options[words[1]] - {"--mm"}  # which stands there as what is refused
            if missing:
                FAILURES.append(f"{page.relative_to(ROOT)}: {span}: there is no {', '.join(sorted(missing))}")
    if count < 150:
        FAILURES.append(f"{count} commands were found in the pages")


def accuracy(text):
    rows_of_table = re.findall(r"CODETTA_ULP\((\w+), ([\d.]+), \S+, ([\d.]+),", (ROOT / "device" / "cpu" / "ulp.def").read_text())
    table = {name: accuracies for name, *accuracies in rows_of_table}
    head = re.search(r"^\| on a CPU \|(.*)\|$", text, re.M)[1]
    functions = re.findall(r"`(\w+)`", head)
    for place, row in enumerate(rows(text, "| on a CPU |")):
        stated = [table[name][place] for name in functions]
        if row[1:] != stated:
            FAILURES.append(f"docs/semantics.md says {row}, and device/cpu/ulp.def {stated}")
    if len(functions) < 4:
        FAILURES.append("docs/semantics.md states no accuracy")


def main():
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(os.path.abspath(sys.argv[1]), path)
        tensors(folder)
        for document, files in DOCUMENTS.items():
            text = (ROOT / document).read_text()
            folder.write(files)
            for _, block in FENCE.findall(text):
                for line in lines(block):
                    folder.expect(document, line)
            for page, check in (("README.md", readme), ("docs/language.md", failing), ("docs/explain.md", explained), ("docs/debugging.md", debugging), ("docs/command.md", command)):
                if document == page:
                    check(folder, text)
        accuracy((ROOT / "docs" / "semantics.md").read_text())
        options_and_targets(folder)
    for failure in FAILURES:
        print(failure)
    print(f"{COUNTS['run']} commands, {COUNTS['missing']} for what is not here, {len(FAILURES)} failures")
    return 1 if FAILURES or COUNTS["run"] < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
