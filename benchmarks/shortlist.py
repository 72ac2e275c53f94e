"""Measure what a shortlist of output tokens for each sentence gains, and what it costs.

python benchmarks/shortlist.py --model FOLDER --corpus FOLDER --tests FOLDER
python benchmarks/shortlist.py speed --model FOLDER --corpus FOLDER --tests FOLDER

MODEL is a trained model, CORPUS what it was prepared from, of which a lexical table is
learned, TESTS holds text of which the names end in the languages: test_2016_flickr.en.

quality  how much of references and outputs is inside, how long lists and their unions
         are, and what becomes of BLEU, chrF and outputs if nothing else is written
speed    a model of the preset student with random weights that never ends by itself:
         equal lengths by the whole vocabulary and by less of it, in each engine
gather   the parts: one product of a step, and what it takes to lay out its matrix

Processor time of one thread, variants in turn; ratios are of the same round. Each step,
and each engine, goes to benchmarks/results/shortlist.json beside what is there already.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from lexicon import (
    SPECIAL,
    Ids,
    Restricted,
    Shortlist,
    by_frequency,
    outputs,
    translations,
    write_rules,
)
from result_file import (
    EXPORTS,
    SEARCH,
    Measurement,
    add_options,
    place_of,
    write_json,
)

from headwise.backends.precision import Precision
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.backends.select_decoder import make_decoder
from headwise.data.prepared import PreparedCorpus
from headwise.decoding.settings import DecodingSettings
from headwise.interop.ctranslate2 import TINY_EXPONENT, write_ctranslate2
from headwise.metrics.registry import measure
from headwise.model import PRESETS, Transformer
from headwise.run_folder.model_folder import (
    ModelFolder,
    open_model_folder,
    write_model_folder,
)
from headwise.tasks.translation.task import Translation
from headwise.text.vocabulary import END

RESULTS = Path(__file__).parent / "results" / "shortlist.json"
TESTS = ("test_2016_flickr", "test_2017_flickr")
LISTS = ((20, 100), (50, 100), (50, 300), (100, 300), (100, 1000), (100, 2000))
"""Translations of each source token, and most frequent tokens, of the lists tried."""

TIMED = ((50, 300), (100, 1000))
"""The lists whose speed is measured."""

SIZES = (300, 600, 1500)
"""Output vocabularies that are the same for all sentences, as a bound."""

LENGTH = 15
"""Tokens of each output: as many as a target of Multi30k has on average."""

BEAMS = {"greedy": 1, "beam 4": 4}
TOGETHER = {"greedy": 72, "beam 4": 24}
"""Sentences of a batch: about as many as the engine ctranslate2 gives a worker."""

SOME = 72
"""Sentences whose search is timed, together as well as one by one."""

EVERY = 3
"""One of so many is searched together and alone, to compare what is written."""

UNIONS = (24, 32, 64)

ENGINES: dict[str, Precision] = {
    "torch-eager float32": "float32",
    "torch-eager bf16": "bf16",
    "kernels float32": "float32",
    "kernels bf16": "bf16",
    "ctranslate2 float32": "float32",
    "ctranslate2 int8": "float32",
}

Work = Callable[[], object]
Searching = Callable[[Sequence[Sequence[int]], int], object]


@dataclass(frozen=True)
class Given:
    """What all steps measure with."""

    opened: ModelFolder
    tests: Path
    languages: tuple[str, str]
    work: Path
    rounds: int
    lines: int | None
    table: Ids
    frequent: Ids
    engine: str

    def text(self, test: str) -> tuple[list[str], list[str]]:
        """Return the lines of a test: sources, references."""
        paths = [self.tests / f"{test}.{side}" for side in self.languages]
        both = [path.read_text("utf-8").rstrip("\n").split("\n") for path in paths]
        return both[0][: self.lines], both[1][: self.lines]

    def sources(self) -> list[list[int]]:
        """Return the tokens of the first test."""
        return self.opened.task.encode(self.text(TESTS[0])[0])

    def shortlist(self, likely: int, frequent: int) -> Shortlist:
        """Return lists with so many translations and frequent tokens."""
        return Shortlist(self.table, self.frequent, likely, frequent)

    def shortlists(self) -> dict[str, Shortlist]:
        """Return every list under its name; the last is the same for all sentences."""
        return {named(*each): self.shortlist(*each) for each in LISTS} | {
            "all of the targets": self.shortlist(0, len(self.frequent))
        }


def named(likely: int, frequent: int) -> str:
    return f"{likely} a token and {frequent}"


def batches(sources: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """Cut numbers of sentences, sorted by length, into batches."""
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    return [order[first : first + size] for first in range(0, len(order), size)]


def searched(
    decoder: TorchDecoder,
    sources: Sequence[Sequence[int]],
    settings: DecodingSettings,
    shortlist: Shortlist | None,
    size: int,
    *,
    apart: bool = True,
) -> list[tuple[int, ...]]:
    """Search in batches; return the tokens of each output."""
    found: list[tuple[int, ...]] = [()] * len(sources)
    for numbers in batches(sources, size):
        chosen = [sources[number] for number in numbers]
        if shortlist is None:
            written = [each.tokens for each in outputs(decoder, chosen, settings)]
        else:
            lists = [shortlist.of(each) for each in chosen]
            limited = Restricted(decoder, lists, apart=apart)
            ids = limited.ids.tolist()
            written = [
                tuple(ids[place] for place in each.tokens)
                for each in outputs(limited, chosen, settings)
            ]
        for number, tokens in zip(numbers, written, strict=True):
            found[number] = tokens
    return found


def quality(given: Given) -> dict[str, Any]:
    """Measure what is inside the lists, and what is lost with what is not."""
    decoder = TorchDecoder(given.opened.model)
    target = given.opened.tokenizers.target
    settings = replace(DecodingSettings(), beam=4)
    found: dict[str, Any] = {}
    for test in TESTS:
        lines, references = given.text(test)
        sources = given.opened.task.encode(lines)
        wanted = [target.encode(line) for line in references]
        free = searched(decoder, sources, settings, None, UNIONS[0])
        rows = {"whole vocabulary": scores(given, free, references)}
        for name, shortlist in given.shortlists().items():
            lists = [shortlist.of(each) for each in sources]
            held = searched(decoder, sources, settings, shortlist, UNIONS[0])
            rows[name] = {
                "inside_of_references": inside(wanted, lists),
                "inside_of_outputs": inside(free, lists),
                "outputs_wholly_inside": wholly_inside(free, lists),
                "tokens_a_sentence": round(statistics.fmean(map(len, lists)), 1),
                "tokens_of_unions": unions(sources, lists),
                **scores(given, held, references),
                "changed_outputs": changed(free, held),
            }
            print(test, name, json.dumps(rows[name]), file=sys.stderr, flush=True)
        found[test] = rows
    return {
        "sentences": {test: len(given.text(test)[0]) for test in TESTS},
        "search": "beam 4",
        "tokens_of_targets": len(given.frequent),
        "tests": found,
        "batch": batch_dependence(given, decoder, settings),
    }


def scores(
    given: Given, written: Sequence[tuple[int, ...]], references: list[str]
) -> dict[str, float]:
    texts = [given.opened.tokenizers.target.decode(each) for each in written]
    return {
        name: round(measure(name, texts, references).value, 2)
        for name in ("bleu", "chrf")
    }


def inside(rows: Sequence[Sequence[int]], lists: Sequence[Ids]) -> float:
    """Return the share of tokens that are in the list of their sentence."""
    hits = [np.isin(row, ids).sum() for row, ids in zip(rows, lists, strict=True)]
    return round(float(sum(hits)) / sum(map(len, rows)), 4)


def wholly_inside(rows: Sequence[Sequence[int]], lists: Sequence[Ids]) -> float:
    """Return the share of sentences of which all tokens are in the list."""
    return round(
        statistics.fmean(
            bool(np.isin(row, ids).all()) for row, ids in zip(rows, lists, strict=True)
        ),
        4,
    )


def changed(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return the share of outputs that are not the same."""
    return round(statistics.fmean(a != b for a, b in zip(one, other, strict=True)), 4)


def unions(sources: Sequence[Sequence[int]], lists: Sequence[Ids]) -> dict[str, float]:
    """Return the mean size of the union of batches, by how many are in a batch."""
    found = {}
    for size in UNIONS:
        whole = [batch for batch in batches(sources, size) if len(batch) == size]
        sizes = [
            len(np.unique(np.concatenate([lists[number] for number in batch])))
            for batch in whole
        ]
        found[str(size)] = round(statistics.fmean(sizes), 1) if sizes else 0.0
    return found


def batch_dependence(
    given: Given, decoder: TorchDecoder, settings: DecodingSettings
) -> dict[str, Any]:
    """Return the share of outputs that change as sentences are searched in batches.

    Each against itself alone: by the whole vocabulary, by a list of its own, by the
    union of the lists of its batch, and by CTranslate2, which takes the union.
    """
    sources, shortlist = given.sources()[::EVERY], given.shortlist(*TIMED[0])
    size = UNIONS[0]

    def torch_changes(chosen: Shortlist | None, *, apart: bool = True) -> float:
        one, many = (
            searched(decoder, sources, settings, chosen, each, apart=apart)
            for each in (1, size)
        )
        return changed(one, many)

    pieces = all_pieces(given.opened)
    folder = given.work / "trained"
    write_ctranslate2(folder, given.opened)
    shortlist.write_vmap(folder / "vmap.txt", pieces)
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)

    def peer_changes(use_vmap: bool) -> float:
        one, many = (
            [
                (number, tuple(result.hypotheses[0]))
                for numbers in batches(sources, each)
                for number, result in zip(
                    numbers,
                    translator.translate_batch(
                        [[pieces[token] for token in sources[n]] for n in numbers],
                        beam_size=settings.beam,
                        patience=settings.patience,
                        length_penalty=settings.alpha,
                        use_vmap=use_vmap,
                    ),
                    strict=True,
                )
            ]
            for each in (1, size)
        )
        return changed(sorted(one), sorted(many))

    return {
        "sentences": len(sources),
        "sentences_of_a_batch": size,
        "list": named(*TIMED[0]),
        "torch, whole vocabulary": torch_changes(None),
        "torch, a list for each": torch_changes(shortlist),
        "torch, the union for all": torch_changes(shortlist, apart=False),
        "ctranslate2, whole vocabulary": peer_changes(use_vmap=False),
        "ctranslate2, vmap": peer_changes(use_vmap=True),
    }


def all_pieces(opened: ModelFolder) -> list[str]:
    target = opened.tokenizers.target
    return target.pieces(range(target.size))


def speed(given: Given) -> dict[str, Any]:
    """Let an engine write outputs of equal length by less and less vocabulary."""
    student = write_student(given)
    sources = given.sources()
    some = sources[:: max(1, len(sources) // SOME)][:SOME]
    make = peers if given.engine.startswith("ctranslate2") else ours
    works = make(given, student)
    found: dict[str, Any] = {}
    for beam in BEAMS:
        for shape, size in (("one by one", 1), ("batches", TOGETHER[beam])):
            groups = [[some[n] for n in numbers] for numbers in batches(some, size)]
            rows = in_turn(
                {
                    name: partial(all_groups, work, groups, BEAMS[beam])
                    for name, work in works.items()
                },
                len(some),
                given.rounds,
            )
            found.setdefault(beam, {})[shape] = rows
            print(given.engine, beam, shape, json.dumps(rows), file=sys.stderr)
    return {
        "sentences": len(some),
        "tokens_an_output": LENGTH,
        "sentences_of_a_batch": TOGETHER,
        "rounds": given.rounds,
        **found,
    }


def all_groups(
    work: Searching, groups: Sequence[Sequence[Sequence[int]]], beam: int
) -> None:
    for group in groups:
        work(group, beam)


def write_student(given: Given) -> ModelFolder:
    """Write a model of the preset student with random weights, for which END is 0.

    So it is never among the best of some hundred scores, and outputs go to their limit.
    """
    path = given.work / "student"
    size = given.opened.tokenizers.target.size
    write_model_folder(
        path,
        model=random_student(size, size),
        task=Translation(given.opened.tokenizers),
        decoding=given.opened.decoding,
        facts=given.opened.facts,
        card="",
    )
    return open_model_folder(path)


def random_student(source_size: int, target_size: int) -> Transformer:
    config = PRESETS["student"].config
    if source_size != target_size:
        config = replace(config, tie_embeddings="output")
    model = Transformer(config, source_size, target_size, seed=1).eval()
    with torch.no_grad():
        model.output_vectors[END] = 0.0
    return model


def ours(given: Given, student: ModelFolder) -> dict[str, Searching]:
    """Return searches by PyTorch or by the native backend, by length limit."""
    precision, compiled = ENGINES[given.engine], given.engine.startswith("kernels")
    vocabulary = student.tokenizers.source.size

    def by(decoder: Any) -> Searching:
        return lambda sources, beam: outputs(decoder, sources, to_the_limit(beam))

    works: dict[str, Searching] = {}
    for size in (vocabulary, *SIZES):
        name = "whole vocabulary" if size == vocabulary else str(size)
        model = random_student(vocabulary, size)
        works[name] = by(make_decoder(model, precision, native=compiled))
    if compiled:
        return works
    whole = TorchDecoder(student.model, precision)
    for name, each in timed_lists(given).items():

        def limited(
            sources: Sequence[Sequence[int]], beam: int, each: Shortlist = each
        ) -> object:
            lists = [each.of(source) for source in sources]
            decoder = Restricted(whole, lists, precision)
            return outputs(decoder, sources, to_the_limit(beam))

        works[name] = limited
    return works


def timed_lists(given: Given) -> dict[str, Shortlist]:
    """Return the lists that are tried, and one that holds all that targets do."""
    lists = {named(*each): given.shortlist(*each) for each in TIMED}
    return lists | {"all of the targets": given.shortlist(0, len(given.frequent))}


def to_the_limit(beam: int) -> DecodingSettings:
    return replace(
        DecodingSettings(), beam=beam, max_length_factor=0.0, max_length_offset=LENGTH
    )


def peers(given: Given, student: ModelFolder) -> dict[str, Searching]:
    """Return searches by CTranslate2, with its own ``use_vmap``."""
    quantization = given.engine.split()[1]
    pieces = all_pieces(student)
    first = given.work / f"student-{quantization}"
    write_ctranslate2(first, student, quantization=quantization)
    works: dict[str, Searching] = {"whole vocabulary": by_peer(first, pieces)}
    for size in SIZES:
        rules = {"": given.frequent[: size - len(SPECIAL)].tolist()}
        folder = linked(first, str(size))
        write_rules(folder / "vmap.txt", rules, pieces)
        works[str(size)] = by_peer(folder, pieces)
    for name, shortlist in timed_lists(given).items():
        folder = linked(first, name)
        shortlist.write_vmap(folder / "vmap.txt", pieces)
        works[name] = by_peer(folder, pieces)
    return works


def linked(folder: Path, name: str) -> Path:
    """Return another folder that holds the same files."""
    other = folder.with_name(f"{folder.name} {name}")
    other.mkdir()
    for path in folder.iterdir():
        os.link(path, other / path.name)
    return other


def by_peer(folder: Path, pieces: Sequence[str]) -> Searching:
    kind = "int8" if "int8" in folder.name else "float32"
    translator = ctranslate2.Translator(
        str(folder), compute_type=kind, inter_threads=1, intra_threads=1
    )
    use_vmap = (folder / "vmap.txt").exists()

    def work(sources: Sequence[Sequence[int]], beam: int) -> object:
        found = translator.translate_batch(
            [[pieces[token] for token in source] for source in sources],
            beam_size=beam,
            length_penalty=TINY_EXPONENT,
            max_decoding_length=LENGTH,
            use_vmap=use_vmap,
        )
        assert all(len(each.hypotheses[0]) == LENGTH for each in found)
        return found

    return work


def in_turn(
    works: dict[str, Work], sentences: int, rounds: int
) -> dict[str, dict[str, Any]]:
    """Let all take turns; return processor time, and how many times the first's."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            started = time.process_time()
            work()
            seconds[name].append(time.process_time() - started)
    first = next(iter(seconds.values()))
    rows = {}
    for name, each in seconds.items():
        gains = [a / b for a, b in zip(first, each, strict=True)]
        rows[name] = {
            "milliseconds_a_sentence": round(
                1000 * statistics.median(each) / sentences, 3
            ),
            "times_as_fast": round(statistics.median(gains), 2),
            "least_and_most": [round(min(gains), 2), round(max(gains), 2)],
        }
    return rows


def gather(given: Given) -> dict[str, Any]:
    """Time one product of a step by each way to restrict it, and laying it out."""
    sources, shortlist = given.sources(), given.shortlist(*TIMED[0])
    width, beam = PRESETS["student"].config.d_model, BEAMS["beam 4"]
    vocabulary = given.opened.tokenizers.target.size
    weight = torch.randn(vocabulary, width, generator=torch.Generator().manual_seed(1))
    across = weight.t().contiguous()
    found = {}
    for size in (1, *UNIONS):
        whole = [each for each in batches(sources, size) if len(each) == size]
        batch = whole[len(whole) // 2] if whole else []
        lists = [shortlist.of(sources[number]) for number in batch]
        union = torch.from_numpy(np.unique(np.concatenate(lists)))
        most = max(map(len, lists))
        filled = torch.from_numpy(
            np.stack([np.pad(each, (0, most - len(each))) for each in lists])
        )
        x = torch.randn(size * beam, width)
        own = weight[filled].transpose(1, 2).contiguous()
        shared = weight[union].t().contiguous()
        refused = torch.rand(size * beam, len(union)) < 0.5
        works: dict[str, Work] = {
            "product by the whole vocabulary": lambda x=x: x @ across,
            "product by the union": lambda x=x, shared=shared: x @ shared,
            "the same, and the mask": lambda x=x, shared=shared, refused=refused: (
                x @ shared
            ).masked_fill_(refused, -torch.inf),
            "products by a list for each": lambda x=x, own=own: torch.bmm(
                x.view(len(own), beam, width), own
            ),
            "making the lists": lambda batch=batch: [
                shortlist.of(sources[number]) for number in batch
            ],
            "laying out the union": lambda union=union: weight[union].t().contiguous(),
            "laying out a list for each": lambda filled=filled: (
                weight[filled].transpose(1, 2).contiguous()
            ),
        }
        repeats = 1 if given.rounds == 1 else 50
        rows = in_turn(
            {name: partial(again, work, repeats) for name, work in works.items()},
            repeats,
            given.rounds,
        )
        found[str(size)] = {
            "tokens_of_the_union": len(union),
            "milliseconds": {
                name: row["milliseconds_a_sentence"] for name, row in rows.items()
            },
        }
    return {
        "list": named(*TIMED[0]),
        "rows_of_a_sentence": beam,
        "width": width,
        "sentences": found,
    }


def again(work: Work, times: int) -> None:
    for _ in range(times):
        work()


STEPS = {"quality": quality, "speed": speed, "gather": gather}


def main() -> None:
    """Take the steps, and write what all of them found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", help=f"of {', '.join(STEPS)}; none: all")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tests", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=("en", "de"))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES])
    parser.add_argument("--about", default="", help="what model that is")
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if unknown := set(arguments.steps) - STEPS.keys():
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(STEPS)}")
    torch.set_num_threads(1)
    out = place_of(arguments)
    corpus = PreparedCorpus.open(arguments.corpus)
    size = corpus.facts.target_vocabulary
    table, frequent = translations(corpus.train, size), by_frequency(corpus.train, size)
    for step in arguments.steps or STEPS:
        for engine in arguments.engines if step == "speed" else [""]:
            measurement = Measurement.begin(
                [*SEARCH, *EXPORTS, "benchmarks/lexicon.py"]
            )
            with tempfile.TemporaryDirectory() as work:
                given = Given(
                    opened=open_model_folder(arguments.model),
                    tests=arguments.tests,
                    languages=tuple(arguments.languages),
                    work=Path(work),
                    rounds=1 if arguments.rehearse else arguments.rounds,
                    lines=70 if arguments.rehearse else None,
                    table=table,
                    frequent=frequent,
                    engine=engine,
                )
                found = STEPS[step](given)
            part = measurement.provenance() | {"model": arguments.about} | found
            if out is not None:
                before = json.loads(out.read_text("utf-8")) if out.exists() else {}
                name = f"{step}, {engine}" if engine else step
                write_json(out, before | {name: part})


if __name__ == "__main__":
    main()
