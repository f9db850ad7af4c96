#!/usr/bin/env python3
"""Checks that includes keep to the layers: scripts/check_includes.py [SOURCE_ROOT]

Folder = layer. A file may include its own folder and the folders that LAYERS lists for it, nothing else; heavy libraries
only where LIBRARIES says, and the deterministic layers no header that brings a clock, a thread or chance. ARCHITECTURE.md
("Layers") has the same table in prose. Prints one line per violation and exits 1 when there is any.
"""

import pathlib
import re
import sys

# Folder: the folders it may include besides itself, lower layers all. The order of the keys is the order of the layers;
# folders of one layer never see each other, and what `uses` names brings along what it uses itself.
LAYERS = {
    "base": [],
    "model": ["base"],
    "hardware": ["base"],
    "memory": ["model", "hardware"],
    "cost": ["model", "hardware"],
    "cache": ["memory"],
    "sched": ["cache", "cost"],
    "engine": ["sched"],
    "plan": ["memory", "cost"],
    "sim": ["engine"],
    "cpu": ["engine"],
    "text": ["model"],
    "observe": ["plan"],
    "api": ["sim", "plan", "observe"],
    "serve": ["api", "engine", "text"],
    "cli": ["serve", "cpu"],
}
LAYER_NUMBER = {
    "base": 0, "model": 1, "hardware": 1, "memory": 2, "cost": 2, "cache": 3, "sched": 4, "engine": 5,
    "plan": 6, "sim": 6, "cpu": 6, "text": 6, "observe": 7, "api": 8, "serve": 9, "cli": 10,
}  # fmt: skip

# First component (or whole name) of a third-party include: the folders that may include it.
ALL = set(LAYERS)
LIBRARIES = {
    "fmt": ALL,
    "tl": {"base"},
    "xxhash.h": {"base"},
    "nlohmann": {"base"},  # base/json.h is the one reader and writer
    "pcre2.h": {"text"},
    "utf8proc.h": {"text"},
    "boost": {"serve"},
    "prometheus": {"serve"},
    "spdlog": {"serve", "cli"},
    "CLI": {"cli"},
}
# A header that includes one of these, or another header that does, is heavy: it stays inside its folder, so that no other
# layer pays for it. base/json.h is the one that .cc files of every layer may include.
HEAVY_LIBRARIES = {"nlohmann", "boost", "prometheus", "spdlog", "CLI"}
JSON_HEADER = "ullage/base/json.h"

STANDARD = set(
    """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
    clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem forward_list fstream functional future
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex
    new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
    source_location span sstream stack stdexcept stop_token streambuf string string_view syncstream system_error thread
    tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector version""".split()
)
# The operating system's and the processor's headers: only where this machine may show.
PLATFORM = re.compile(
    r"^(sys/|linux/|netinet/|arpa/)|^(unistd|fcntl|signal|pthread|sched|poll|dirent|termios|errno|netdb|cpuid|"
    r"[a-z]*intrin|arm_neon|arm_sve)\.h$"
)
PLATFORM_FOLDERS = {"base", "model", "hardware", "cpu", "serve", "cli"}  # the first three guard it for WebAssembly

# What would make a decision depend on more than its arguments, by folder.
CORE = {"model", "hardware", "memory", "cost", "cache", "sched", "engine", "plan", "sim", "observe", "api"}
FORBIDDEN = {
    "random": CORE | {"base"},  # std distributions differ between libraries; base/random.h instead
    "regex": ALL,  # no Unicode classes, and slow; PCRE2 in text/
    "iostream": ALL - {"cli"},  # core code does not print
    "chrono": CORE - {"engine"},  # time is an argument (base/clock.h)
    "ctime": CORE - {"engine"},
    "thread": CORE - {"engine"},
    "mutex": CORE - {"engine"},
    "future": ALL,
    "filesystem": CORE - {"model"},  # not in WebAssembly; model/ guards it
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def reachable(folder):
    """The folders that `folder` may include: what it uses, and what those use."""
    seen, todo = set(), list(LAYERS[folder])
    while todo:
        lower = todo.pop()
        if lower not in seen:
            seen.add(lower)
            todo += LAYERS[lower]
    return seen


def check_table():
    """The table itself must point downwards."""
    for folder, uses in LAYERS.items():
        for lower in uses:
            if LAYER_NUMBER[lower] >= LAYER_NUMBER[folder]:
                yield f"check_includes.py: the table lets {folder} use {lower}, which is not lower"


def why_not(folder, name, quoted, heavy_headers):
    """Why a file of `folder` may not include `name`; None when it may."""
    if quoted:
        if not name.startswith("ullage/"):
            return f'"{name}": our own includes are spelled from src/, as "ullage/<folder>/<file>"; others with <>'
        other = name.split("/")[1]
        if other not in LAYERS:
            return f"{name}: {other}/ is no layer"
        if other != folder and other not in reachable(folder):
            return f"{name}: {folder}/ may include {', '.join(sorted(reachable(folder))) or 'nothing of ours'}, not {other}/"
        if other != folder and name in heavy_headers and name != JSON_HEADER:
            return f"{name}: it includes {heavy_headers[name]}, so it stays inside {other}/"
        return None
    if name in FORBIDDEN and folder in FORBIDDEN[name]:
        return f"<{name}>: not in {folder}/ (see FORBIDDEN in this script for why)"
    if name in STANDARD:
        return None
    if PLATFORM.search(name):
        return None if folder in PLATFORM_FOLDERS else f"<{name}>: the operating system does not show in {folder}/"
    folders = LIBRARIES.get(name) or LIBRARIES.get(name.split("/")[0])
    if folders is None:
        return f"<{name}>: unknown library; if it is to stay, add it to LIBRARIES here and to ARCHITECTURE.md"
    if folder not in folders:
        return f"<{name}>: only in {', '.join(sorted(folders))}, not in {folder}/"
    return None


def includes_of(path):
    """(line number, name, quoted) of each include of a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found[2], found[1] == '"'


def find_heavy(includes):
    """Our headers that bring a heavy library along: header -> what it includes. `includes`: header -> names."""
    heavy = {}
    grows = True
    while grows:
        grows = False
        for header, names in includes.items():
            for name in names:
                is_library = name.split("/")[0] in HEAVY_LIBRARIES and not name.endswith("_fwd.hpp")
                if header not in heavy and (is_library or name in heavy):
                    heavy[header] = name
                    grows = True
    return heavy


def check(src):
    """Yields a line per violation under `src`, the folder that holds ullage/."""
    yield from check_table()
    root = src / "ullage"
    files = {path: list(includes_of(path)) for path in sorted(root.rglob("*")) if path.suffix in (".h", ".cc")}
    heavy_headers = find_heavy(
        {str(path.relative_to(src)): [name for _, name, _ in found] for path, found in files.items() if path.suffix == ".h"}
    )
    for path, found in files.items():
        folder = path.relative_to(root).parts[0]
        if folder not in LAYERS:
            yield f"{path}: {folder}/ is no layer; add it to the table in scripts/check_includes.py and ARCHITECTURE.md"
            continue
        for number, name, quoted in found:
            reason = why_not(folder, name, quoted, heavy_headers)
            if reason:
                yield f"{path}:{number}: {reason}"


def main():
    src = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "src"
    violations = list(check(src))
    for violation in violations:
        print(violation)
    num_files = sum(1 for path in src.rglob("*") if path.suffix in (".h", ".cc"))
    if num_files == 0:
        sys.exit(f"{src}: no sources found; give the folder that holds ullage/")
    print(f"includes: {num_files} files, {len(violations)} violations")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
