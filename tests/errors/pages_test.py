# SPDX-License-Identifier: Apache-2.0
"""What the pages of docs/errors show is what the command says. A page that has a block of `codetta ...` lines shows, in
the block behind it, what the last of them writes to standard error, character for character; its python block is the
file that the line names, and its cuda block the kernel behind --kernel. A page with a text and no such line shows what reading the text as an epilogue says, or as a
program where its parameters carry types. With CODETTA_UPDATE_GOLDEN set the pages are rewritten, to be reviewed as any change. Argument:
the built command."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "errors"
PROGRAM = re.compile(r"\w+: \w+\[")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.S | re.M)


def said(command, lines, text, kernel, folder):
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "CODETTA_CACHE_DIR": str(folder / "cache"), "HOME": str(folder)}
    done = None
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "codetta", line
        named = [word for word in words if word.endswith(".py") or word == "<epilogue>"]
        if text is not None and named:
            (folder / named[0]).write_text(text)
        for word in words:
            if kernel is not None and word.endswith(".cu"):
                (folder / word.partition("=")[2]).write_text(kernel)
        done = subprocess.run([command, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return done.stderr


def main():
    command, update, failures, shown = os.path.abspath(sys.argv[1]), "CODETTA_UPDATE_GOLDEN" in os.environ, 0, 0
    for page in sorted(PAGES.glob("E*.md")):
        whole = page.read_text()
        blocks = list(BLOCK.finditer(whole))
        commands = [i for i, block in enumerate(blocks) if block[1] == "sh"]
        text = next((block[2] for block in blocks if block[1] == "python"), None)
        kernel = next((block[2] for block in blocks if block[1] == "cuda"), None)
        if commands:
            lines, message = blocks[commands[0]][2].splitlines(), blocks[commands[0] + 1]
        elif text is not None:
            message = next(block for block in blocks if block[2].startswith("error["))
            name = shlex.quote(re.search(r"--> (\S+?):\d", message[2])[1])
            lines = [f"codetta run {name}" if PROGRAM.search(text) else f"codetta emit --what=ast --m 5 --n 7 --k 3 --epilogue {name}"]
        else:
            continue
        with tempfile.TemporaryDirectory() as folder:
            now = said(command, lines, text, kernel, pathlib.Path(folder))
        shown += 1
        if f"error[{page.stem}]: " not in now:
            print(f"{page.name}: {lines} says\n{now}")
            failures += 1
        elif update:
            page.write_text(whole[: message.start(2)] + now + whole[message.end(2) :])
        elif now != message[2]:
            print(f"{page.name} shows\n{message[2]}and the command says\n{now}")
            failures += 1
    print(f"{shown} pages, {failures} failures")
    return 1 if failures or shown < 90 else 0


if __name__ == "__main__":
    sys.exit(main())
