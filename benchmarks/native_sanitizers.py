"""Random shapes through the native library: under sanitizers, and to the same bits.

    python benchmarks/native_sanitizers.py                 all builds, 800 shapes each
    python benchmarks/native_sanitizers.py v3 threads      these builds
    python benchmarks/native_sanitizers.py --first 1000    other shapes

The C sources are compiled with a driver (``benchmarks/sanitizers``) that calls each
exported function with memory of exactly the size that is asked for, between gaps that
nobody may touch; so are the pieces of scratch memory. ``zig-v3`` is compiled as a wheel
is: its results are those that all builds are compared with.

Needs Clang with its sanitizers, and for ``neon`` qemu-aarch64; in Debian the packages
clang, libclang-rt-14-dev and qemu-user. What is missing here is not run, and the
result says so.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from result_file import KERNELS, RESULTS, ROOT, Measurement, add_options, place_of

SHAPES = {
    "matmul": 320,
    "pack": 60,
    "topk": 140,
    "beam": 60,
    "decoder": 120,
    "prefill": 60,
    "training": 100,
}
"""Random shapes of each kind."""

DECODERS_PER_SHARED_MODEL = 10
"""Shapes of decoders for which there is one model that two threads share."""

DRIVER = Path(__file__).parent / "sanitizers"
SOURCES = ROOT / "src" / "headwise" / "backends" / "native" / "csrc"
WORK = ROOT / "build" / "sanitizers"
REFERENCE = "zig-v3"

FLAGS = (
    *("-O1", "-g", "-std=gnu11", "-ffp-contract=on", "-fno-math-errno"),
    *("-Wall", "-Werror", "-Wno-psabi"),
)
SANITIZERS = (
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    *("-include", str(DRIVER / "poison.h")),
    "-DGROUP_ROWS=384",  # of all, as each group of a training step draws its own masks
)
EMULATED_V4 = ("-march=x86-64-v3", "-D__AVX512F__", f"-I{DRIVER / 'emulated'}")
EMULATED_V4_BF16 = (*EMULATED_V4, "-D__AVX512BF16__")
EMULATED_AMX = (*EMULATED_V4_BF16, "-D__AMX_BF16__")
MARCH = {
    "v3": "-march=x86-64-v3",
    "v4": "-march=x86-64-v4",
    "v4-bf16": "-march=cooperlake",
    "amx": "-march=sapphirerapids",
}

NEAR = 1e-2
"""How far the sum of a result may be from the reference's, where bits are others."""

OTHER_BITS = {
    **dict.fromkeys(("amx", "amx-emulated"), ""),
    **dict.fromkeys(("v4-bf16", "v4-bf16-emulated"), r"\bterms 1\b"),
}
"""What the description of a shape holds whose bits may be others, as a pattern. AMX
adds in another order, and from rounded inputs; so do dot products of bf16 pairs, but
only where the format is BF16: float32 has the bits of all other variants."""

OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


class NotRun(Exception):  # noqa: N818
    """A build cannot be made, or not be run here; the message says why."""


@dataclass(frozen=True)
class Line:
    """What the driver prints of a shape."""

    kind: str
    number: int
    checksum: str
    measure: float
    described: str

    @classmethod
    def parse(cls, text: str) -> Line:
        """Read a line."""
        kind, number, checksum, measure, *described = text.split(" ", 4)
        return cls(kind, int(number), checksum, float(measure), "".join(described))


@dataclass(frozen=True)
class Build:
    """A way to compile the driver, and to run it."""

    name: str
    what: str
    flags: tuple[str, ...] = ()
    target: str | None = None
    """Zig's target; None for Clang."""
    variant: str | None = None
    """What the processor must be able to run."""
    prefix: tuple[str, ...] = ()
    """Command that runs the program."""

    def require(self) -> None:
        """Raise ``NotRun`` where this machine cannot run it."""
        if platform.machine() != "x86_64":
            raise NotRun(f"this processor is of the kind {platform.machine()}")
        if self.variant:
            from headwise.backends.native.cpu_variants import VARIANTS, missing_features

            variant = next(each for each in VARIANTS if each.name == self.variant)
            if missing := missing_features(variant):
                raise NotRun(f"this processor has no {', '.join(missing)}")
        if self.prefix and not shutil.which(self.prefix[0]):
            raise NotRun(f"{self.prefix[0]} is not here (Debian: qemu-user)")
        if self.target and not importlib.util.find_spec("ziglang"):
            raise NotRun("ziglang is not here (scripts/setup installs it)")

    def compiler(self) -> list[str]:
        """Return the compiler's command with its flags; raise ``NotRun`` without it."""
        if self.target is None:
            return [*clang(), *FLAGS, *self.flags]
        build = hatch_build()
        left_out = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-s")
        flags = [each for each in build.FLAGS if each not in left_out]
        command = [sys.executable, "-m", "ziglang", "cc", "-target", self.target]
        return [*command, *flags, *build.PROCESSORS[str(self.variant)], *self.flags]

    def compile(self) -> Path:
        """Return the program; it is kept until sources or flags change."""
        command = [*self.compiler(), f"-I{DRIVER}", f"-I{SOURCES}"]
        sources = [*SOURCES.glob("*.c"), *DRIVER.glob("*.c")]
        folder = WORK / f"{self.name}-{digest(command)}"
        program = folder / "driver"
        if program.exists():
            return program
        folder.mkdir(parents=True, exist_ok=True)
        objects = [str(folder / f"{each.stem}.o") for each in sources]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(
                pool.map(
                    lambda source, made: call(
                        [*command, "-c", str(source), "-o", made]
                    ),
                    *(sources, objects),
                )
            )
        unfinished = folder / "unfinished"
        libraries = ["-lm", "-lpthread", "-o", str(unfinished)]
        call([*command, *objects, *libraries])
        unfinished.replace(program)
        return program


def builds() -> dict[str, Build]:
    """Return all builds by their names, the reference first."""
    gnu = "x86_64-linux-gnu.2.17"
    listed = [
        Build(REFERENCE, "as in a wheel", target=gnu, variant="v3"),
        Build("zig-v4", "as in a wheel", target=gnu, variant="v4"),
        *(
            Build(name, "sanitizers", (march, *SANITIZERS), variant=name)
            for name, march in MARCH.items()
        ),
        Build(
            *("v4-emulated", "sanitizers; AVX-512 in plain C"),
            (*EMULATED_V4, *SANITIZERS),
            variant="v3",
        ),
        Build(
            *("v4-bf16-emulated", "sanitizers; AVX-512 and its bf16 in plain C"),
            (*EMULATED_V4_BF16, *SANITIZERS),
            variant="v3",
        ),
        Build(
            *("amx-emulated", "sanitizers; AVX-512 and AMX in plain C"),
            (*EMULATED_AMX, *SANITIZERS),
            variant="v3",
        ),
        Build(
            *("neon", "as in a wheel, by qemu-aarch64"),
            ("-static",),
            target="aarch64-linux-musl",
            variant="neon",
            prefix=("qemu-aarch64",),
        ),
        Build(
            *("threads", "ThreadSanitizer; decoding in two threads"),
            (MARCH["v3"], "-fsanitize=thread"),
            variant="v3",
        ),
    ]
    return {each.name: each for each in listed}


def hatch_build() -> Any:
    """Return the module that compiles the library for a wheel."""
    if "hatch_build" not in sys.modules:
        file = ROOT / "hatch_build.py"
        spec = importlib.util.spec_from_file_location("hatch_build", file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["hatch_build"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["hatch_build"])
    return sys.modules["hatch_build"]


def clang() -> list[str]:
    """Return a Clang that can link sanitizers; raise ``NotRun`` without one."""
    said = "there is none"
    for name in ("clang", "clang-19", "clang-16", "clang-14"):
        if not shutil.which(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "nothing.c")
            source.write_text("int main(void) { return 0; }\n")
            for sanitizer in ("address,undefined", "thread"):
                command = [name, f"-fsanitize={sanitizer}", str(source)]
                done = subprocess.run(
                    [*command, "-o", f"{folder}/nothing"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode:
                    said = f"{name} says: {done.stderr.strip()[-300:]}"
                    break
            else:
                return [name]
    raise NotRun(
        "Clang with its sanitizers is needed (Debian: clang and libclang-rt-14-dev); "
        + said
    )


def digest(command: Sequence[str]) -> str:
    """Return what changes with the command or any source."""
    files = [*SOURCES.iterdir(), *DRIVER.rglob("*")]
    whole = hashlib.sha256(" ".join(command).encode())
    for each in sorted(file for file in files if file.is_file()):
        whole.update(each.read_bytes())
    return whole.hexdigest()[:12]


def call(command: Sequence[str]) -> str:
    """Run a command; return what it prints. Raises ``RuntimeError`` if it fails."""
    cache = str(ROOT / "build" / "zig-cache")
    caches = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    done = subprocess.run(
        command,
        env={**os.environ, **OPTIONS, **caches},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stdout.splitlines()[-1:]
        said = "\n".join([*last, done.stderr[:4000]])
        raise RuntimeError(
            f"{' '.join(command[:4])} ended with {done.returncode}: {said}"
        )
    return done.stdout


def shared_models(shapes: Mapping[str, int]) -> int:
    """Return how many models two threads share, one after the other."""
    return -(-shapes["decoder"] // DECODERS_PER_SHARED_MODEL)


def run(build: Build, shapes: Mapping[str, int], first: int) -> list[Line]:
    """Run all shapes; return what the driver prints. Raises ``RuntimeError``."""
    program = [*build.prefix, str(build.compile())]
    if build.name == "threads":
        call([*program, "threads", str(shared_models(shapes))])
        return []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        printed = pool.map(
            lambda kind: call([*program, kind, str(first), str(shapes[kind])]), shapes
        )
        return [Line.parse(line) for text in printed for line in text.splitlines()]


def compared(
    name: str, lines: Sequence[Line], wanted: Sequence[Line]
) -> dict[str, Any]:
    """Compare results with the reference's; raise ``RuntimeError`` if they are far."""
    same: Counter[str] = Counter()
    for one, other in zip(lines, wanted, strict=True):
        same[one.kind] += one.checksum == other.checksum
        if one.described != other.described:
            raise RuntimeError(f"{one} is another shape than {other}")
        if one.kind == "pack" or one.checksum == other.checksum:
            continue
        pattern = OTHER_BITS.get(name)
        if pattern is None or not re.search(pattern, one.described):
            raise RuntimeError(f"{one} has other bits than {other}")
        if abs(one.measure - other.measure) > NEAR * (1 + abs(other.measure)):
            raise RuntimeError(f"{one} is far from {other}")
    return {"same_bits_as": REFERENCE, "shapes_with_the_same_bits": dict(same)}


def main() -> None:
    everything = builds()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("builds", nargs="*", choices=[[], *everything], metavar="BUILD")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first shape"
    )
    add_options(parser, RESULTS / "native_sanitizers.json")
    arguments = parser.parse_args()
    shapes = {
        kind: 5 if arguments.rehearse else count for kind, count in SHAPES.items()
    }
    chosen = arguments.builds or list(everything)
    measurement = Measurement.begin(
        [f"{KERNELS}native/csrc/*", "benchmarks/sanitizers/**/*", "hatch_build.py"]
    )
    reference: list[Line] = []
    told: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys([REFERENCE, *chosen]):
        build = everything[name]
        result: dict[str, Any] = {"what": build.what}
        try:
            build.require()
            lines = run(build, shapes, arguments.first)
            if name == REFERENCE:
                reference = lines
            elif lines and reference:
                result |= compared(name, lines, reference)
            count = {"shapes": len(lines)} if lines else {}
            result = {"outcome": "passed", **result, **count}
            if name == "threads":
                result["shared_models"] = shared_models(shapes)
        except NotRun as reason:
            result = {"outcome": f"not run: {reason}", **result}
        except RuntimeError as error:
            result = {"outcome": f"failed: {error}", **result}
        told[name] = result
        print(f"{name}: {result['outcome']}", flush=True)
    place = place_of(arguments)
    if arguments.builds and arguments.out is None:
        place = None  # of a part there is no result
    measurement.write(
        place, {"shapes": shapes, "first": arguments.first, "builds": told}
    )
    if any(each["outcome"].startswith("failed") for each in told.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
