"""``headwise demo``: all of it, with a small corpus."""

import shlex

import numpy as np
import pytest

from headwise import demo_corpus
from headwise.cli import demo
from headwise.inference.translator import Candidate, Translated, Translator
from headwise.sample_data.samples import SAMPLES, Sample


@pytest.fixture
def small(monkeypatch):
    settings = {
        "text": {"vocab_size": 400},
        "model": {
            "encoder_layers": 1,
            "decoder_layers": 1,
            "d_model": 16,
            "d_ff": 32,
            "num_heads": 2,
        },
        "training": {
            **demo.SETTINGS["training"],
            "steps": 3,
            "validate_every": 3,
            "validation_pairs": 2,
        },
        "decoding": {"beam": 2, "max_length_factor": 0.0, "max_length_offset": 4},
    }
    write = demo_corpus.write
    monkeypatch.setattr(demo, "SETTINGS", settings)
    monkeypatch.setattr(
        demo_corpus,
        "write",
        lambda folder: write(folder, num_train=200, num_dev=10, num_held_out=20),
    )


def test_a_corpus_of_the_users_own_is_not_written_over(headwise, tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.en").write_text("mine")
    found = headwise("demo", "--out", tmp_path)

    assert found.code == 2
    assert (
        "is not a run folder: it contains corpus, which a run might overwrite"
        in found.error
    )
    assert (tmp_path / "corpus" / "train.en").read_text() == "mine"


def shown(lines):
    """Return each sentence that the demo translated, and what it says of the result."""
    arrows = [at for at, line in enumerate(lines) if line.startswith("    → ")]
    return [(lines[at - 1].strip(), lines[at + 1].strip()) for at in arrows]


def test_a_translation_is_called_right_only_if_it_equals_the_reference(
    headwise, small, tmp_path, monkeypatch
):
    """The demo once closed with two wrong sentences of six and did not say so."""
    wrong = "Les lettres qu'Alice a écrits étaient longs."
    known = {pair.english: pair.french for pair in demo_corpus.EXAMPLES}
    known["The letters that Alice wrote were long."] = wrong

    def lines(self, texts, **search):
        for text in texts:
            french = known.get(text, "Oui.")
            found = Candidate(text=french, score=0.0, log_probability=0.0)
            yield Translated(text, (found,), ())

    monkeypatch.setattr(Translator, "lines", lines)

    found = headwise("demo", "--out", tmp_path / "demo")

    verdicts = dict(shown(found.out.splitlines()))
    assert f"→ {wrong}" in found.out
    assert verdicts.pop("The letters that Alice wrote were long.") == (
        "reference: Les lettres qu'Alice a écrites étaient longues."
    )
    assert set(verdicts.values()) == {"correct"}
    assert len(verdicts) == 5


def test_it_ends_with_scores_translations_and_what_to_type_next(
    headwise, small, tmp_path
):
    out = tmp_path / "demo"
    found = headwise("demo", "--out", out)

    assert found.code == 0
    lines = found.out.splitlines()
    scores = [line for line in lines if line.startswith("BLEU ")]
    assert len(scores) == 1
    assert any(line.startswith("word-by-word dictionary: BLEU ") for line in lines)
    assert any(line.startswith("il or elle: ") for line in lines)
    assert any(line.startswith("exact match: ") for line in lines)
    assert shown(lines) == [
        (pair.english, f"reference: {pair.french}") for pair in demo_corpus.EXAMPLES
    ]
    assert f"headwise translate {out}" in found.out
    assert f"headwise evaluate {out}" in found.out

    (evaluate,) = [line.split() for line in lines if " evaluate " in line]
    again = headwise(*evaluate[1:])
    assert again.code == 0
    assert again.out.startswith(scores[0])


@pytest.fixture
def short_samples(monkeypatch):
    """Samples of 2,000 training examples and 40 others a part."""
    write = Sample.write

    def shortened(self, folder):
        files = write(self, folder)
        for part, path in files.items():
            count = 2_000 if part == "train" else 40
            if path.suffix == ".npz":
                arrays = dict(np.load(path))
                np.savez(path, **{name: each[:count] for name, each in arrays.items()})
            else:
                lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
                path.write_text("".join(lines[:count]), encoding="utf-8")
        return files

    monkeypatch.setattr(Sample, "write", shortened)


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_is_learned_and_shown_with_what_to_type_next(
    headwise, short_samples, tmp_path, name
):
    out = tmp_path / "my model"

    found = headwise("demo", name, "--out", out, "--max-time", "1s")

    assert found.code == 0, found.error
    assert "that show combinations not in training:" in found.out
    *_, use, train = found.out.splitlines()
    assert shlex.quote(str(out)) in use
    assert f"--task {SAMPLES[name].task} --out my-model" in train
