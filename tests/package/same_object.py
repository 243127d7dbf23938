#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A compiler launcher that takes objects which another build of the same sources has made with the same command.

Usage: same_object.py list <folder of a Ninja build> <its Ninja> <table>: writes what that build has compiled and is not older than its sources
       same_object.py take <table> <folder of Codetta in this build> [<launcher>...] -- <compiler> <argument>...

An object is taken where the commands are equal, word for word, and so is what is compiled. The folder of the build may be
named by what is compiled and what is made alone, where that of either build is read as the other one: a definition or a folder
of headers there would be in the object. Everything else is compiled. Whether an object is older than its sources is told by
times, as Ninja tells it. <folder of Codetta>/same_objects gets a line for each object.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys


def words_of(arguments, folder, build):
    """The words of a command that runs in `folder`, with paths below `build` told from it, and the object that it makes."""
    words, made, rest = [], None, iter(arguments)
    for word in rest:
        if word in ("-MD", "-MMD"):
            continue
        if word in ("-MT", "-MF", "-MQ"):  # where the list of headers goes
            next(rest)
            continue
        if word == "-o":
            made = os.path.join(folder, next(rest))
            word = os.path.relpath(made, build)
        elif word == "-c":
            word = next(rest).replace(build, "<build>")
        words.append(word)
    return words, made


def text_of(file, build):
    """What is compiled: the path of a file of the source tree, the text of one that the build has made."""
    return pathlib.Path(file).read_text().replace(build, "<build>") if file.startswith(build + "/") else file


def fresh_objects(build, ninja):
    """The objects of a build, by name, that are not older than any file that they were compiled from."""
    listed = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    fresh = set()
    for part in listed.split("\n\n"):
        lines = [line.strip() for line in part.splitlines() if not line.startswith("ninja:")]
        if not lines:
            continue
        made, files = lines[0].split(": #deps")[0], lines[1:]
        try:
            times = [os.stat(os.path.join(build, file)).st_mtime for file in (made, *files)]
        except FileNotFoundError:
            continue
        if times[0] >= max(times):
            fresh.add(os.path.join(build, made))
    return fresh


def write_table(build, ninja, table):
    fresh, rows = fresh_objects(build, ninja), {}
    for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
        words, made = words_of(shlex.split(entry["command"]), entry["directory"], build)
        if made in fresh:
            rows[shlex.join(words)] = {"made": made, "text": text_of(entry["file"], build)}
    pathlib.Path(table).write_text(json.dumps(rows))
    print(f"{len(rows)} objects")


def find(rows, command, build):
    """The object that `command` would make; None where it has to be compiled."""
    words, _ = words_of(command, os.getcwd(), build)
    row = rows.get(shlex.join(words))
    return row["made"] if row and row["text"] == text_of(command[command.index("-c") + 1], build) else None


def take(table, build, launcher, command):
    if "-c" not in command:
        os.execvp(command[0], command)
    _, made = words_of(command, os.getcwd(), build)
    taken = find(json.loads(pathlib.Path(table).read_text()), command, build)
    with open(os.path.join(build, "same_objects"), "a") as record:
        record.write(f"{'taken' if taken else 'compiled'} {os.path.relpath(made, build)}\n")
    if not taken:
        os.execvp((launcher + command)[0], launcher + command)
    shutil.copyfile(taken, made)
    if "-MF" in command:  # Ninja wants the list of headers of whatever it compiles
        pathlib.Path(command[command.index("-MF") + 1]).write_text(f"{command[command.index('-o') + 1]}:\n")


if __name__ == "__main__":
    if sys.argv[1] == "list":
        write_table(os.path.realpath(sys.argv[2]), *sys.argv[3:])
    else:
        separator = sys.argv.index("--")
        take(sys.argv[2], os.path.realpath(sys.argv[3]), sys.argv[4:separator], sys.argv[separator + 1:])
