#!/usr/bin/env python3
"""Plants the bugs of tests/faults one at a time and demands that the test each names catches it.

The source tree is copied to a temporary folder; nothing here is changed. Prints one line a fault, then
"N passed, M failed"; the exit status is 0 when none failed. tests/faults/README.md has the format of a patch.
"""

import argparse
import fnmatch
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIED = ["CMakeLists.txt", "cmake", "src", "tests", "data", "scripts"]


class Fault:
    def __init__(self, path):
        self.path = path
        self.fields = {}
        for line in path.read_text().splitlines():
            if not line.startswith("#"):
                break
            key, _, value = line.lstrip("# ").partition(":")
            self.fields[key.strip()] = value.strip()
        self.test = self.fields.get("test", "")
        self.what = self.fields.get("fault", "")
        self.args = self.fields.get("args", "").split()
        self.timeout = float(self.fields.get("timeout", "300"))


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


class Workshop:
    """A copy of the tree, its build folder, and what is done there."""

    def __init__(self, folder, jobs):
        self.source = folder / "source"
        self.build = folder / "build"
        self.jobs = jobs
        self.env = dict(os.environ, CCACHE_BASEDIR=str(folder), CCACHE_NOHASHDIR="1")
        self.source.mkdir()
        for name in COPIED:
            path = ROOT / name
            if path.is_dir():
                shutil.copytree(path, self.source / name)
            elif path.exists():
                shutil.copy2(path, self.source / name)

    def configure(self):
        command = ["cmake", "-G", "Ninja", "-B", self.build, "-S", self.source, "-DCMAKE_BUILD_TYPE=None",
                   "-DCMAKE_CXX_FLAGS=-O1", "-DULLAGE_BUILD_TESTS=ON", "-DULLAGE_WERROR=OFF"]
        if shutil.which("ccache"):
            command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        return run(command, env=self.env)

    def compile(self, target):
        return run(["cmake", "--build", self.build, "--target", target, "-j", str(self.jobs)], env=self.env)

    def test(self, fault):
        """The exit status of the test; None when it ran over its time."""
        program = self.build / "tests" / fault.test
        try:
            return run([program, *fault.args], cwd=self.source, timeout=fault.timeout).returncode
        except subprocess.TimeoutExpired:
            return None

    def patch(self, fault, is_reverse):
        command = ["patch", "-p1", "--no-backup-if-mismatch", "--reject-file=-", "-i", fault.path]
        return run(command + (["-R"] if is_reverse else ["--forward"]), cwd=self.source)


def tail(text, lines=15):
    return "\n".join("    " + line for line in text.splitlines()[-lines:])


def try_fault(shop, fault, sound):
    """Why the fault counts as failed, or an empty string when it was caught."""
    if not fault.test or not fault.what:
        return "the patch does not begin with '# test: ...' and '# fault: ...'"
    key = (fault.test, tuple(fault.args))
    if key not in sound:
        built = shop.compile(fault.test)
        if built.returncode != 0:
            sound[key] = "does not build without a fault\n" + tail(built.stdout)
        elif shop.test(fault) != 0:
            sound[key] = "fails without a fault"
        else:
            sound[key] = ""
    if sound[key]:
        return f"{fault.test} {sound[key]}"

    patched = shop.patch(fault, False)
    if patched.returncode != 0:
        return "the patch does not apply\n" + tail(patched.stdout)
    try:
        built = shop.compile(fault.test)
        if built.returncode != 0:
            return "the fault does not compile\n" + tail(built.stdout)
        return f"{fault.test} did not notice" if shop.test(fault) == 0 else ""
    finally:
        undone = shop.patch(fault, True)
        if undone.returncode != 0:
            raise SystemExit(f"{fault.path.name} could not be taken out again\n{undone.stdout}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="a glob of patch names, without .patch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    faults = [Fault(p) for p in sorted((ROOT / "tests" / "faults").glob("*.patch")) if fnmatch.fnmatch(p.stem, args.only)]
    if not faults:
        raise SystemExit(f"no patch in tests/faults matches {args.only}")
    # One test's faults after another: less is built anew.
    faults.sort(key=lambda fault: (fault.test, fault.path.name))
    num_failed = 0
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as folder:
        shop = Workshop(pathlib.Path(folder), args.jobs)
        configured = shop.configure()
        if configured.returncode != 0:
            raise SystemExit("the copy does not configure\n" + tail(configured.stdout, 40))
        sound = {}
        for fault in faults:
            start = time.monotonic()
            problem = try_fault(shop, fault, sound)
            num_failed += bool(problem)
            print(f"{'FAILED' if problem else 'caught'} {fault.path.stem}: {problem or fault.what}"
                  f" ({fault.test}, {time.monotonic() - start:.0f} s)", flush=True)
    print(f"{len(faults) - num_failed} passed, {num_failed} failed")
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
