"""Architectures by name: small ones, and every row of the paper's Table 3."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwise.model.config import TransformerConfig


@dataclass(frozen=True)
class Preset:
    """An architecture, and what the paper says of it where it stands in Table 3."""

    config: TransformerConfig
    about: str
    label_smoothing: float = 0.1
    """Share of the target given to the whole vocabulary while training (ε_ls)."""

    published_millions: int | None = None
    """Parameters as printed in Table 3, in millions, where the row prints them."""


BASE = TransformerConfig()
TINY = TransformerConfig(
    encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, num_heads=4, dropout=0.3
)
TINY_LOW_DROPOUT = replace(TINY, dropout=0.1)
MICRO = replace(TINY, encoder_layers=2, decoder_layers=2)
CLASSIFIER = replace(MICRO, dropout=0.4)
TAGGER = replace(TINY, dropout=0.4, positions="rotary")
LANGUAGE_MODEL = TransformerConfig(
    decoder_layers=4,
    d_model=192,
    d_ff=768,
    num_heads=6,
    dropout=0.2,
    norm="pre",
    activation="gelu",
    positions="rotary",
)
MASKED_LANGUAGE_MODEL = replace(LANGUAGE_MODEL, encoder_layers=4, dropout=0.1)
PARSER = TransformerConfig(
    encoder_layers=3,
    decoder_layers=3,
    d_model=256,
    d_ff=1024,
    num_heads=4,
    dropout=0.1,
    norm="pre",
    positions="rotary",
)
TRANSDUCER = replace(
    TINY,
    encoder_layers=3,
    decoder_layers=3,
    positions="rotary",
    tie_embeddings="output",
)
SMALL = TransformerConfig(
    encoder_layers=6, decoder_layers=6, d_model=256, d_ff=1024, num_heads=4, dropout=0.2
)
STUDENT = TransformerConfig(
    encoder_layers=6, decoder_layers=1, d_model=256, d_ff=1024, num_heads=4, dropout=0.1
)
BIG = TransformerConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)


def _heads(num_heads: int, width: int) -> TransformerConfig:
    return replace(BASE, num_heads=num_heads, d_k=width, d_v=width)


def _depth(layers: int) -> TransformerConfig:
    return replace(BASE, encoder_layers=layers, decoder_layers=layers)


PRESETS: dict[str, Preset] = {
    "micro": Preset(MICRO, "for hundreds of pairs"),
    "classifier": Preset(CLASSIFIER, "for texts with one label or number each"),
    "tagger": Preset(TAGGER, "for words with a tag each"),
    "language-model": Preset(LANGUAGE_MODEL, "for a book or a shelf of them"),
    "masked-language-model": Preset(
        MASKED_LANGUAGE_MODEL, "for text from which an encoder learns"
    ),
    "parser": Preset(PARSER, "for sentences with a tree each"),
    "g2p": Preset(TRANSDUCER, "for words with their phones"),
    "transducer": Preset(TRANSDUCER, "for words with other words: forms, spellings"),
    "tiny": Preset(TINY, "for thousands of pairs and more, on a laptop"),
    "tiny-low-dropout": Preset(
        TINY_LOW_DROPOUT, "for translation of 50,000 pairs and more, by Muon"
    ),
    "small": Preset(SMALL, "for hundreds of thousands of pairs"),
    "student": Preset(STUDENT, "for speed, taught by a larger model (docs/student.md)"),
    "base": Preset(BASE, "Table 3, base", published_millions=65),
    "big": Preset(BIG, "Table 3, big", published_millions=213),
    "table3-A1": Preset(_heads(1, 512), "Table 3 (A), one head"),
    "table3-A2": Preset(_heads(4, 128), "Table 3 (A), 4 heads"),
    "table3-A3": Preset(_heads(16, 32), "Table 3 (A), 16 heads"),
    "table3-A4": Preset(_heads(32, 16), "Table 3 (A), 32 heads"),
    "table3-B1": Preset(
        replace(BASE, d_k=16), "Table 3 (B), d_k 16", published_millions=58
    ),
    "table3-B2": Preset(
        replace(BASE, d_k=32), "Table 3 (B), d_k 32", published_millions=60
    ),
    "table3-C1": Preset(_depth(2), "Table 3 (C), 2 layers", published_millions=36),
    "table3-C2": Preset(_depth(4), "Table 3 (C), 4 layers", published_millions=50),
    "table3-C3": Preset(_depth(8), "Table 3 (C), 8 layers", published_millions=80),
    "table3-C4": Preset(
        replace(BASE, d_model=256, d_k=32, d_v=32),
        "Table 3 (C), d_model 256",
        published_millions=28,
    ),
    "table3-C5": Preset(
        replace(BASE, d_model=1024, d_k=128, d_v=128),
        "Table 3 (C), d_model 1024",
        published_millions=168,
    ),
    "table3-C6": Preset(
        replace(BASE, d_ff=1024), "Table 3 (C), d_ff 1024", published_millions=53
    ),
    "table3-C7": Preset(
        replace(BASE, d_ff=4096), "Table 3 (C), d_ff 4096", published_millions=90
    ),
    "table3-D1": Preset(replace(BASE, dropout=0.0), "Table 3 (D), no dropout"),
    "table3-D2": Preset(replace(BASE, dropout=0.2), "Table 3 (D), dropout 0.2"),
    "table3-D3": Preset(BASE, "Table 3 (D), no label smoothing", label_smoothing=0.0),
    "table3-D4": Preset(BASE, "Table 3 (D), label smoothing 0.2", label_smoothing=0.2),
    "table3-E": Preset(
        replace(BASE, positions="learned"), "Table 3 (E), learned positions"
    ),
}
