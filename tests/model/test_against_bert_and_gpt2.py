"""One stack alone computes what Hugging Face's BERT or GPT-2 does with its weights.

Theirs do not multiply embeddings by √d_model. BERT also adds the embedding of a
segment, which is part of the positions here.
"""

import re

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
)

from headwise.model import DecoderOnly, EncoderOnly, TransformerConfig
from headwise.model.heads import MaskedTokenHead, Pooler

VOCAB, WIDTH, HEADS, LAYERS, INNER, LENGTH = 30, 16, 4, 3, 24, 12
ACTIVATIONS = pytest.mark.parametrize(
    ("ours", "theirs"), [("relu", "relu"), ("gelu", "gelu"), ("swish", "silu")]
)

BERT_NAMES = {
    r"^encoder\.layer": "encoder.blocks",
    r"attention\.self\.query": "self_attention.to_queries",
    r"attention\.self\.key": "self_attention.to_keys",
    r"attention\.self\.value": "self_attention.to_values",
    r"attention\.output\.dense": "self_attention.to_output",
    r"attention\.output\.LayerNorm": "around_attention.norm",
    r"intermediate\.dense": "feed_forward.widen",
    r"output\.dense": "feed_forward.narrow",
    r"output\.LayerNorm": "around_feed_forward.norm",
    r"embeddings\.LayerNorm": "enter_encoder.norm",
    r"embeddings\.word_embeddings\.weight": "embedding.vectors",
}
GPT2_NAMES = {
    r"^h\.": "decoder.blocks.",
    r"ln_1": "around_self.norm",
    r"ln_2": "around_feed_forward.norm",
    r"ln_f": "decoder.last_norm",
    r"attn\.c_proj": "self_attention.to_output",
    r"mlp\.c_fc": "feed_forward.widen",
    r"mlp\.c_proj": "feed_forward.narrow",
    r"wte\.weight": "embedding.vectors",
    r"wpe\.weight": "enter_decoder.add_positions.scheme.vectors",
}
THIRDS = ("to_queries", "to_keys", "to_values")


def renamed(name, names):
    for pattern, ours in names.items():
        name = re.sub(pattern, ours, name)
    return name


def trained(theirs):
    """Return ``theirs`` in float64, with no weight that is 0 or 1."""
    theirs = theirs.double().eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return theirs


def bert_weights(theirs):
    """Return the weights of their BertModel by our names."""
    state = theirs.state_dict()
    segments = state.pop("embeddings.token_type_embeddings.weight")
    positions = state.pop("embeddings.position_embeddings.weight") + segments[0]
    ours = {
        renamed(name, BERT_NAMES): weight
        for name, weight in state.items()
        if not name.startswith("pooler.")
    }
    return {**ours, "enter_encoder.add_positions.scheme.vectors": positions}


def gpt2_weights(theirs):
    """Return the weights of their GPT2Model by our names.

    Their matrices are transposed, and those of queries, keys and values are one.
    """
    ours = {}
    for name, weight in theirs.state_dict().items():
        turned = weight.T if re.search(r"(attn|mlp)\..*weight", name) else weight
        if "c_attn" in name:
            for third, part in zip(THIRDS, turned.chunk(3), strict=True):
                new = name.replace("attn.c_attn", f"self_attention.{third}")
                ours[renamed(new, GPT2_NAMES)] = part
        else:
            ours[renamed(name, GPT2_NAMES)] = turned
    return ours


def our_config(activation, **changes):
    return TransformerConfig(
        **{"encoder_layers": LAYERS, "decoder_layers": LAYERS, **changes},
        d_model=WIDTH,
        d_ff=INNER,
        num_heads=HEADS,
        positions="learned",
        max_positions=LENGTH,
        activation=activation,
        attention_bias=True,
    )


def our_bert(theirs, activation):
    config = our_config(
        activation, decoder_layers=0, embedding_norm=True, output_bias=True
    )
    model = EncoderOnly(config, VOCAB).double().eval()
    model.load_state_dict(bert_weights(theirs))
    model.embedding.scale = 1.0
    return model


def bert_config(activation):
    return BertConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=LENGTH,
        hidden_act=activation,
        layer_norm_eps=1e-5,
    )


@pytest.fixture
def texts():
    tokens = torch.randint(1, VOCAB, (3, 9))
    return tokens, torch.arange(9) < torch.tensor([[9], [6], [1]])


def assert_equal(ours, theirs):
    assert (ours - theirs).norm() <= 1e-12 * theirs.norm()


@ACTIVATIONS
@torch.no_grad()
def test_an_encoder_and_its_pooled_first_vector_equal_bert(texts, ours, theirs):
    tokens, is_real = texts
    bert = trained(BertModel(bert_config(theirs)))
    model = our_bert(bert, ours)
    pooler = Pooler(model.config, "first", tanh_layer=True).double().eval()
    pooler.dense.load_state_dict(bert.pooler.dense.state_dict())

    expected = bert(tokens, attention_mask=is_real.long())

    encoded = model.encode(tokens, is_real)
    assert_equal(encoded[is_real], expected.last_hidden_state[is_real])
    assert_equal(pooler(encoded, is_real), expected.pooler_output)


@ACTIVATIONS
@torch.no_grad()
def test_scores_of_masked_tokens_equal_bert(texts, ours, theirs):
    tokens, is_real = texts
    bert = trained(BertForMaskedLM(bert_config(theirs)))
    model = our_bert(bert.bert, ours)
    head = MaskedTokenHead(model.config, VOCAB).double().eval()
    predictions = bert.cls.predictions
    head.dense.load_state_dict(predictions.transform.dense.state_dict())
    head.norm.load_state_dict(predictions.transform.LayerNorm.state_dict())
    head.output.bias.copy_(predictions.bias)

    expected = bert(tokens, attention_mask=is_real.long()).logits

    logits = head(model.encode(tokens, is_real), model.embedding.vectors)
    assert_equal(logits[is_real], expected[is_real])


@pytest.fixture
def gpt2s():
    """Make their GPT-2 with random weights, and ours with the same."""

    def make(ours, theirs):
        gpt2 = trained(
            GPT2LMHeadModel(
                GPT2Config(
                    vocab_size=VOCAB,
                    n_embd=WIDTH,
                    n_layer=LAYERS,
                    n_head=HEADS,
                    n_inner=INNER,
                    n_positions=LENGTH,
                    activation_function=theirs,
                    bos_token_id=1,
                    eos_token_id=2,
                )
            )
        )
        config = our_config(ours, encoder_layers=0, norm="pre")
        model = DecoderOnly(config, VOCAB).double().eval()
        model.load_state_dict(gpt2_weights(gpt2.transformer))
        model.embedding.scale = 1.0
        return gpt2, model

    return make


@ACTIVATIONS
@torch.no_grad()
def test_a_decoder_equals_gpt_2(gpt2s, texts, ours, theirs):
    tokens, _ = texts
    gpt2, model = gpt2s(ours, theirs)

    assert_equal(model(tokens), gpt2(tokens).logits)


@torch.no_grad()
def test_prompts_of_different_lengths_are_continued_as_by_gpt_2(gpt2s, texts):
    prompts, is_real = texts
    gpt2, model = gpt2s("gelu", "gelu")
    state = model.start(prompts, is_real)

    logits, state = model.step(torch.tensor([1, 1, 1]), state)
    after_one, _ = model.step(torch.tensor([3, 4, 5]), state)

    for row, continued in enumerate([3, 4, 5]):
        text = torch.tensor([[1, *prompts[row][is_real[row]].tolist(), continued]])
        expected = gpt2(text).logits[0]
        assert_equal(logits[row], expected[-2])
        assert_equal(after_one[row], expected[-1])
