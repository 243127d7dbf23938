# SPDX-License-Identifier: Apache-2.0
"""What the pages of docs/errors show is what the command says. A page that has a block of `codetta ...` lines shows, in
the block behind it, what the last of them writes to standard error, character for character; its python block is the
file that the line names, and its cuda block the kernel behind --kernel. A page with a text and no such line shows what reading the text as an epilogue says, or as a
program where its parameters carry types; so do further texts with a message behind them. With CODETTA_UPDATE_GOLDEN set the pages are rewritten, to be reviewed as any change. Argument:
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


def examples(blocks):
    """What stands in a page's blocks: (command lines, text, kernel, message), the first of these with what the page has of them."""
    commands = [i for i, block in enumerate(blocks) if block[1] == "sh"]
    texts = [i for i, block in enumerate(blocks) if block[1] == "python"]
    text = blocks[texts[0]][2] if texts else None
    kernel = next((block[2] for block in blocks if block[1] == "cuda"), None)

    def read(text, message):
        name = shlex.quote(re.search(r"--> (\S+?):\d", message[2])[1])
        return [f"codetta run {name}" if PROGRAM.search(text) else f"codetta emit --what=ast --m 5 --n 7 --k 3 --epilogue {name}"], text, None, message

    if commands:
        yield blocks[commands[0]][2].splitlines(), text, kernel, blocks[commands[0] + 1]
    elif text is not None:
        yield read(text, next(block for block in blocks if block[2].startswith("error[")))
    for i in texts[1:]:
        if i + 1 < len(blocks) and blocks[i + 1][2].startswith("error["):
            yield read(blocks[i][2], blocks[i + 1])


def main():
    command, update, failures, pages, shown = os.path.abspath(sys.argv[1]), "CODETTA_UPDATE_GOLDEN" in os.environ, 0, 0, 0
    for page in sorted(PAGES.glob("E*.md")):
        whole = page.read_text()
        changed, before = "", 0
        for lines, text, kernel, message in examples(list(BLOCK.finditer(whole))):
            with tempfile.TemporaryDirectory() as folder:
                now = said(command, lines, text, kernel, pathlib.Path(folder))
            shown += 1
            pages += before == 0
            if f"error[{page.stem}]: " not in now:
                print(f"{page.name}: {lines} says\n{now}")
                failures += 1
            elif now != message[2] and not update:
                print(f"{page.name} shows\n{message[2]}and the command says\n{now}")
                failures += 1
            changed += whole[before : message.start(2)] + (now if update else message[2])
            before = message.end(2)
        if update:
            page.write_text(changed + whole[before:])
    print(f"{shown} examples of {pages} pages, {failures} failures")
    return 1 if failures or pages < 90 or shown < pages + 3 else 0


if __name__ == "__main__":
    sys.exit(main())
