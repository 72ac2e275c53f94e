"""Other tasks than translation: run, predict, embed, generate, evaluate."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.tasks.examples import classification, language_model, train_example

TINY = ["--set", "training.steps=40", "--set", "training.validate_every=20"]
TINY += ["--set", "text.vocab_size=60", "--set", "model.d_model=16"]
TINY += ["--set", "model.num_heads=2", "--set", "model.d_ff=32"]
TINY += ["--preset", "micro", "--set", "training.learning_rate=0.01"]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return train_example("classification", tmp_path_factory.mktemp("classification"))


@pytest.fixture(scope="module")
def verses(tmp_path_factory):
    return train_example("language_model", tmp_path_factory.mktemp("verses"))


def test_a_table_of_texts_and_labels_gives_a_classifier(headwise, tmp_path):
    file = classification(tmp_path)["source"]
    found = headwise(
        *("run", file, "--task", "classification", "--out", tmp_path / "run"), *TINY
    )

    assert found.code == 0, found.error
    accuracy, f1 = found.out.splitlines()
    assert accuracy.startswith("accuracy ")
    assert f1.startswith("macro F1 ")
    assert "next: headwise predict" in found.error


def test_columns_and_a_test_set_in_one_file(headwise, tmp_path):
    file = Path(classification(tmp_path)["source"])
    lines = file.read_text(encoding="utf-8").splitlines()
    turned = ["\t".join(reversed(line.split("\t"))) for line in lines]
    for name, part in (("train", turned[:100]), ("dev", turned[100:])):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{x}\n" for x in part))
    found = headwise(
        *("run", tmp_path / "train.tsv", "--task", "classification", "--columns", 2, 1),
        *("--dev-file", tmp_path / "dev.tsv", "--test-file", tmp_path / "dev.tsv"),
        *("--out", tmp_path / "run", *TINY),
    )

    assert found.code == 0, found.error
    assert "predicting 50 test lines" in found.error


def test_fields_of_json_lines_are_named_for_training_and_scores(headwise, tmp_path):
    """In the training, validation and test set, and by ``headwise evaluate``."""
    lines = Path(classification(tmp_path)["source"]).read_text("utf-8").splitlines()
    rows = [
        dict(zip(("text", "label"), line.split("\t"), strict=True)) for line in lines
    ]
    for name, part in (("train", rows[:100]), ("dev", rows[100:])):
        text = "".join(f"{json.dumps(row)}\n" for row in part)
        (tmp_path / f"{name}.jsonl").write_text(text)
    dev, fields = tmp_path / "dev.jsonl", ("--fields", "text", "label")
    found = headwise(
        *("run", tmp_path / "train.jsonl", "--task", "classification", *fields),
        *("--dev-file", dev, "--test-file", dev, "--out", tmp_path / "run", *TINY),
    )
    scored = headwise("evaluate", tmp_path / "run", dev, *fields)

    assert found.code == 0, found.error
    assert "predicting 50 test lines" in found.error
    assert scored.out == found.out


def test_documents_are_learned_and_read_in_parts(headwise, tmp_path):
    """Documents of 30 to 50 words by a model of windows of 8 tokens."""
    colors = ("red", "blue")
    documents = [
        " ".join(str(n + i) for i in range(15 + n % 10))
        + f" {colors[n % 2]}" * (16 + n % 11)
        for n in range(150)
    ]
    file = tmp_path / "documents.tsv"
    lines = (f"{text}\t{colors[n % 2]}\n" for n, text in enumerate(documents))
    file.write_text("".join(lines), encoding="utf-8")
    prepared = headwise(
        *("prepare", file, "--task", "classification", "--out", tmp_path / "prepared"),
        *("--preset", "micro", "--set", "data.max_tokens=8"),
        *("--set", "text.vocab_size=60"),
    )
    train = ("train", tmp_path / "prepared", "--out", tmp_path / "run", *TINY)
    estimated = headwise(*train, "--dry-run")
    trained = headwise(*train)
    scored = headwise("evaluate", tmp_path / "run", file)

    assert "135 for training in 1,015 parts" in prepared.error
    assert "135 training pairs, 15 for validation" in prepared.error
    assert "135 pairs, cut into 1,015 parts" in estimated.out
    assert trained.code == 0, trained.error
    name, accuracy, *_ = scored.out.split()
    assert name == "accuracy"
    assert float(accuracy) > 90  # of two labels
    card = (tmp_path / "run" / "best" / "README.md").read_text(encoding="utf-8")
    assert "135 pairs" in card


def test_a_text_file_gives_a_language_model(headwise, tmp_path):
    file = language_model(tmp_path)["source"]
    found = headwise(
        *("run", file, "--task", "language_model", "--out", tmp_path / "run"),
        *("--set", "data.max_tokens=16", *TINY),
    )

    assert found.code == 0, found.error
    assert "the model card names no" in found.error
    used = f"next: headwise generate {tmp_path / 'run'} --prompt TEXT"
    assert used in found.error
    trained = headwise(
        *("train", tmp_path / "run" / "prepared", "--out", tmp_path / "other"), *TINY
    )
    assert used.replace("run", "other") in trained.error
    card = (tmp_path / "run" / "best" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"- `verses.txt`: [\d,]+ lines, weight 1", card), card
    assert re.search(r"[\d,]+ windows were learned from; ", card)
    assert " held-out windows, after" in card


def test_labels_line_by_line(headwise, classifier):
    found = headwise("predict", classifier, stdin=b"one red\n\nblue six\n")

    assert found.out == "is red\n\nis blue\n"


def test_probabilities_as_json(headwise, classifier):
    found = headwise("predict", classifier, "--json", stdin=b"one red\n\n")
    first, blank = map(json.loads, found.out.splitlines())

    assert first["output"] == "is red"
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert next(iter(first["probabilities"])) == "is red"
    assert blank == {"output": "", "log_probability": 0.0}


def test_bytes_that_are_no_text_and_odd_line_ends_lose_no_line(headwise, classifier):
    text = "one red\r\n\xa0\u2028\n😀\n".encode() + b"\xff red\n" + b"red " * 3000
    found = headwise("predict", classifier, stdin=text + b"\n")

    assert found.code == 0
    assert len(found.out.split("\n")[:-1]) == 5
    assert found.out.split("\n")[4] == "is red"


def test_predict_of_a_translation_model_translates(headwise, tiny_run):
    given = b"one two.\n\n"
    assert (
        headwise("predict", tiny_run, stdin=given).out
        == headwise("translate", tiny_run, stdin=given).out
    )


def test_translate_says_what_to_use_for_another_task(headwise, classifier):
    found = headwise("translate", classifier, stdin=b"one\n")

    assert found.code == 2
    assert "is a model of classification" in found.error
    assert "headwise predict" in found.error


def test_vectors_as_an_array_and_as_lines(headwise, classifier, tmp_path):
    file = tmp_path / "vectors.npy"
    found = headwise("embed", classifier, "--out", file, stdin=b"one red\n\nblue\n")
    rows = np.load(file, allow_pickle=False)

    assert found.code == 0
    assert rows.shape == (3, 16)
    assert not rows[1].any()
    printed = headwise("embed", classifier, stdin=b"one red\n\nblue\n").out
    lines = np.array([json.loads(each) for each in printed.splitlines()])
    assert lines == pytest.approx(rows, abs=1e-5)


def test_embed_of_a_translation_model_is_the_mean_of_its_encoder(headwise, tiny_run):
    found = headwise("embed", tiny_run, stdin=b"one two.\n")

    assert found.code == 0
    assert len(json.loads(found.out)) == 16


def test_a_language_model_has_no_vectors(headwise, verses):
    found = headwise("embed", verses, stdin=b"one\n")

    assert found.code == 2
    assert "no encoder" in found.error


def test_a_text_is_continued_after_its_prompt(headwise, verses):
    call = ("generate", verses, "--prompt", "two three", "--tokens", 12, "--seed", 3)
    found = headwise(*call)

    assert found.code == 0
    assert found.out.startswith("two three")
    assert headwise(*call).out == found.out
    greedy = headwise(*call, "--search", "search=beam").out
    assert greedy.startswith("two three four five")


def test_each_line_of_a_file_is_a_prompt(headwise, verses, tmp_path):
    (tmp_path / "prompts.txt").write_text("one two\n\nfive\n")
    found = headwise(
        *("generate", verses, tmp_path / "prompts.txt", "--tokens", 30),
        *("--search", "search=beam", "--search", "beam=3"),
    )

    assert len(found.out.splitlines()) == 3
    assert found.out.startswith("one two three")
    assert "\\n" in found.out.splitlines()[0]


def test_a_prompt_beyond_the_context_is_named(headwise, verses):
    prompt = "one two three " * 200

    found = headwise("generate", verses, "--prompt", prompt, "--tokens", 3)
    short = headwise("generate", verses, "--prompt", "one two", "--tokens", 3)

    assert found.code == 0
    assert "warning: the prompt 'one two three" in found.error
    assert "tokens are not read" in " ".join(found.error.split())
    assert found.out.startswith("one two three")
    assert "warning" not in short.error


def test_generate_is_for_language_models(headwise, classifier):
    found = headwise("generate", classifier, "--prompt", "one")

    assert found.code == 2
    assert "use headwise predict" in found.error


def test_one_continuation_of_each_prompt_is_generated(headwise, verses):
    found = headwise("generate", verses, "--search", "num_best=2")

    assert found.code == 2
    assert "num_best must be 1, not 2" in found.error


def test_labels_are_evaluated_from_one_file(headwise, classifier, tmp_path):
    (tmp_path / "test.tsv").write_text("one red\tis red\nblue\tis green\n")
    found = headwise("evaluate", classifier, tmp_path / "test.tsv", "--json")
    accuracy, _ = json.loads(found.out)

    assert accuracy["value"] == 50


def test_lines_without_a_label_do_not_count(headwise, classifier, tmp_path):
    (tmp_path / "test.tsv").write_text("one red\tis red\n\nblue\tis green\n\n")
    found = headwise("evaluate", classifier, tmp_path / "test.tsv", "--json")
    accuracy, _ = json.loads(found.out)

    assert accuracy["value"] == 50
    assert "2 lines without a text or without a reference" in found.error


def test_a_test_set_without_a_whole_example_is_refused(headwise, classifier, tmp_path):
    (tmp_path / "test.tsv").write_text("one red\t \n\n")
    found = headwise("evaluate", classifier, tmp_path / "test.tsv")

    assert found.code == 4
    assert "has no line with both a text and a reference" in found.error


def test_documents_of_json_lines_are_measured_by_their_text(headwise, verses, tmp_path):
    lines = ["one two three four", "five six one two"]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": line}) + "\n" for line in lines)
    )
    found = headwise("evaluate", verses, tmp_path / "a.jsonl", "--json")

    assert json.loads(found.out)["characters"] == len("".join(lines))


def test_a_blank_text_has_no_perplexity(headwise, verses, tmp_path):
    (tmp_path / "blank.jsonl").write_text("\n\n")
    found = headwise("evaluate", verses, tmp_path / "blank.jsonl")

    assert found.code == 4
    assert "blank.jsonl has no text" in found.error


def test_a_language_model_has_no_test_file(headwise, tmp_path):
    file = language_model(tmp_path)["source"]
    found = headwise(
        *("run", file, "--task", "language_model", "--out", tmp_path / "run"),
        *("--test-file", file),
    )

    assert found.code == 2
    assert "headwise evaluate" in found.error


def test_perplexity_of_a_text(headwise, verses, tmp_path):
    (tmp_path / "text.txt").write_text("one two three four five six\n")
    found = headwise("evaluate", verses, tmp_path / "text.txt", "--json", "--stride", 1)
    facts = json.loads(found.out)

    assert facts["characters"] == facts["bytes"] == 28
    assert facts["nats_per_token"] * facts["tokens"] == pytest.approx(facts["nats"])
    assert facts["perplexity"] < 3


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--task", "classify"], "is not a task; choose from translation"),
        (["--task", "language_model", "FILE"], "learns from text alone"),
        (["--columns", "1", "2", "FILE"], "one TSV file with both sides"),
    ],
)
def test_mistakes_are_named(headwise, tmp_path, arguments, what):
    file = str(classification(tmp_path)["source"])
    rest = [file if each == "FILE" else each for each in arguments]
    found = headwise("run", file, *rest, "--out", tmp_path / "run")

    assert found.code == 2
    assert what in found.error


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("a\tx\nb\tx\n" * 20, "to learn to tell labels apart takes two or more"),
        ("a\nb\n" * 20, "column 2 is needed"),
        ("".join(f"t{i}\tl{i}\n" for i in range(60)), "is not among those of the"),
    ],
)
def test_labels_that_cannot_be_learned_are_named(headwise, tmp_path, lines, what):
    (tmp_path / "bad.tsv").write_text(lines)
    found = headwise(
        *("prepare", tmp_path / "bad.tsv", "--task", "classification"),
        *("--out", tmp_path / "corpus"),
    )

    assert found.code == 4
    assert what in found.error
    assert not (tmp_path / "corpus").exists()


def test_words_and_tags_that_do_not_match_are_named_with_their_line(headwise, tmp_path):
    (tmp_path / "tags.tsv").write_text("a b\tX Y\n" * 30 + "a b c\tX Y\n")
    found = headwise(
        *("prepare", tmp_path / "tags.tsv", "--task", "tagging"),
        *("--out", tmp_path / "corpus"),
    )

    assert found.code == 4
    assert "line 31: there are 3 words and 2 tags" in found.error


@pytest.mark.parametrize(
    "arguments",
    [("score", "FILE", "FILE"), ("export", "--to", "ctranslate2", "--out", "x")],
    ids=lambda each: each[0],
)
def test_commands_for_translation_say_so(headwise, classifier, tmp_path, arguments):
    (tmp_path / "text").write_text("one\n")
    command, *rest = [
        str(tmp_path / "text") if each == "FILE" else each for each in arguments
    ]
    found = headwise(command, classifier, *rest)

    assert found.code == 2
    assert "is a model of classification, not of translation" in found.error


def test_the_card_of_another_task_can_be_edited_but_it_has_no_search(
    headwise, classifier, tmp_path
):
    folder = tmp_path / "model"
    shutil.copytree(classifier / "best", folder)

    assert headwise("edit", folder, "--license", "mit").code == 0
    assert headwise("predict", folder, stdin=b"red\n").out == "is red\n"
    found = headwise("edit", folder, "--search", "beam=5")
    assert found.code == 2
    assert "no decoding settings" in found.error


def test_evaluate_names_a_label_the_model_cannot_give(headwise, classifier, tmp_path):
    table = tmp_path / "test.tsv"
    table.write_text("red\tis red\nred\tis pink\n", encoding="utf-8")
    found = headwise("evaluate", classifier, table)

    assert found.code == 0
    assert "in 1 of 2 lines the model cannot be right" in found.error
    assert "line 2: the label 'is pink' is not among" in found.error
    table.write_text("is red\tred\nis red\tred\n", encoding="utf-8")  # turned
    found = headwise("evaluate", classifier, table)
    assert found.code == 4
    assert f"{table}, line 1: the label 'red'" in found.error
    assert "are these the columns" in found.error


def test_evaluate_refuses_what_training_refuses(headwise, tmp_path):
    tagger = train_example("tagging", tmp_path)
    table = tmp_path / "test.tsv"
    table.write_text("one dog runs\tNUM NOUN\n", encoding="utf-8")
    found = headwise("evaluate", tagger, table)

    assert found.code == 4
    assert f"{table}, line 1: there are 3 words and 2 tags" in found.error


def test_a_bad_number_of_the_training_text_has_a_place(headwise, tmp_path):
    table = tmp_path / "train.tsv"
    rows = [f"five {each}\t{each}\n" for each in range(30)]
    table.write_text("".join([*rows, "x\tabc\n"]), encoding="utf-8")
    found = headwise(
        *("run", table, "--task", "regression", "--out", tmp_path / "run", *TINY)
    )

    assert found.code == 4
    assert f"{table}, line 31: 'abc' is not a number" in found.error


def test_labels_that_are_no_numbers_at_all_have_a_place(headwise, tmp_path):
    file = classification(tmp_path)["source"]
    found = headwise(
        *("run", file, "--task", "regression", "--out", tmp_path / "run", *TINY)
    )

    assert found.code == 4
    assert f"{file}, line 1: 'is red' is not a number" in found.error


@pytest.mark.parametrize("verb", ["predict", "embed"])
@pytest.mark.parametrize(
    ("name", "line"),
    [("a.tsv", "two\tis red"), ("a.ndjson", '{"a": "b"}'), ("a.mrg", "(S (NN two))")],
)
def test_tables_are_no_texts(headwise, classifier, tmp_path, verb, name, line):
    """The answer would be a part of the text."""
    (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    found = headwise(verb, classifier, tmp_path / name)

    assert (found.code, found.out) == (2, "")
    assert f"{verb} reads each line as one text; give texts alone" in found.error
    assert ("cut -f1" in found.error) == (name == "a.tsv")


@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_rows_of_a_csv_are_no_texts(headwise, classifier, tmp_path, verb):
    """The command up to the model is run as it stands."""
    (tmp_path / "a.csv").write_text('"is red, ""very""",red\n', encoding="utf-8")
    found = headwise(verb, classifier, tmp_path / "a.csv")

    assert (found.code, found.out) == (2, "")
    assert "a.csv is a CSV by its name" in found.error
    command = found.error.partition("for example with ")[2].strip()
    texts, _, run = command.rpartition(" | ")
    assert run == f"headwise {verb} FOLDER"
    done = subprocess.run(texts, shell=True, check=True, cwd=tmp_path, stdout=-1)
    assert done.stdout == b'is red, "very"\n'


def test_a_picture_is_no_text(headwise, classifier, tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    found = headwise("predict", classifier, tmp_path / "a.png")

    assert (found.code, found.out) == (4, "")
    assert "read by their paths, one a line, as ls FOLDER/*.png prints" in found.error


def test_a_text_in_the_place_of_a_file_is_explained(headwise, classifier):
    found = headwise("predict", classifier, "is it red")

    assert found.code == 2
    assert "or give a text by a pipe: echo 'is it red' |" in found.error


@pytest.mark.parametrize("name", ["two words.csv", "a.csv.gz"])
def test_csv_is_refused_with_a_command_that_converts_it(headwise, tmp_path, name):
    """The command is run as it stands."""
    table = tmp_path / name
    rows = "".join(f'"one, ""{each}""",red\n' for each in range(3)).encode()
    table.write_bytes(gzip.compress(rows) if name.endswith(".gz") else rows)
    found = headwise("run", table, "--task", "classification", "--out", tmp_path / "x")

    assert found.code == 3
    command = found.error.partition("for example with ")[2].strip()
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    lines = (tmp_path / "data.tsv").read_text(encoding="utf-8").splitlines()
    assert lines == [f'one, "{each}"\tred' for each in range(3)]


def test_a_number_has_no_probability(headwise, tmp_path):
    run = train_example("regression", tmp_path)
    found = headwise("predict", run, "--json", stdin=b"five five one\n\n")
    first, blank = map(json.loads, found.out.splitlines())

    assert first.keys() == {"output", "number"}
    assert first["number"] == float(first["output"])
    assert abs(first["number"] - 200) < 100
    assert "perplexity" not in (run / "log.jsonl").read_text(encoding="utf-8")
    assert "perplexity" not in (run / "best" / "README.md").read_text(encoding="utf-8")
    assert blank == {"output": ""}


def test_the_task_of_a_recipe_says_how_files_are_read(headwise, tmp_path):
    """Not only --task does: a text file has no target there."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "language_model"\n')
    file = language_model(tmp_path)["source"]
    for arguments in (["--recipe", recipe], ["--set", "task=language_model"]):
        out = tmp_path / str(len(arguments[0]))
        found = headwise("prepare", file, *arguments, "--out", out)
        assert found.code == 0, found.error


@pytest.mark.parametrize(
    "option", [("--beam", 3), ("--backend", "native"), ("--language", "de")]
)
def test_options_of_translation_are_refused_and_not_ignored(
    headwise, classifier, tmp_path, option
):
    (tmp_path / "test.tsv").write_text("one red\tis red\n")
    found = headwise("evaluate", classifier, tmp_path / "test.tsv", *option)

    assert found.code == 2
    assert option[0] in found.error
    if option[0] == "--beam":
        assert "searches for none of a model of classification" in found.error


def test_columns_beside_a_reference_are_refused(headwise, classifier, tmp_path):
    (tmp_path / "text").write_text("red\n")
    text = tmp_path / "text"
    found = headwise("evaluate", classifier, text, text, "--columns", 2, 1)

    assert found.code == 2
    assert "--columns counts those of one TSV file" in found.error
