"""What a command line gets wrong is said at once, with one code for one kind of fault.

2: the command line itself is wrong, or names what is not there. 3: a setting's name or
value is refused. 4: text that cannot be used. 5: a folder without a model.
"""

import json
import os
import resource
import shlex
import subprocess
import sys

import pytest
from tests.processes import environment
from tests.tiny import write_text

NOT_THERE = [
    "translate nowhere",
    "translate {model} nowhere",
    "translate {model} --prefix-file nowhere",
    "translate {model} --ensemble nowhere",
    "score nowhere {en} {de}",
    "score {model} nowhere {de}",
    "score {model} {en} nowhere",
    "evaluate nowhere {en} {de}",
    "evaluate {model} nowhere {de}",
    "evaluate {model} {en} nowhere",
    "export nowhere --to ctranslate2 --out new",
    "export {model} --to ctranslate2 --out new --compare nowhere",
    "edit nowhere --title new",
    "edit {model} --notes nowhere",
    "doctor nowhere",
    "runs nowhere",
    "runs diff nowhere {run}",
    "train nowhere --out new",
    "train {corpus} --out new --recipe nowhere",
    "prepare nowhere {de} --out new",
    "prepare {en} nowhere --out new",
    "prepare {en} {de} --dev nowhere {de} --out new",
    "prepare --recipe nowhere --out new",
    "run nowhere {de} --out new",
    "run {en} nowhere --out new",
    "run {en} {de} --dev {en} nowhere --out new",
    "run {en} {de} --test nowhere {de} --out new",
    "run --recipe nowhere --out new",
    "recipe --recipe nowhere",
]
"""What is named and not there is 2, whatever it should have been."""

OF_ANOTHER_KIND = [
    "translate {en}",
    "translate {model} {empty}",
    "translate {model} --alignments {empty}",
    "score {model} {empty} {de}",
    "evaluate {model} {en} {empty}",
    "evaluate {model} {en} {de} --out {empty}",
    "export {en} --to ctranslate2 --out new",
    "doctor {en}",
    "runs {en}",
    "train {en} --out new",
    "run {empty} {de} --out new",
    "prepare {en} {empty} --out new",
    "recipe --recipe {empty}",
]
"""A file where a folder is wanted, or a folder for a file."""

NO_ASSIGNMENT = [
    "translate {model} --search beam",
    "score {model} {en} {de} --search beam",
    "evaluate {model} {en} {de} --search =3",
    "edit {model} --search beam",
    "recipe --set steps",
    "prepare {en} {de} --out new --set =3",
    "run {en} {de} --out new --set training..steps=3",
    "train {corpus} --out new --set training",
]

NO_CHOICE = {
    "translate {model} --precision int4": "known: float32, bf16, float16, int8",
    "evaluate {model} {en} {de} --precision int4": "float32, bf16, float16, int8",
    "translate {model} --engine torch --precision int8": "--engine auto or ctranslate2",
    "translate {model} --engine ctranslate2 --precision bf16": "auto or torch has it",
    "translate {model} --backend warp": "known: auto, native, torch, reference",
    "translate {model} --engine ctranslate2 --backend torch": "does without torch",
    "translate {model} --engine torch-eager --backend native": "give one of them",
    "evaluate {model} {en} {de} --backend reference --precision bf16": "float32, not",
    "translate {model} --engine warp": "known: auto, ctranslate2, torch",
    "evaluate {model} {en} {de} --engine warp": "known: auto",
    "evaluate {model} {en} {de} --metric blew": "choose from bleu",
    "evaluate {model} {en} {de} --metric multi30k-bleu": "needs --language",
    "export {model} --to onyx --out new": "choose from ctranslate2, huggingface",
    "export {model} --to ctranslate2 --quantization int2 --out new": "float16, int8",
    "export {model} --to huggingface --quantization int8 --out new": "in float32",
    "score {model} {en} {de} --keep-best 1 --min-score 0": "exclude each other",
    "score {model} - -": "standard input cannot be both SOURCE and TARGET",
    "score {model} /dev/stdin -": "standard input cannot be both SOURCE and TARGET",
    "score {model} {en} {de} --prefix-file -": "No such option: --prefix-file",
    "score {model} {en} {de} --min-score nan": "must be a number, such as -0.5",
    "doctor --loader {model}": "give no FOLDER",
    "demo --out new --max-time soon": "30m, not 'soon'",
    "run {en} {de} --out new --max-time soon": "30m, not 'soon'",
    "train {corpus} --out new --max-time 5": "30m, not '5'",
    "train {corpus} --out new --batch-tokens few": "or auto, not 'few'",
    "train {corpus} --out new --json": "only with --dry-run",
    "run {en} {de} --out new --batch-tokens 0": "or auto, not '0'",
    "run --out new": "no training text",
    "evaluate {model} {en} {de} --out {de}": "would overwrite the input",
    "evaluate {model} {en} {de} --out {model}/config.json": "would overwrite the input",
    "translate {model} {en} --alignments {en}": "would overwrite the input",
    "runs diff {run} {run} --html {run}/report.html": "would overwrite the input",
    "evaluate {model} {en} {de} --out /dev/null": "is a device or a pipe",
    "translate {model} {en} --alignments /dev/full": "is a device or a pipe",
    "translate {model} {en} --alignments away/links": "away is not a folder",
    "evaluate {model} {en} {de} --out away/out.de": "away is not a folder",
    "evaluate {model} {en} {de} --out {en}/out.de": "train.en is not a folder",
    "runs diff {run} {run} --html away/page.html": "away is not a folder",
    "translate {model} --ensemble {model} --engine ctranslate2": "torch and float32",
    "translate {model} --ensemble {model} --precision int8": "torch and float32",
    "translate {model} {en} --prefix-file /dev/null": "/dev/null is empty",
    "translate {model} --prefix-file -": "both the text and --prefix-file",
    "translate {model} --prefix-file /dev/stdin": "both the text and --prefix-file",
    "translate {model} /dev/stdin --prefix-file -": "both the text and --prefix-file",
    "translate {model} - {en} -": "standard input is named twice and can be read once",
    "prepare {en} {de} --out new --languages en": "such as --languages en de",
    "prepare --languages en {en} --out new": "train.en is a file",
    "run {en} {de} --out new --test {en}": "such as --test test.en test.de",
    "run {en} {de} --dev {en} --out new": "--dev-file takes one file",
    "evaluate {model} {en}": "give REFERENCE too, or one file with both sides whose",
    "prepare {en} --out new": "give TARGET too, or one file with both sides whose",
    "run {en} {de} --dev-file {en} --out new": "two files (--dev SOURCE TARGET)",
    "run {en} {de} --test-file {en} --out new": "two files (--test SOURCE REFERENCE)",
    "evaluate {model} {tsv} --columns 2 2": "alone: source_column and target_column",
    "run {en} {de} --columns 2 1 --out new": "--columns counts those of one TSV",
    "prepare {jsonl} --columns 2 1 --out new": "--fields is for JSON Lines",
    "evaluate {model} {en} {de} --columns 2 1": "and no argument is one: leave it out",
    "run {en} {de} --fields a b --out new": "--fields names keys of one JSON Lines",
    "prepare {tsv} --fields a b --out new": "--columns is for TSV",
    "evaluate {model} {tsv} --fields a b": "--columns is for TSV",
    "prepare {jsonl} --fields a a --out new": "two different keys, SOURCE TARGET",
    "prepare --fields a {jsonl} --out new": "such as --fields text label, but",
    "run {jsonl} --languages text label --out new": "--fields SOURCE TARGET names",
    "run {jsonl} --task language_model --fields a b --out new": "from text alone, the",
    "evaluate {model} {tsv} {de}": "pairs.tsv is a table or a treebank",
    "score {model} {en} {tsv}": "take its sides apart, such as by cut -f1",
    "prepare {tsv} {de} --out new": "give it alone, or give two files",
    "run {en} {tsv} --out new": "give it alone, or give two files",
    "run {en} {de} --dev {tsv} {de} --out new": "name it by --dev-file",
    "run {en} {de} --test {en} {tsv} --out new": "name it by --test-file",
    "inspect {model} --rank-heads {tsv} {de}": "pairs.tsv is a table or a treebank",
    "generate {model} {tsv}": "table or a treebank, but generate reads each line",
    "chat {model} {tsv}": "table or a treebank, but chat reads each line",
    "export {model} --to huggingface --out new --compare {tsv}": "reads each line",
    "translate {model} {csv}": "cut -f1 data.tsv | headwise translate FOLDER",
    "evaluate {model} {csv}": "make a TSV of it, for example with",
    "evaluate {model} {csv} {de}": "pairs.csv is a CSV by its name",
    "score {model} {csv} {de}": "such as by cut -f1, after making a TSV of it",
    "prepare {csv} {de} --out new": "give it alone, after making a TSV of it: cat ",
    "run {en} {csv} --out new": "give it alone, after making a TSV of it: cat ",
    "run {en} {de} --languages --out new": "such as --languages en de",
    **{
        f"{command} ''": "it is empty; name a folder, or . for the current one"
        for command in (
            *("translate", "evaluate", "score", "export", "edit", "doctor", "train"),
            *("runs", "runs diff", "translate {model} --ensemble", "run --out"),
            *("prepare --out", "demo --out", "export {model} --out"),
        )
    },
    **{
        f"{command} --device abacus": "--device abacus is not a device"
        for command in (
            "translate {model}",
            "score {model} {en} {de}",
            "evaluate {model} {en} {de}",
            "train {corpus} --out new",
            "run {en} {de} --out new",
        )
    },
}
"""A value that an option does not have, and a part of what is said of it."""

SOMEBODY_ELSES = [
    "run {en} {de} --out {thesis}",
    "train {corpus} --out {thesis}",
    "prepare {en} {de} --out {thesis}",
    "demo --out {thesis}",
    "export {model} --to ctranslate2 --out {thesis}",
]
"""A folder that holds what we did not write."""

NO_SETTING = [
    "translate {model} --search beem=3",
    "translate {model} --beam 2 --n-best 3",
    "translate {model} --search alignment_head=99:99",
    "score {model} {en} {de} --search alignment_head=1:0",
    "edit {model} --search alignment_head=0:2",
    "recipe --preset tiny --set decoding.alignment_head=4:0",
    "score {model} {en} {de} --search alpha=high",
    "evaluate {model} {en} {de} --search beem=3",
    "edit {model} --search beem=3",
    "recipe --set training.stepz=3",
    "recipe --preset huge",
    "prepare {en} {de} --out new --set text.vocab_size=many",
    "run {en} {de} --out new --set training.stepz=3",
    "run {csv} --out new",
    "train {corpus} --out new --set training.stepz=3",
    "train {corpus} --out new --set data.max_tokens=9",
]

NO_TEXT = [
    "evaluate {model} {en} {short}",
    "prepare {en} {short} --out new",
    "run {en} {short} --out new",
    "run {en} {de} --test {en} {short} --out new",
    "train {empty} --out new",
]

NO_MODEL = [
    "translate {empty}",
    "edit {empty} --title new",
    "translate {corpus}",
    "score {empty} {en} {de}",
    "evaluate {empty} {en} {de}",
    "export {empty} --to ctranslate2 --out new",
]

CODES = {
    **dict.fromkeys([*NOT_THERE, *OF_ANOTHER_KIND, *NO_ASSIGNMENT, *NO_CHOICE], 2),
    **dict.fromkeys(SOMEBODY_ELSES, 2),
    **dict.fromkeys(NO_SETTING, 3),
    **dict.fromkeys(NO_TEXT, 4),
    **dict.fromkeys(NO_MODEL, 5),
}
"""Every mistake, and the code it ends with."""

PROBE = """
import contextlib, io, json, sys
from headwise.__main__ import main
ends = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["headwise", *arguments]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = ending.code
    ends.append([code, said.getvalue(), "torch" in sys.modules])
print("\\n" + json.dumps(ends))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return the folder in which the mistakes are made."""
    return tmp_path_factory.mktemp("mistakes")


def ends_of(calls, **how):
    """Make each of these calls in one new process; return how each one ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(calls)],
        **{"stdin": subprocess.DEVNULL, **how},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ends(place, tiny_run):
    """Make every mistake, one after the other in one process that is new."""
    en, de = write_text(place / "text", num_pairs=30)
    (place / "short").write_text("eins.\n")
    (place / "pairs.tsv").write_text("one.\teins.\n")
    (place / "pairs.csv").write_text('"one.","eins."\n')
    (place / "pairs.jsonl").write_text('{"a": "one.", "b": "eins."}\n')
    (place / "empty").mkdir()
    (place / "thesis" / "best").mkdir(parents=True)
    (place / "thesis" / "best" / "chapter.tex").write_text("all of it")
    names = {
        "model": tiny_run / "best",
        "run": tiny_run,
        "corpus": tiny_run / "prepared",
        "en": en,
        "de": de,
        "tsv": place / "pairs.tsv",
        "csv": place / "pairs.csv",
        "jsonl": place / "pairs.jsonl",
        **{name: place / name for name in ("short", "empty", "thesis")},
    }
    names = {name: shlex.quote(str(path)) for name, path in names.items()}
    calls = [shlex.split(each.format(**names)) for each in CODES]
    return dict(zip(CODES, ends_of(calls, cwd=place), strict=True))


@pytest.mark.parametrize("mistake", CODES)
def test_each_mistake_has_its_message_and_exit_code(ends, mistake):
    code, said, _ = ends[mistake]

    assert code == CODES[mistake], said
    assert said.splitlines()[-1].strip()
    assert "Traceback" not in said
    assert "bug in headwise" not in said


def test_mistakes_are_reported_before_torch_is_imported(ends):
    """It takes seconds to import; the first of these that did it is named."""
    assert [mistake for mistake, (_, _, torch) in ends.items() if torch][:1] == []


@pytest.mark.parametrize("mistake", NOT_THERE)
def test_a_missing_path_is_named(ends, mistake):
    said = ends[mistake][1]
    assert "nowhere does not exist" in said or "nowhere is not" in said


@pytest.mark.parametrize("mistake", NO_ASSIGNMENT)
def test_what_is_no_assignment_is_told_the_form_of_one(ends, mistake):
    said = ends[mistake][1]
    option = "--search" if "--search" in mistake else "--set"
    assert f"{option} takes NAME=VALUE, such as " in said


@pytest.mark.parametrize("mistake", NO_CHOICE)
def test_what_is_no_choice_is_told_what_is(ends, mistake):
    assert NO_CHOICE[mistake] in ends[mistake][1]


def test_nothing_was_written(ends, place):
    """A foreign best/ was renamed damaged-best, when it was a run's turn to save."""
    there = sorted(str(each.relative_to(place)) for each in place.rglob("*"))

    assert there == [
        *("empty", "pairs.csv", "pairs.jsonl", "pairs.tsv", "short"),
        *("text", "text/train.de", "text/train.en"),
        *("thesis", "thesis/best", "thesis/best/chapter.tex"),
    ]


def test_an_environment_that_says_nothing_is_said_at_once(tiny_run, tiny_text):
    """HEADWISE_NATIVE=maybe was found to be wrong only with the model."""
    text = [str(each) for each in tiny_text]
    calls = [
        ["translate", str(tiny_run), text[0]],
        ["score", str(tiny_run), *text],
        ["evaluate", str(tiny_run), *text],
        ["train", str(tiny_run / "prepared"), "--out", "new"],
        ["run", *text, "--out", "new"],
        ["demo", "--out", "new"],
    ]
    ends = ends_of(calls, env=environment(HEADWISE_NATIVE="maybe"))

    assert [(code, torch) for code, _, torch in ends] == [(2, False)] * len(calls)
    assert all(
        "(amx, v4-bf16, v4, v3, neon), not 'maybe'" in said for _, said, _ in ends
    )


def test_closed_standard_input_is_said_at_once(tiny_run, tiny_text):
    """It has the code of text that cannot be read, as the documents say."""
    calls = [
        ["translate", str(tiny_run)],
        ["translate", str(tiny_run), str(tiny_text[0]), "-"],
        ["score", str(tiny_run), "-", str(tiny_text[1])],
    ]
    ends = ends_of(calls, stdin=None, preexec_fn=lambda: os.close(0))

    assert [(code, torch) for code, _, torch in ends] == [(4, False)] * len(calls)
    assert all(
        "standard input cannot be read: it is closed" in each[1] for each in ends
    )


def test_an_empty_file_of_prefixes_waits_for_the_first_line_of_a_pipe(tiny_run):
    """Of no lines there are no prefixes, and that is no mistake."""
    calls = [["translate", str(tiny_run), "--prefix-file", "/dev/null"]]
    ((code, said, torch),) = ends_of(calls, stdin=None, input="one two.\n")

    assert (code, torch) == (2, False)
    assert "--prefix-file /dev/null is empty, but needs one line for each" in said
    ((code, said, _),) = ends_of(calls, stdin=None, input="")
    assert (code, said) == (0, "")


def test_a_disk_that_takes_no_file_is_said_before_hours_of_work(tiny_run, tiny_text):
    """Full, read-only, or as here a limit: it was found when all was translated."""
    limit = (resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    text = [str(each) for each in tiny_text]
    ((code, said, torch),) = ends_of(
        [["evaluate", str(tiny_run), *text, "--out", str(tiny_text[0]) + ".out"]],
        preexec_fn=lambda: resource.setrlimit(*limit),
    )

    assert (code, torch) == (6, False)
    assert "train.en.out cannot be written: File too large" in said
    assert sorted(each.name for each in tiny_text[0].parent.iterdir()) == [
        *("train.de", "train.en")
    ]
