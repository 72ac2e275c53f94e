"""``headwise back-translate``: pairs for a recipe, whatever interrupts it."""

import gzip
import json
import signal
import time

import pytest

from headwise.inference import synthetic_pairs as module

SENTENCES = ["six three one.", "two.", "four five six one.", "three three."]


@pytest.fixture
def text(tmp_path):
    """Monolingual text, with one line in five that gives no pair."""
    path = tmp_path / "mono.en"
    lines = ["" if number % 5 == 3 else SENTENCES[number % 4] for number in range(50)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def pairs_of(path):
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [tuple(line.split("\t")) for line in lines]


def test_pairs_have_the_synthetic_side_first(headwise, tiny_run, text, tmp_path):
    out = tmp_path / "bt.tsv"
    outcome = headwise("back-translate", tiny_run, text, "--beam", 2, "--out", out)

    assert outcome.code == 0
    assert outcome.out == ""
    assert "50 lines read, 40 pairs in" in outcome.error
    assert "10 blank: the line is blank" in outcome.error
    pairs = pairs_of(out)
    assert [target for _, target in pairs] == [
        x for x in text.read_text().split("\n") if x
    ]
    translated = headwise("translate", tiny_run, text, "--beam", 2).out
    assert [source for source, _ in pairs] == [x for x in translated.split("\n") if x]
    left_out = pairs_of(tmp_path / "bt.tsv.left-out.tsv")
    assert left_out[0] == ("line 4", "blank", "", "")
    assert len(left_out) == 10


def test_outputs_are_drawn_at_random_by_a_seed(headwise, tiny_run, text, tmp_path):
    def sources(name, *arguments):
        out = tmp_path / name
        outcome = headwise("back-translate", tiny_run, text, *arguments, "--out", out)
        assert outcome.code == 0
        return [source for source, _ in pairs_of(out)]

    hot = ("--search", "temperature=3", "--search", "search=sampling")
    assert sources("1.tsv", *hot) == sources("2.tsv", *hot)
    assert sources("3.tsv", *hot, "--search", "seed=5") != sources("1b.tsv", *hot)
    progress = json.loads((tmp_path / "1.tsv.progress.json").read_text())
    assert progress["identity"]["search"]["search"] == "sampling"


def test_sampling_is_the_default(headwise, tiny_run, text, tmp_path):
    out = tmp_path / "bt.tsv"
    assert headwise("back-translate", tiny_run, text, "--out", out).code == 0
    search = json.loads((tmp_path / "bt.tsv.progress.json").read_text())["identity"]
    assert search["search"]["search"] == "sampling"


def test_several_files_are_read_in_order_and_named(headwise, tiny_run, tmp_path):
    one, two = tmp_path / "1.en", tmp_path / "2.en.gz"
    one.write_text("one.\n\n")
    two.write_bytes(gzip.compress(b"two.\tthree.\nfour \xff.\n"))
    out = tmp_path / "bt.tsv"
    outcome = headwise("back-translate", tiny_run, one, two, "--beam", 1, "--out", out)

    assert outcome.code == 0
    assert [target for _, target in pairs_of(out)] == ["one.", "two. three."]
    left_out = pairs_of(tmp_path / "bt.tsv.left-out.tsv")
    assert [row[:2] for row in left_out] == [
        (f"{one}, line 2", "blank"),
        (f"{two}, line 2", "not UTF-8"),
    ]


def test_a_recipe_reads_tagged_pairs_as_one_more_corpus(
    headwise, tiny_run, tiny_text, text, tmp_path
):
    """The tag is one token, which only synthetic sources have (Caswell et al. 2019)."""
    out = tmp_path / "bt.tsv"
    command = ("back-translate", tiny_run, text, "--beam", 1, "--tag", "<BT>")
    assert headwise(*command, "--out", out).code == 0
    assert all(source.startswith("<BT> ") for source, _ in pairs_of(out))
    english, german = tiny_text
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f"""
        preset = "micro"
        [text]
        vocab_size = 60
        symbols = ["<BT>"]
        [[data.corpora]]
        source = "{german}"
        target = "{english}"
        weight = 2.0
        [[data.corpora]]
        source = "{out}"
        """
    )
    corpus = tmp_path / "corpus"
    outcome = headwise("prepare", "--recipe", recipe, "--out", corpus)
    assert outcome.code == 0, outcome.error
    assert f"{out}: 40 pairs read" in outcome.error

    from headwise.data.prepared import PreparedCorpus

    tokenizer = PreparedCorpus.open(corpus).tokenizers.source
    assert "<BT>" in tokenizer.pieces(tokenizer.encode("<BT> eins."))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["FOLDER", "-", "--out", "x.tsv"], "standard input cannot be read again"),
        (["FOLDER", "TEXT", "--out", "x.txt"], "--out x.txt must end in .tsv or .tab"),
        (["FOLDER", "TEXT"], "Missing option '--out'"),
        (["FOLDER", "--out", "x.tsv"], "Missing argument"),
        (["FOLDER", "gone.en", "--out", "x.tsv"], "gone.en does not exist"),
        (["gone", "TEXT", "--out", "x.tsv"], "gone does not exist"),
        (["FOLDER", "TEXT", "--out", "no/x.tsv"], "no is not a folder"),
        (["FOLDER", "TEXT", "--out", "x.tsv", "--tag", "a b"], "one printable symbol"),
        (["FOLDER", "TEXT", "--out", "x.tsv", "--tag", ""], "one printable symbol"),
        (
            [
                "FOLDER",
                "TEXT",
                "--out",
                "x.tsv",
                "--beam",
                "4",
                "--search",
                "num_best=2",
            ],
            "num_best must be 1, not 2",
        ),
    ],
)
def test_mistakes_are_named(
    headwise, tiny_run, text, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    names = {"FOLDER": tiny_run, "TEXT": text}
    outcome = headwise("back-translate", *(names.get(x, x) for x in arguments))
    assert outcome.code == 2
    assert message in outcome.error
    assert [each.name for each in tmp_path.iterdir()] == ["mono.en"]


def test_an_input_is_not_overwritten(headwise, tiny_run, tmp_path):
    path = tmp_path / "mono.tsv"
    path.write_text("one.\n")
    outcome = headwise("back-translate", tiny_run, path, "--out", path)
    assert outcome.code == 2
    assert "would overwrite the input" in outcome.error


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.csv"])
def test_a_table_is_not_read_as_texts(headwise, tiny_run, tmp_path, name):
    """Its lines were translated with the separators and both sides."""
    table = tmp_path / name
    table.write_text("one\teins\n" if name == "pairs.tsv" else '"one","eins"\n')

    found = headwise("back-translate", tiny_run, table, "--out", tmp_path / "out.tsv")

    assert found.code == 2
    assert "back-translate reads each line as one text" in found.error
    assert "> texts.txt" in found.error
    assert not (tmp_path / "out.tsv").exists()


def test_it_is_said_that_no_pair_was_written(headwise, tiny_run, tmp_path):
    text = tmp_path / "blank"
    text.write_text("\n \n")
    found = headwise("back-translate", tiny_run, text, "--out", tmp_path / "out.tsv")

    assert found.code == 0
    assert "no pair was written: " in found.error
    assert "out.tsv.left-out.tsv says why for each line" in found.error


def test_an_empty_text_is_an_error_and_leaves_no_file(headwise, tiny_run, tmp_path):
    path = tmp_path / "mono.en"
    path.write_text("")
    outcome = headwise("back-translate", tiny_run, path, "--out", tmp_path / "x.tsv")
    assert outcome.code == 4
    assert "no line of text" in outcome.error
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_stopped_process_goes_on_where_it_was(start, tiny_run, tmp_path, how):
    """The pairs are those of a process that nobody stopped."""
    path = tmp_path / "mono.en"
    path.write_text("\n".join(SENTENCES * module.BLOCK_LINES) + "\n")
    command = ("back-translate", tiny_run, path, "--threads", 1, "--out")
    out, whole = tmp_path / "bt.tsv", tmp_path / "whole.tsv"
    process = start(*command, out)
    progress = tmp_path / "bt.tsv.progress.json"
    deadline = time.monotonic() + 120
    while not (progress.exists() and json.loads(progress.read_text())["lines"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    _, error = process.communicate(timeout=60)
    assert process.returncode == (75 if how == signal.SIGTERM else -how), error.decode()
    lines = json.loads(progress.read_text())["lines"]
    assert module.BLOCK_LINES <= lines < 4 * module.BLOCK_LINES
    assert not out.exists()

    for to in (out, whole):
        process = start(*command, to)
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error.decode()
        assert (b"resuming after" in error) == (to == out)

    assert out.read_bytes() == whole.read_bytes()
    assert out.read_bytes().count(b"\n") > 3 * module.BLOCK_LINES
