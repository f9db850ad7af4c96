#!/usr/bin/env python3
"""Keeps the commands' outputs in documents and golden cases as the program prints them.

    scripts/command_outputs.py --check  [FILE...]     exits 1 when an output differs, and prints the difference
    scripts/command_outputs.py --update [FILE...]     writes the outputs into the files, and prints the difference

Without FILEs: docs/plan.md, docs/questions.md, docs/logs.md and tests/golden/plan/*.case. In a document a command stands in a ```console
block, behind "$ "; a case file is one such block. What follows is its standard output; when it fails, also its standard error
and a line "[exit N]". ULLAGE names the program (build/release/ullage).
"""

import difflib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ULLAGE = os.path.abspath(os.environ.get("ULLAGE", ROOT / "build" / "release" / "ullage"))
DEFAULT = ["docs/plan.md", "docs/questions.md", "docs/logs.md", "tests/golden/plan/*.case"]


def run(command):
    """The output as it stands in a file. Commands are run by a shell in the root, where `ullage` is the program."""
    environment = {"PATH": os.environ["PATH"], "ULLAGE_DATA_DIR": str(ROOT / "data"), "HF_HOME": "/nonexistent",
                   "LC_ALL": "C", "ULLAGE": ULLAGE}
    done = subprocess.run(["sh", "-c", f'ullage() {{ "$ULLAGE" "$@"; }}\n{command}'], cwd=ROOT, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    text = done.stdout.decode()
    if done.returncode != 0:
        text += done.stderr.decode() + f"[exit {done.returncode}]\n"
    return text.rstrip("\n").split("\n") if text.strip() else []


def update_block(lines):
    """The lines of one block with every command's output replaced."""
    result = []
    i = 0
    while i < len(lines) and not lines[i].startswith("$ "):
        result.append(lines[i])
        i += 1
    while i < len(lines):
        command = [lines[i]]
        while command[-1].endswith("\\"):
            i += 1
            command.append(lines[i])
        i += 1
        has_next = any(line.startswith("$ ") for line in lines[i:])
        while i < len(lines) and not lines[i].startswith("$ "):
            i += 1
        result += command + run("\n".join(command)[2:]) + ([""] if has_next else [])
    return result


def update(path):
    """The text of a file with its outputs as they are now."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    if path.suffix == ".case":
        return "\n".join(update_block(lines)) + "\n"
    result = []
    i = 0
    while i < len(lines):
        result.append(lines[i])
        i += 1
        if result[-1] != "```console":
            continue
        end = lines.index("```", i)
        result += update_block(lines[i:end])
        i = end
    return "\n".join(result) + "\n"


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("--check", "--update"):
        sys.exit(__doc__)
    names = sys.argv[2:]
    paths = [pathlib.Path(name) for name in names] or [path for glob in DEFAULT for path in sorted(ROOT.glob(glob))]
    if not paths:
        sys.exit("no file to look at")
    num_changed = 0
    for path in paths:
        old = path.read_text(encoding="utf-8")
        new = update(path)
        if new == old:
            continue
        num_changed += 1
        name = os.path.relpath(path, ROOT)
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name))
        if sys.argv[1] == "--update":
            path.write_text(new, encoding="utf-8")
    print(f"command outputs: {len(paths)} files, {num_changed} differ")
    sys.exit(1 if num_changed and sys.argv[1] == "--check" else 0)


if __name__ == "__main__":
    main()
