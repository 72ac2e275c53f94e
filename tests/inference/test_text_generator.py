"""Streamed text is that of ``generate``, and its search ends when nobody reads."""

import pickle
import threading
from types import SimpleNamespace

import pytest
from tests.tasks.examples import train_example

from headwise.errors import Cancelled, ModelError, UsageError
from headwise.inference.text_generator import TextGenerator


@pytest.fixture(scope="module")
def generator(tmp_path_factory):
    folder = train_example("language_model", tmp_path_factory.mktemp("verses"))
    return TextGenerator.open(folder)


def test_streamed_pieces_are_the_generated_text(generator):
    settings = {"temperature": 0.8, "search": "sampling", "seed": 3}
    whole = generator.generate("two three", **settings)

    pieces = [*generator.stream("two three", **settings)]

    assert "two three" + "".join(pieces) == whole
    assert len(pieces) > 1


def test_a_closed_stream_ends_its_search(generator, monkeypatch):
    raised = []
    ended = threading.Event()

    def endless(model, texts, settings, *, on_token):
        try:
            while True:
                on_token(5)
        except Cancelled as error:
            raised.append(error)
            ended.set()
            raise

    task = SimpleNamespace(generate=endless, tokenizers=generator.task.tokenizers)
    monkeypatch.setattr(generator, "task", task)
    stream = generator.stream("")
    next(stream)
    stream.close()

    assert ended.wait(10)
    assert len(raised) == 1


def test_an_error_in_the_search_is_raised_where_the_text_is_read(
    generator, monkeypatch
):
    def fails(model, texts, settings, *, on_token):
        raise ModelError("no such thing")

    task = SimpleNamespace(generate=fails, tokenizers=generator.task.tokenizers)
    monkeypatch.setattr(generator, "task", task)

    with pytest.raises(ModelError, match="no such thing"):
        next(generator.stream(""))


def test_a_device_and_a_folder_that_are_none_are_refused(generator):
    with pytest.raises(UsageError, match="device must be a name"):
        TextGenerator.open(generator.opened.path, device=5)
    with pytest.raises(UsageError, match=r"a folder .* is loaded, not None"):
        TextGenerator.open(None)
    with pytest.raises(UsageError, match="one folder is opened"):
        TextGenerator.open([generator.opened.path] * 2)


def test_a_generator_cannot_be_pickled(generator):
    with pytest.raises(UsageError, match="a TextGenerator cannot be pickled"):
        pickle.dumps(generator)


def test_a_stride_beyond_the_context_is_refused(generator):
    """Tokens would be left out, and the loss would be too small."""
    task, model = generator.task, generator.opened.model
    (tokens,) = task.encode(["one two three four five six " * 9])
    task.log_probabilities(model, tokens, stride=task.context)

    with pytest.raises(UsageError, match=f"stride must be at most {task.context}, "):
        task.log_probabilities(model, tokens, stride=task.context + 1)
