"""Runs a script in a virtual environment that has requirements.txt, made once under the build folder.

    python3 tests/http/with_venv.py ENVIRONMENT REQUIREMENTS SCRIPT [ARGUMENT...]

Exits with 77 (skipped) when the packages cannot be downloaded.
"""

import hashlib
import os
import subprocess
import sys
import venv

SKIPPED = 77


def main():
    environment, requirements, script, *arguments = sys.argv[1:]
    with open(requirements, "rb") as file:
        wanted = hashlib.sha256(file.read() + sys.version.encode()).hexdigest()
    stamp = os.path.join(environment, "installed")
    python = os.path.join(environment, "bin", "python")
    try:
        with open(stamp) as file:
            is_installed = file.read() == wanted
    except OSError:
        is_installed = False
    if not is_installed:
        try:
            venv.create(environment, with_pip=True, clear=True)
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"skipped: no virtual environment could be made ({error}); install python3-venv")
            return SKIPPED
        result = subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], stderr=subprocess.PIPE, text=True)
        if result.returncode != 0:
            # A version that does not exist is our fault; a network that does not is not.
            print(result.stderr)
            if "No matching distribution" in result.stderr and "connection" not in result.stderr.lower():
                return 1
            print("skipped: the packages could not be downloaded")
            return SKIPPED
        with open(stamp, "w") as file:
            file.write(wanted)
    return subprocess.run([python, script, *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main())
