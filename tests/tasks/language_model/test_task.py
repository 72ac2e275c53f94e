"""Generation: prompts, streaming, texts that outgrow the context."""

from dataclasses import replace

import pytest
import torch

from headwise.decoding.settings import DecodingSettings, greedy
from headwise.errors import UsageError
from headwise.model import TransformerConfig
from headwise.tasks.language_model.settings import LanguageModelSettings
from headwise.tasks.language_model.task import LanguageModelling
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers
from headwise.text.vocabulary import END, START

CONFIG = TransformerConfig(
    encoder_layers=0, decoder_layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)
TEXT = TextSettings(tokenizer="characters", normalization="lossless")
LONG = replace(greedy(), max_length_factor=0.0, max_length_offset=40)


@pytest.fixture(scope="module")
def task():
    tokenizers = train_tokenizers(lambda: [("", "abcdefgh\n")], TEXT, seed=1)
    return LanguageModelling(tokenizers, LanguageModelSettings(), context=8)


@pytest.fixture(scope="module")
def model(task):
    """A model that never ends a text, and does not repeat one token for ever."""
    config = replace(CONFIG, output_bias=True, tie_embeddings="none")
    model = task.new_model(config, seed=4)
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
        model.output.bias[END] = -100.0
    return model


def continued(task, model, prompt, length):
    """Continue greedily by whole forward passes, the context as it is documented."""
    text = task.encode([prompt])[0]
    window = text[-(task.context - 1) :]
    generated = []
    for _ in range(length):
        if len(window) >= task.context:
            window = window[-(task.context // 2) :]
        logits = model(torch.tensor([[START, *window]]))[0, -1]
        logits[[0, START, 3]] = -torch.inf
        token = int(logits.argmax())
        generated.append(token)
        window = [*window, token]
    return tuple(generated)


@pytest.mark.parametrize("prompt", ["", "a", "abc", "abcdefgh", "abcabcabcabc"])
def test_a_text_outgrows_its_context_as_documented(task, model, prompt):
    ((best, *_),) = task.generate(model.eval(), [prompt], LONG)

    assert len(set(best.tokens)) > 2
    assert best.tokens == continued(task, model, prompt, 40)


def test_prompts_together_are_continued_as_each_alone(task, model):
    prompts = ["abc", "a", "", "abcdefgh", "hgf", "abc"]
    together = task.generate(model, prompts, LONG)
    alone = [task.generate(model, [each], LONG)[0] for each in prompts]

    assert [each[0].tokens for each in together] == [each[0].tokens for each in alone]


def test_streamed_tokens_are_those_of_the_output(task, model):
    for decoding in (LONG, replace(LONG, search="sampling", samples=1, seed=5)):
        streamed = []
        ((best, *_),) = task.generate(model, ["ab"], decoding, on_token=streamed.append)
        assert tuple(streamed) == best.tokens[:-1]  # the last one comes with the end


def test_a_beam_cannot_be_streamed(task, model):
    with pytest.raises(UsageError, match="one prompt"):
        task.generate(model, ["a"], DecodingSettings(beam=4), on_token=print)


def test_beam_search_finds_nothing_less_probable_than_greedy_search(task, model):
    short = {"max_length_factor": 0.0, "max_length_offset": 5, "alpha": 0.0}
    ((best, *_),) = task.generate(model, ["ab"], replace(greedy(), **short))
    ((wide, *_),) = task.generate(model, ["ab"], DecodingSettings(beam=200, **short))

    assert wide.log_probability >= best.log_probability - 1e-5


def test_there_is_no_vector_of_a_text(task, model):
    with pytest.raises(UsageError, match="no encoder"):
        task.vectors(model, ["abc"])
