"""Flip bits of what a run wrote, cut and swap files: all is noticed before it is used.

python -m benchmarks.durability.damages

Each damage, drawn at random, is done to one or more checkpoints of a run with four, or
to its best model. The run must go on from the newest checkpoint that was not damaged,
and say aloud which it could not use; a damaged model must be refused by name.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from benchmarks.durability.disk import Tree, read_tree, write_tree
from benchmarks.durability.reports import arguments_with, finish
from benchmarks.durability.saves import no_fsync, save_checkpoints, write_model

from headwise.errors import ModelError
from headwise.run_folder.checkpoints import Checkpoints
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import BEST, CHECKPOINTS
from headwise.storage import MANIFEST

STEPS = (10, 20, 30, 40)

Damage = Callable[[Path, Path, random.Random], None]
"""Damages a folder; a second folder of the same kind is there to swap with."""


@dataclass
class Outcome:
    """What came of all damages."""

    checkpoints: Counter[str] = field(default_factory=Counter)
    """Damages of checkpoints, by kind."""

    models: Counter[str] = field(default_factory=Counter)
    """Damages of models, by kind."""

    files: Counter[str] = field(default_factory=Counter)
    """The files that were damaged one by one."""

    problems: list[str] = field(default_factory=list)


def main() -> None:
    arguments = arguments_with(__doc__, damages=(2000, "damages to do"))
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        outcome = damage_often(Path(scratch), arguments.damages)
    facts = {
        "damages": arguments.damages,
        "unnoticed": len(outcome.problems),
        **vars(outcome),
    }
    print(json.dumps(facts, indent=2))
    finish("damages", facts, outcome.problems, arguments)


def damage_often(scratch: Path, num_damages: int, seed: int = 1) -> Outcome:
    """Do so many damages, one after the other, each to a run that is whole."""
    outcome = Outcome()
    chance = random.Random(seed)
    with patch.object(os, "fsync", no_fsync):
        run = scratch / "run"
        save_checkpoints(*STEPS)(run)
        write_model(2)(run)
        (run / BEST).rename(run / "another")
        write_model(1)(run)
        tree = read_tree(run)
        for number in range(num_damages):
            shutil.rmtree(run)
            write_tree(run, tree)
            try:
                # Each kind comes in turn, so that few damages are of every kind too.
                if number % 5 == 4:
                    problem = damage_model(run, chance, number // 5, outcome)
                else:
                    at = number - number // 5
                    problem = damage_checkpoints(run, tree, chance, at, outcome)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                outcome.problems.append(f"damage {number}: {problem}"[:1000])
    return outcome


def damage_checkpoints(
    run: Path, tree: Tree, chance: random.Random, number: int, outcome: Outcome
) -> str | None:
    """Damage the newest checkpoints; return what is wrong when the run goes on."""
    kind = list(KINDS)[number % len(KINDS)]
    outcome.checkpoints[kind] += 1
    said: list[str] = []
    checkpoints = Checkpoints(run / CHECKPOINTS, said.append)
    paths = checkpoints.paths()
    many = 2 if kind in BOTH else chance.choice([1, 1, 2])
    if kind in BOTH:
        KINDS[kind](paths[-1], paths[-2], chance)
    else:
        for path in paths[-many:]:
            KINDS[kind](path, paths[0], chance)
    now = read_tree(run)
    touched = [path for path in {**tree, **now} if tree.get(path) != now.get(path)]
    outcome.files.update(Path(path).name for path in touched if len(touched) == 1)
    if not touched:
        return f"{kind} changed nothing"
    found = checkpoints.newest()
    wanted = STEPS[-1 - many]
    if found is None or found.state.step != wanted:
        return f"{kind}: went on from {found and found.path.name}, not {wanted}"
    if not all((numbers == wanted).all() for numbers in found.weights.values()):
        return f"{kind}: went on from other numbers"
    for path in paths[-many:]:
        if not any(text.startswith(f"{path.name} cannot be used") for text in said):
            return f"{kind}: nothing was said of {path.name}, only {said}"
    return None


def damage_model(
    run: Path, chance: random.Random, number: int, outcome: Outcome
) -> str | None:
    """Damage the best model; return what is wrong when it is opened."""
    kinds = [kind for kind in KINDS if kind not in ONLY_OF_CHECKPOINTS]
    kind = kinds[number % len(kinds)]
    outcome.models[kind] += 1
    before = read_tree(run / BEST)
    KINDS[kind](run / BEST, run / "another", chance)
    if read_tree(run / BEST) == before:
        return f"{kind} changed nothing"
    try:
        open_model_folder(run / BEST)
    except ModelError as error:
        return None if BEST in str(error) else f"{kind}: not said where: {error}"
    return f"{kind}: a damaged model was opened"


def any_file(folder: Path, chance: random.Random) -> Path:
    """Draw a file of the folder; the manifest is one of them."""
    return chance.choice(sorted(path for path in folder.rglob("*") if path.is_file()))


def changed(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    """Make a damage of a change of the bytes of one file."""

    def damage(folder: Path, other: Path, chance: random.Random) -> None:
        path = any_file(folder, chance)
        path.write_bytes(change(path.read_bytes(), chance))

    return damage


def flipped(content: bytes, chance: random.Random) -> bytes:
    return with_bits_flipped(content, [chance.randrange(8 * len(content))])


def flipped_often(content: bytes, chance: random.Random) -> bytes:
    bits = chance.sample(range(8 * len(content)), chance.randint(2, 20))
    return with_bits_flipped(content, bits)


def with_bits_flipped(content: bytes, bits: list[int]) -> bytes:
    changed = bytearray(content)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def longer(content: bytes, chance: random.Random) -> bytes:
    more = chance.randint(1, 100)  # not only white space, which changes no JSON
    return content + chance.choice([bytes(more), b"\xff" + chance.randbytes(more)])


def zeros(content: bytes, chance: random.Random) -> bytes:
    return bytes(len(content))


def partly_zeros(content: bytes, chance: random.Random) -> bytes:
    """Put zeros over a part that is not zeros already, as a block that was lost."""
    while True:
        start, end = sorted(chance.sample(range(len(content) + 1), 2))
        if any(content[start:end]):
            return content[:start] + bytes(end - start) + content[end:]


def one_bit_of_the_manifest(folder: Path, other: Path, chance: random.Random) -> None:
    path = folder / MANIFEST
    path.write_bytes(flipped(path.read_bytes(), chance))


def another_word_in_the_manifest(
    folder: Path, other: Path, chance: random.Random
) -> None:
    """Change what the manifest says of the folder, not of its files."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    name = chance.choice(sorted(manifest.keys() - {"files"}))
    chance.choice([manifest.pop, lambda name: manifest.update({name: "other"})])(name)
    path.write_text(json.dumps(manifest))


def deleted(folder: Path, other: Path, chance: random.Random) -> None:
    any_file(folder, chance).unlink()


def a_folder_instead(folder: Path, other: Path, chance: random.Random) -> None:
    path = any_file(folder, chance)
    path.unlink()
    path.mkdir()


def emptied(folder: Path, other: Path, chance: random.Random) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def file_of_another(folder: Path, other: Path, chance: random.Random) -> None:
    """Put the file of another folder, of the same name, in place of one."""
    different = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.read_bytes() != (other / path.relative_to(folder)).read_bytes()
    ]
    path = chance.choice(different)
    shutil.copy(other / path.relative_to(folder), path)


def all_but_the_manifest(folder: Path, other: Path, chance: random.Random) -> None:
    manifest = (folder / MANIFEST).read_bytes()
    all_of_another(folder, other, chance)
    (folder / MANIFEST).write_bytes(manifest)


def all_of_another(folder: Path, other: Path, chance: random.Random) -> None:
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def files_swapped(folder: Path, other: Path, chance: random.Random) -> None:
    """Swap two different files of the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    while True:
        one, another = chance.sample(files, 2)
        contents = one.read_bytes(), another.read_bytes()
        if contents[0] != contents[1]:
            one.write_bytes(contents[1])
            another.write_bytes(contents[0])
            return


def folders_swapped(folder: Path, other: Path, chance: random.Random) -> None:
    """Swap two checkpoints, whole."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    other.rename(folder)
    aside.rename(other)


KINDS: dict[str, Damage] = {
    "a bit flipped": changed(flipped),
    "bits flipped": changed(flipped_often),
    "a file cut": changed(cut),
    "a file longer": changed(longer),
    "a file of zeros": changed(zeros),
    "zeros in a file": changed(partly_zeros),
    "a bit of the manifest flipped": one_bit_of_the_manifest,
    "another word in the manifest": another_word_in_the_manifest,
    "a file deleted": deleted,
    "a folder in place of a file": a_folder_instead,
    "all files deleted": emptied,
    "a file of another folder": file_of_another,
    "all but the manifest of another folder": all_but_the_manifest,
    "files of the folder swapped": files_swapped,
    "all of another checkpoint": all_of_another,
    "two checkpoints swapped": folders_swapped,
}
BOTH = ("two checkpoints swapped",)
"""Damages that hit two folders at once."""

ONLY_OF_CHECKPOINTS = (*BOTH, "all of another checkpoint")
"""One model in place of another is a model; a checkpoint has its step in its name."""


if __name__ == "__main__":
    main()
