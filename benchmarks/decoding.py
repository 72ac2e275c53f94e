"""Compare the speed of searches: the same trained weights in each engine, in turn.

python benchmarks/decoding.py FOLDER --source FILE --reference FILE
python benchmarks/decoding.py FOLDER --source FILE --reference FILE --quick

FOLDER is a trained model; CTranslate2 and Hugging Face read exports of it. Every engine
lives in a process of its own, all of them from the first round to the last, and one at
a time works: each searches the whole file greedily and with a beam of 4, then single
sentences one by one, of which the 50th and the 95th percentile are told. What is timed
begins with token ids (CTranslate2: pieces) and ends with them. Medians of all rounds go
to benchmarks/results/decoding.json; for another model, --out names another file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from result_file import EXPORTS, SEARCH, Measurement, add_options, place_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "decoding.json"
LONGEST = 100
BEAMS = {"greedy": 1, "beam 4": 4}
SINGLE = 300
"""Sentences searched one by one in each round."""

BATCH_TOKENS = 4096
BATCH_SENTENCES = 128

Search = Callable[[Sequence[Sequence[int]], int], list[list[int]]]

ENGINES: dict[str, tuple[str, str, int]] = {
    f"{name} {precision}, {threads} thread{'s' * (threads > 1)}": (
        name,
        precision,
        threads,
    )
    for name, precision, threads in (
        ("headwise auto", "float32", 1),
        ("headwise auto", "float32", 2),
        ("headwise auto", "bf16", 1),
        ("headwise auto", "bf16", 2),
        ("headwise torch", "float32", 1),
        ("headwise torch", "float32", 2),
        ("headwise torch", "bf16", 1),
        ("headwise torch", "bf16", 2),
        ("headwise torch-eager", "float32", 2),
        ("headwise torch-eager", "bf16", 2),
        ("ctranslate2", "float32", 1),
        ("ctranslate2", "float32", 2),
        ("ctranslate2", "int8", 1),
        ("ctranslate2", "int8", 2),
        ("transformers", "float32", 2),
    )
} | {
    f"ctranslate2 {precision}, 2 workers": ("ctranslate2 workers", precision, 1)
    for precision in ("float32", "int8")
}
"""Label to tool, precision and threads; workers are ours where there are 2 threads."""


def headwise_search(folder: Path, engine: str, precision: str) -> Search:
    """Search as ``headwise translate`` does, by one of its engines."""
    import headwise
    from headwise.decoding.settings import DecodingSettings

    used = headwise.load(folder / "model", engine=engine, precision=precision).engine

    def search(sources: Sequence[Sequence[int]], beam: int) -> list[list[int]]:
        settings = DecodingSettings(
            beam=beam,
            patience=1.0,  # as in the other tools
            max_length_factor=0.0,
            max_length_offset=LONGEST,
            scores=False,  # which is the default of the other tools
        )
        return [list(best.tokens) for best, *_ in used.search(sources, settings)]

    return search


def ctranslate2_search(
    folder: Path, precision: str, threads: int, workers: int = 1
) -> Search:
    """Search with CTranslate2 itself; what it sorts and batches is its own."""
    import ctranslate2

    pieces = json.loads((folder / "pieces.json").read_text("utf-8"))
    ids = {piece: number for number, piece in enumerate(pieces)}
    translator = ctranslate2.Translator(
        str(folder / "ctranslate2"),
        compute_type=precision,
        inter_threads=workers,
        intra_threads=threads,
    )

    def search(sources: Sequence[Sequence[int]], beam: int) -> list[list[int]]:
        results = translator.translate_batch(
            [[pieces[token] for token in source] for source in sources],
            beam_size=beam,
            length_penalty=1.0,
            max_decoding_length=LONGEST,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
        )
        return [[ids[piece] for piece in each.hypotheses[0]] for each in results]

    return search


def transformers_search(folder: Path) -> Search:
    """Search with ``generate``, in batches of similar lengths."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "huggingface").eval()
    pad, end = model.config.pad_token_id, model.config.eos_token_id

    def search(sources: Sequence[Sequence[int]], beam: int) -> list[list[int]]:
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        found: list[list[int]] = [[] for _ in sources]
        for first in range(0, len(order), BATCH_SENTENCES):
            numbers = order[first : first + BATCH_SENTENCES]
            rows = [torch.tensor([*sources[number], end]) for number in numbers]
            ids = torch.nn.utils.rnn.pad_sequence(rows, True, pad)
            with torch.inference_mode():
                written = model.generate(
                    ids,
                    attention_mask=(ids != pad).long(),
                    num_beams=beam,
                    max_new_tokens=LONGEST,
                    length_penalty=1.0,
                    early_stopping=beam > 1,
                    do_sample=False,
                )
            for number, row in zip(numbers, written.tolist(), strict=True):
                tokens = row[1:]
                found[number] = tokens[: tokens.index(end)] if end in tokens else tokens
        return found

    return search


def make_search(name: str, precision: str, threads: int, folder: Path) -> Search:
    """Open the model in the engine that is asked for."""
    if name == "ctranslate2 workers":
        return ctranslate2_search(folder, precision, threads, workers=2)
    if name == "ctranslate2":
        return ctranslate2_search(folder, precision, threads)
    if name == "headwise auto":  # which has the threads of OMP_NUM_THREADS
        return headwise_search(folder, "auto", precision)
    import torch

    torch.set_num_threads(threads)
    if name == "transformers":
        return transformers_search(folder)
    return headwise_search(folder, name.removeprefix("headwise "), precision)


def peak_megabytes() -> float:
    """Return the most memory that this process held since the last reset."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def reset_peak() -> None:
    """Let the peak begin anew from what is held now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def serve(label: str, folder: Path) -> None:
    """Answer each line of stdin with one of JSON: the work of one process."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not look like an answer
    search = make_search(*ENGINES[label], folder)
    sources = json.loads((folder / "sources.json").read_text("utf-8"))
    asked = json.loads((folder / "asked.json").read_text("utf-8"))
    for beam in BEAMS.values():
        search(sources[:: max(1, len(sources) // 100)], beam)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        beam = BEAMS[line.strip()]
        reset_peak()
        started, used = time.perf_counter(), time.process_time()
        outputs = search(sources, beam)
        seconds, used = time.perf_counter() - started, time.process_time() - used
        peak = peak_megabytes()
        single = []
        for source in sources[:: len(sources) // asked["single"]][: asked["single"]]:
            started = time.perf_counter()
            search([source], beam)
            single.append(1000 * (time.perf_counter() - started))
        answer = {
            "sentences_per_second": len(sources) / seconds,
            "tokens_per_second": sum(len(each) + 1 for each in outputs) / seconds,
            "processor_seconds": used,
            "peak_megabytes": peak,
            "p50_milliseconds": statistics.median(single),
            "p95_milliseconds": statistics.quantiles(single, n=20)[-1],
            "outputs": outputs,
        }
        print(json.dumps(answer), file=answers, flush=True)


def prepare(folder: Path, model: Path, lines: list[str], single: int) -> Any:
    """Write what the processes read; return the opened model."""
    import headwise
    from headwise.interop.exports import export

    opened = headwise.load(model, engine="torch").opened
    (folder / "model").symlink_to(model.resolve())
    export(folder / "ctranslate2", opened, target="ctranslate2")
    export(folder / "huggingface", opened, target="huggingface")
    pieces = opened.tokenizers.target.pieces(range(opened.tokenizers.target.size))
    (folder / "pieces.json").write_text(json.dumps(list(pieces)), "utf-8")
    (folder / "sources.json").write_text(json.dumps(opened.task.encode(lines)), "utf-8")
    (folder / "asked.json").write_text(json.dumps({"single": single}), "utf-8")
    return opened


def described(opened: Any) -> str:
    """Say what model this is, as far as its folder tells."""
    config, words = opened.model.config, opened.tokenizers.target.size
    layers = f"{config.encoder_layers} + {config.decoder_layers} layers"
    return f"{layers}, d_model {config.d_model}, {words:,} words"


def read(path: Path) -> list[str]:
    """Return the lines of a text file, which may be gzipped."""
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return raw.decode("utf-8").removesuffix("\n").split("\n")


def measure(
    folder: Path, labels: Sequence[str], rounds: int
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Let the engines work in turn; return every answer."""
    processes = {
        label: subprocess.Popen(
            [sys.executable, __file__, "--serve", label, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(ENGINES[label][2])},
        )
        for label in labels
    }
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        label: {name: [] for name in BEAMS} for label in labels
    }
    try:
        for label, process in processes.items():
            if not _answer(process):
                raise SystemExit(f"{label} did not start")
        for number in range(rounds):
            for label, process in processes.items():
                for name in BEAMS:
                    assert process.stdin is not None
                    print(name, file=process.stdin, flush=True)
                    found[label][name].append(_answer(process))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    finally:
        for process in processes.values():
            if process.stdin is not None:
                process.stdin.close()
            process.wait()
    return found


def _answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line else None


def summary(
    found: dict[str, dict[str, list[dict[str, Any]]]],
    bleu: Callable[[list[list[int]]], float],
) -> dict[str, Any]:
    """Return medians, and all rounds where one may want to see how they vary."""
    result: dict[str, Any] = {name: {} for name in BEAMS}
    for label, searches in found.items():
        for name, rounds in searches.items():
            row: dict[str, Any] = {
                key: round(statistics.median(each[key] for each in rounds), 2)
                for key in rounds[0]
                if key != "outputs"
            }
            row["all_sentences_per_second"] = [
                round(each["sentences_per_second"], 3) for each in rounds
            ]
            row["bleu"] = round(bleu(rounds[0]["outputs"]), 2)
            result[name][label] = row
    return result


def of_rounds(rows: dict[str, Any], ours: str, theirs: str) -> list[float]:
    """Return the least and the largest ratio of speeds in one round."""
    speeds = [rows[label]["all_sentences_per_second"] for label in (ours, theirs)]
    found = [mine / other for mine, other in zip(*speeds, strict=True)]
    return [round(min(found), 2), round(max(found), 2)]


def ratios(searches: dict[str, Any]) -> dict[str, Any]:
    """Compare our engines with CTranslate2, and with transformers if it was measured.

    Each side at its best. Nothing is compared without one of each in float32.
    """
    compared = {}
    for name, rows in searches.items():
        ours, theirs, plain = (
            {label: row for label, row in rows.items() if label.startswith(tools)}
            for tools in (
                ("headwise auto ", "headwise torch "),
                "ctranslate2 ",
                "transformers ",
            )
        )
        both = (_in_float32(ours), _in_float32(theirs))
        if not all(both):
            continue
        fastest, rival = _fastest(ours), _fastest(theirs)
        alike, its = (min(row["p50_milliseconds"] for row in each) for each in both)
        mine = min(row["p50_milliseconds"] for row in ours.values())
        compared[name] = {
            "best": {"headwise": fastest, "ctranslate2": rival},
            **_speeds(rows, fastest, rival, "ctranslate2"),
            "latency_over_ctranslate2_float32": round(mine / its, 2),
            "latency_in_float32_over_it": round(alike / its, 2),
            "bleu_difference_to_ctranslate2": round(
                rows[fastest]["bleu"] - rows[rival]["bleu"], 2
            ),
            **(
                _speeds(rows, fastest, _fastest(plain), "transformers") if plain else {}
            ),
        }
    return compared


def _in_float32(rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for label, row in rows.items() if "float32" in label]


def _fastest(rows: dict[str, Any]) -> str:
    return max(rows, key=lambda label: float(rows[label]["sentences_per_second"]))


def _speeds(rows: dict[str, Any], ours: str, theirs: str, tool: str) -> dict[str, Any]:
    speed, other = (rows[label]["sentences_per_second"] for label in (ours, theirs))
    return {
        f"speed_over_{tool}": round(speed / other, 2),
        f"speed_over_{tool}_of_rounds": of_rounds(rows, ours, theirs),
    }


def main() -> None:
    """Measure, and write the result."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--about", default="", help="what model this is")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--single", type=int, default=SINGLE, help="sentences one by one"
    )
    parser.add_argument("--only", default="", help="labels that hold one of these, |")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    from headwise.metrics.bleu_chrf_ter import bleu

    rounds, single = arguments.rounds, arguments.single
    lines, references = read(arguments.source), read(arguments.reference)
    if arguments.rehearse:
        rounds, single, lines, references = 1, 3, lines[:20], references[:20]
    wanted = arguments.only.split("|")
    labels = [label for label in ENGINES if any(each in label for each in wanted)]
    measurement = Measurement.begin([*SEARCH, *EXPORTS])
    with tempfile.TemporaryDirectory() as name:
        opened = prepare(Path(name), arguments.folder, lines, single)
        found = measure(Path(name), labels, rounds)

    def score(outputs: list[list[int]]) -> float:
        texts = [opened.tokenizers.target.decode(each) for each in outputs]
        return bleu(texts, references).value

    searches = summary(found, score)
    report = {
        "model": arguments.about or described(opened),
        "sentences": len(lines),
        "sentences_one_by_one": single,
        "rounds": rounds,
        "ratios": ratios(searches),
        "searches": searches,
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
