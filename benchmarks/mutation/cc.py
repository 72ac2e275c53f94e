"""A C compiler that keeps object files: of a mutant only the changed file is compiled.

    CC="python cc.py FOLDER cc"

The command line is one that compiles sources into a library; each source becomes an
object file, found again by what its preprocessed text and the flags are.
"""

import hashlib
import subprocess
import sys
from pathlib import Path


def main() -> int:
    folder, compiler, *arguments = sys.argv[1:]
    sources = [each for each in arguments if each.endswith(".c")]
    out = arguments.index("-o")
    flags = [
        each
        for number, each in enumerate(arguments)
        if each not in sources and number not in (out, out + 1)
    ]
    objects = []
    for source in sources:
        text = subprocess.run(
            [compiler, *flags, "-E", "-P", source], capture_output=True, check=False
        ).stdout
        key = hashlib.sha256(repr((compiler, flags)).encode() + text).hexdigest()
        made = Path(folder) / f"{Path(source).stem}-{key[:24]}.o"
        if not made.exists():
            beside = made.with_suffix(".new")
            options = [each for each in flags if each not in ("-shared", "-lm")]
            done = subprocess.run(
                [compiler, *options, "-c", source, "-o", str(beside)], check=False
            )
            if done.returncode:
                return done.returncode
            beside.replace(made)
        objects.append(str(made))
    rest = [each for each in flags if each != "-lm"]
    link = [compiler, *rest, *objects, "-o", arguments[out + 1], "-lm"]
    return subprocess.run(link, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
