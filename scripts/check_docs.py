#!/usr/bin/env python3
"""Checks that the documents speak of what exists: scripts/check_docs.py [ROOT]

Relative links must lead to a file; a name in backticks that looks like a source file (`cache/block_pool.cc`, `scripts/x.py`)
must be one, from the root or from src/ullage/. Prints one line per violation and exits 1 when there is any.
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAME = re.compile(r"`([a-z_]+(?:/[A-Za-z0-9_.-]+)*/[A-Za-z0-9_-]+\.(?:cc|h|py|sh|cmake|mjs|json|yml|md))(?:'s)?`")
DOCUMENTS = ("*.md", "docs/*.md", "deploy/*.md", "tests/**/*.md")


def check(root):
    for pattern in DOCUMENTS:
        for document in sorted(root.glob(pattern)):
            name = document.relative_to(root)
            for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
                for link in LINK.findall(line):
                    if "://" not in link and not (document.parent / link).exists():
                        yield f"{name}:{number}: the link to {link} leads nowhere"
                for path in NAME.findall(line):
                    folders = (root, root / "src" / "ullage", document.parent, root / "tests")
                    if not path.startswith("build/") and not any((folder / path).exists() for folder in folders):
                        yield f"{name}:{number}: there is no {path}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    violations = list(check(root))
    for violation in violations:
        print(violation)
    print(f"documents: {len(violations)} violations")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
