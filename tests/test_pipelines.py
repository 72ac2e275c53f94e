"""``headwise.pipeline`` has the arguments and results of transformers 4."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

import headwise
from headwise.decoding.warnings import CUT_OFF
from headwise.errors import ModelError, UsageError
from headwise.inference.translator import load
from headwise.interop.exports import export
from headwise.pipeline_arguments import ANYTHING, OPENING
from headwise.pipelines import TranslationPipeline, cleaned_up
from headwise.run_folder.card_edit import CardChanges
from headwise.run_folder.editing import edit_model

DEMO = Path(__file__).parent / "models" / "demo"
TEXTS = ["Is this school old?", "", "The letters that Alice wrote were long."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a copy of the trained model, beside which an export may be kept."""
    return shutil.copytree(DEMO, tmp_path_factory.mktemp("pipeline") / "model")


@pytest.fixture(scope="module")
def pipe(folder):
    return headwise.pipeline("translation", model=folder)


@pytest.fixture(scope="module")
def translate(folder):
    return load(folder).translate


def test_a_text_gives_a_list_of_one(pipe, translate):
    assert pipe(TEXTS[0]) == [{"translation_text": translate(TEXTS[0])}]


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_gives_one_for_each(pipe, translate, kind):
    wanted = [{"translation_text": each} for each in translate(TEXTS)]

    assert pipe(kind(TEXTS)) == wanted
    assert pipe(kind(TEXTS), batch_size=2) == wanted
    assert pipe(kind([TEXTS[0]])) == wanted[:1]
    assert pipe(kind()) == []


def test_several_translations_of_a_text_come_best_first(pipe, folder):
    several = pipe(TEXTS[0], num_beams=3, num_return_sequences=3)
    (found,) = load(folder).lines([TEXTS[0]], beam=3, num_best=3)

    assert [each["translation_text"] for each in several] == [
        each.text for each in found.candidates
    ]
    both = pipe([TEXTS[0], TEXTS[2]], num_beams=3, num_return_sequences=3)
    assert both[0] == several
    assert [len(each) for each in both] == [3, 3]


def test_texts_that_come_one_by_one_are_answered_one_by_one(pipe):
    taken = []

    def stream():
        for text in TEXTS * 50:
            taken.append(text)
            yield text

    found = pipe(stream())
    first = next(found)

    assert first == pipe(TEXTS[0])
    assert len(taken) == 1
    assert list(pipe(iter(TEXTS), batch_size=2)) == [pipe(each) for each in TEXTS]


def test_what_looks_wrong_is_warned_of_once_a_call(pipe):
    """An output that was cut off looked like any other."""
    how = {"max_new_tokens": 2}
    with pytest.warns(headwise.TranslationWarning) as one:
        pipe(TEXTS[0], **how)
    with pytest.warns(headwise.TranslationWarning) as several:
        pipe(TEXTS, **how)
    with pytest.warns(headwise.TranslationWarning) as streamed:
        list(pipe(iter(TEXTS), **how))

    assert [str(each.message) for each in one] == [CUT_OFF]
    assert str(several[0].message) == f"in 2 of 3 lines: {CUT_OFF}"
    assert str(several[1].message).startswith("in 1 of 3 lines: the translation is sh")
    assert [str(each.message) for each in streamed][:2] == [CUT_OFF, CUT_OFF]
    assert (len(several), len(streamed)) == (2, 3)
    assert {each.filename for each in (*one, *several, *streamed)} == {__file__}


def test_line_breaks_inside_a_text_stay_and_it_has_one_translation(pipe, translate):
    text = f"{TEXTS[0]}\n\n{TEXTS[2]}"

    assert pipe(text) == [{"translation_text": translate(text)}]
    (several,) = pipe([text], num_return_sequences=2)
    assert several == pipe(text)


@pytest.mark.parametrize("task", ["translation", "translation_en_to_fr"])
def test_names_of_tasks_are_those_of_transformers(folder, pipe, task):
    again = headwise.pipeline(task, folder)

    assert isinstance(again, headwise.TranslationPipeline)
    assert again.task == task
    assert again(TEXTS[0]) == pipe(TEXTS[0])


@pytest.mark.parametrize("device", [4096, "cuda:4096", "abacus"])
def test_a_device_that_is_not_there_is_refused(folder, device):
    with pytest.raises(UsageError, match=r"cannot be used here .*; 'cpu' always works"):
        headwise.pipeline("translation", folder, device=device)


def test_what_was_opened_already_is_taken_too(folder, pipe):
    again = headwise.pipeline("translation", load(folder), num_beams=1)

    assert isinstance(again, TranslationPipeline)
    assert again(TEXTS[0], num_beams=4) == pipe(TEXTS[0])


def test_arguments_of_the_pipeline_hold_for_its_calls(folder, pipe):
    short = headwise.pipeline("translation", folder, max_length=4)

    assert short(TEXTS[2]) == pipe(TEXTS[2], max_length=4) != pipe(TEXTS[2])
    assert short(TEXTS[2], max_length=100) == pipe(TEXTS[2])


@pytest.fixture(scope="module")
def theirs(folder, tmp_path_factory):
    """Return the same model in transformers, as a function like the pipeline."""
    out = tmp_path_factory.mktemp("pipeline") / "hf"
    export(out, load(folder).opened, target="huggingface")
    tokenizer = AutoTokenizer.from_pretrained(out)
    model = AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    model.generation_config.max_new_tokens = None

    def generate(text, **how):
        batch = tokenizer(text, return_tensors="pt")
        limit = {} if {"max_length", "max_new_tokens"} & {*how} else {"max_length": 60}
        with torch.inference_mode():
            ids = model.generate(**batch, **limit, **how)
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        return [{"translation_text": each} for each in texts]

    return generate


@pytest.mark.parametrize(
    "how",
    [
        {"num_beams": 1},
        {"num_beams": 5, "num_return_sequences": 5},
        {"max_length": 7},
        {"max_length": 2, "num_beams": 1},
        {"max_new_tokens": 7},
        {"max_new_tokens": 9, "max_length": 3},
        {"early_stopping": "never", "length_penalty": 0.3},
        {"early_stopping": True, "length_penalty": 2.0, "num_return_sequences": 4},
        {"do_sample": False, "min_length": 0},
    ],
    ids=str,
)
def test_arguments_mean_what_they_mean_in_transformers(pipe, theirs, how):
    for text in (TEXTS[0], TEXTS[2]):
        assert pipe(text, **how) == theirs(text, **how)


@given(st.lists(st.sampled_from([*" .?!,'nx", "n't", "'re", "'ve"])).map("".join))
def test_spaces_are_cleaned_up_as_in_transformers(text):
    theirs = PreTrainedTokenizerBase.clean_up_tokenization(None, text)

    assert cleaned_up(text) == theirs


def test_spaces_are_cleaned_up_where_that_is_asked_for(pipe):
    (plain,), (clean,) = (
        pipe(TEXTS[0], clean_up_tokenization_spaces=each) for each in (False, True)
    )

    assert plain["translation_text"].endswith(" ?")
    assert clean["translation_text"] == cleaned_up(plain["translation_text"])
    assert clean != plain


@pytest.mark.parametrize(
    "how",
    [
        {"return_text": True, "return_tensors": False, "truncation": False},
        {"src_lang": "en", "tgt_lang": "fr"},
        {"num_beams": None, "temperature": None, "top_k": 50, "num_workers": 0},
    ],
    ids=str,
)
def test_what_asks_for_nothing_else_changes_nothing(pipe, how):
    assert pipe(TEXTS, **how) == pipe(TEXTS)


@pytest.mark.parametrize(
    "how",
    [
        {"framework": "pt", "revision": "main", "trust_remote_code": False},
        {"torch_dtype": torch.float32, "device": -1, "use_fast": True},
        {"dtype": "auto", "device": "cpu", "token": None},
    ],
    ids=str,
)
def test_a_pipeline_is_opened_with_the_arguments_it_had(folder, pipe, how):
    names = {"tokenizer": folder, "config": None}
    again = headwise.pipeline("translation", model=folder, **names, **how)

    assert again(TEXTS[0]) == pipe(TEXTS[0])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"num_beam": 3}, r"num_beam=3 is not an argument.*did you mean num_beams\?"),
        ({"penalty_alpha": 0.6}, "penalty_alpha=0.6 is not an argument.*num_beams, "),
        ({"colour": None}, "colour=None is not an argument"),
        ({"precison": "int8"}, r"did you mean precision\?"),
        ({"temperature": np.array([1.0, 2.0])}, "temperature=.*only 1.0"),
        ({"do_sample": True}, "do_sample=True is not supported.*only False"),
        ({"repetition_penalty": 1.2}, "repetition_penalty=1.2 is not supported"),
        ({"truncation": True}, "lines are never truncated"),
        ({"return_tensors": True}, "for token ids use"),
        (
            {"early_stopping": False},
            "True stops at num_beams finished hypotheses, 'never'",
        ),
        ({"num_beams": 0}, "num_beams must be a whole number, 1 or more, not 0"),
        ({"num_beams": True}, "num_beams must be a whole number"),
        ({"num_beams": 2.0}, "num_beams must be a whole number"),
        ({"max_length": 1}, "max_length must be a whole number, 2 or more"),
        ({"max_new_tokens": 10**6}, "max_length_offset must be at most 10,000"),
        ({"length_penalty": -1.0}, "length_penalty must be a number, 0 or more"),
        ({"length_penalty": "gnmt"}, "length_penalty must be a number, 0 or more"),
        ({"num_return_sequences": 9}, "set num_beams=9"),
        ({"batch_size": 0}, "batch_size must be a whole number, 1 or more"),
        ({"clean_up_tokenization_spaces": "yes"}, "must be True or False"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said_with_what_can(folder, pipe, how, said):
    with pytest.raises(UsageError, match=f"(?s){said}"):
        pipe(TEXTS[0], **how)
    with pytest.raises(UsageError, match=f"(?s){said}"):
        headwise.pipeline("translation", pipe.translator, **how)


@pytest.mark.parametrize(
    ("arguments", "how", "said"),
    [
        (["summarization", "m"], {}, "not a task.*'translation_en_to_de'"),
        (["translation_en"], {}, "'translation_en' is not a task"),
        (["translation"], {}, "no default model"),
        (["translation", "m"], {"framework": "tf"}, "uses PyTorch"),
        (["translation", "m"], {"tokenizer": "t5"}, "a model folder has its own"),
        (["translation", "m"], {"torch_dtype": torch.float16}, "precision='float16'"),
        (["translation", "m"], {"trust_remote_code": True}, "only False"),
    ],
)
def test_a_pipeline_that_cannot_be_opened_is_said(arguments, how, said):
    with pytest.raises(UsageError, match=f"(?s){said}"):
        headwise.pipeline(*arguments, **how)


@pytest.mark.parametrize(
    "how",
    [{"engine": "torch"}, {"precision": "int8"}, {"device": 0}, {"threads": 1}],
)
def test_an_open_translator_is_not_opened_in_another_way(pipe, how):
    """It was used as it is, in float32 on the CPU."""
    with pytest.raises(UsageError, match=r"the model is open already.*headwise\.load"):
        headwise.pipeline("translation", pipe.translator, **how)
    assert headwise.pipeline("translation", pipe.translator, device=-1)


def test_a_task_of_other_languages_is_refused(folder, tmp_path):
    """It translated into those of the model all the same."""
    model = shutil.copytree(folder, tmp_path / "model")
    edit_model(model, search={}, card=CardChanges(languages=("en", "de")))

    assert headwise.pipeline("translation_en_to_de", model)(TEXTS[0])
    with pytest.raises(
        UsageError, match=r"translates en to de.*not 'translation_en_to"
    ):
        headwise.pipeline("translation_en_to_fr", model)


def test_a_name_that_is_no_folder_is_a_model_error():
    with pytest.raises(ModelError, match="is not a folder"):
        headwise.pipeline("translation", model="Helsinki-NLP/opus-mt-en-de")


@pytest.mark.parametrize(
    "texts", [3, None, b"one", {"text": "one"}, ["one", 3], [[""]]]
)
def test_what_is_no_text_is_refused(pipe, texts):
    with pytest.raises(UsageError, match="a text"):
        pipe(texts)


def test_texts_one_after_another_are_refused(pipe):
    with pytest.raises(UsageError, match="give a list"):
        pipe("one", "two")


@pytest.mark.parametrize("name", OPENING)
def test_every_argument_of_opening_has_a_value_that_asks_for_nothing(pipe, name):
    for value in OPENING[name]:
        equal = dict(value) if isinstance(value, dict) else value
        how = {name: None if value is ANYTHING else equal}
        assert headwise.pipeline("translation", pipe.translator, **how)


def test_it_is_reached_without_importing_torch_first():
    code = (
        "import headwise, sys; assert 'torch' not in sys.modules; "
        "headwise.pipeline; assert callable(headwise.pipeline)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
