#!/usr/bin/env python3
"""Checks of the sources that no compiler makes: scripts/check_sources.py [ROOT]

  size       a file has at most 600 lines, or says why near its top ("Long because ...")
  guard      a header begins with #pragma once
  libm       the layers that must give the same bits everywhere call no transcendental of libm (base/math.h has ours)
  text       no tabs, no spaces at line ends, no bytes outside ASCII in sources, one newline at the end
  loose end  no commented-out code blocks (#if 0), no "using namespace" in headers

Prints one line per violation and exits 1 when there is any.
"""

import pathlib
import re
import sys

MAX_LINES = 600
EXCUSE = re.compile(r"(//|#) Long because ")
CORE = {"model", "hardware", "memory", "cost", "cache", "sched", "engine", "plan", "sim", "observe", "api"}
LIBM = re.compile(
    r"\b(?:std::|::)?(exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|"
    r"erf|erfc|tgamma|lgamma|hypot)f?\s*\("
)
SOURCE_FOLDERS = ("src", "tests", "bench", "fuzz")


def without_comments_and_strings(line):
    line = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
    return re.sub(r"//.*", "", line)


def libm_call(code):
    """The libm function that a line of code calls; None when there is none."""
    for found in LIBM.finditer(code):
        before = code[: found.start()].rstrip()
        is_declaration = re.search(r"[\w>&*]$", before) and not before.endswith("return")
        is_other = before.endswith((".", "->", "::")) or code[found.end() :].startswith("LogLevel")  # our log hook
        if not is_declaration and not is_other:
            return found[1]
    return None


def check_file(path, name):
    """Yields "name:line: reason" for one source file."""
    raw = path.read_bytes()
    text = raw.decode("utf-8", errors="replace")
    lines = text.splitlines()
    if len(lines) > MAX_LINES and not any(EXCUSE.match(line) for line in lines[:20]):
        yield f"{name}:{MAX_LINES}: {len(lines)} lines; split it by noun, or say why in a comment \"// Long because ...\" at the top"
    if path.suffix == ".h" and "#pragma once" not in lines:
        yield f"{name}:1: a header needs #pragma once"
    if raw and not raw.endswith(b"\n"):
        yield f"{name}:{len(lines)}: no newline at the end"
    in_core = name.startswith("src/ullage/") and name.split("/")[2] in CORE
    for number, line in enumerate(lines, 1):
        if "\t" in line or line != line.rstrip():
            yield f"{name}:{number}: a tab, or spaces at the end of the line"
        if name.startswith("src/") and not line.isascii():
            yield f"{name}:{number}: a byte outside ASCII; write \\u escapes in strings and plain words in comments"
        if re.match(r"\s*#\s*if\s+0\b", line):
            yield f"{name}:{number}: code under #if 0; delete it"
        code = without_comments_and_strings(line)
        if path.suffix == ".h" and re.search(r"\busing\s+namespace\b", code):
            yield f"{name}:{number}: using namespace in a header"
        if in_core and (name_of_function := libm_call(code)):
            yield f"{name}:{number}: {name_of_function}() of libm differs in its last bit between platforms; use the one of base/"


def check(root):
    for folder in SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield from check_file(path, str(path.relative_to(root)))


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    violations = list(check(root))
    for violation in violations:
        print(violation)
    print(f"sources: {len(violations)} violations")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
