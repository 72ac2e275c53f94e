"""Which architectures and tokenizers each export format cannot express, and why.

Only settings are needed: no torch, no model, and not the other tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headwise.errors import SettingsError, UsageError
from headwise.model.config import TransformerConfig
from headwise.model.variants.names import variants_of
from headwise.text.settings import SENTENCEPIECE, TextSettings

CTRANSLATE2 = "ctranslate2"
HUGGINGFACE = "huggingface"

QUANTIZATIONS = ("float32", "float16", "int8")
"""Number formats of exported weights; only float32 gives the same translations."""

Limits = Callable[[TransformerConfig, TextSettings], Iterator[str]]


def limits_of_ctranslate2(
    model: TransformerConfig, text: TextSettings
) -> Iterator[str]:
    """Yield each reason against an export to CTranslate2."""
    if model.kind != "transformer":
        yield _other_kind(model, "CTranslate2")
        return
    if model.positions == "rotary":
        yield (
            "model.positions = 'rotary': CTranslate2 has no rotary positions in such a "
            "model; 'sinusoidal', 'sinusoidal_halves', 'learned' and 'none' can be "
            "exported"
        )
    yield from _variants(model, "CTranslate2")
    yield from _widths(model, "CTranslate2")
    yield from _concatenation(model, "CTranslate2")


def limits_of_huggingface(
    model: TransformerConfig, text: TextSettings
) -> Iterator[str]:
    """Yield each reason against an export to ``MarianMTModel`` of transformers."""
    tool = "MarianMTModel of transformers"
    if model.kind != "transformer":
        yield _other_kind(model, tool)
        return
    has_variant_positions = any("positions" in each for each in variants_of(model))
    if model.norm == "pre":
        yield (
            f"model.norm = {model.norm!r}: {tool} has post-norm layers only; "
            "norm = 'post' and 'deep' can be exported"
        )
    if model.embedding_norm:
        yield (
            f"model.embedding_norm = true: {tool} does not normalise embeddings; "
            "false can be exported"
        )
    yield from _variants(model, tool)
    if not model.positions.startswith("sinusoidal") and not has_variant_positions:
        yield (
            f"model.positions = {model.positions!r}: {tool} has sinusoidal "
            "positions only; 'sinusoidal' and 'sinusoidal_halves' can be exported"
        )
    yield from _widths(model, tool)
    yield from _concatenation(model, tool)
    kinds = sorted({text.source_kind, text.target_kind} - set(SENTENCEPIECE))
    if kinds:
        yield (
            f"text.tokenizer = {kinds[0]!r}: its MarianTokenizer reads SentencePiece "
            f"models only; {' and '.join(SENTENCEPIECE)} can be exported"
        )
    codes = [each for each in text.symbols if _is_language_code(each)]
    if codes:
        yield (
            f"text.symbols contains {codes[0]!r}: its MarianTokenizer removes such a "
            "language code before SentencePiece, which gives other pieces; "
            "a symbol of another form, such as '<fr>', can be exported"
        )


LIMITS: dict[str, Limits] = {
    CTRANSLATE2: limits_of_ctranslate2,
    HUGGINGFACE: limits_of_huggingface,
}
"""Limits of each export format."""


def reasons_against(
    targets: Sequence[str], model: TransformerConfig, text: TextSettings
) -> list[str]:
    """Return the reasons against exports to ``targets``."""
    reasons = []
    for target in dict.fromkeys(targets):
        if target in LIMITS:
            found = LIMITS[target](model, text)
            reasons += [f"cannot be exported to {target}: {each}" for each in found]
        else:
            reasons.append(f"{target!r} is not an export format; {known_targets()}")
    return reasons


def check_export(target: str, quantization: str) -> None:
    """Raise ``UsageError`` for an unknown format or quantization."""
    if target not in LIMITS:
        raise UsageError(f"{target!r} is not an export format; {known_targets()}")
    if quantization not in QUANTIZATIONS:
        raise UsageError(
            f"--quantization {quantization} is unknown; choose from "
            f"{', '.join(QUANTIZATIONS)}"
        )
    if target == HUGGINGFACE and quantization != "float32":
        raise UsageError(
            f"exports to huggingface are in float32, not {quantization}; to run them "
            "in another precision, load them with from_pretrained(..., dtype=...)"
        )


def known_targets() -> str:
    """Return the list of formats for a message."""
    return f"choose from {', '.join(LIMITS)}"


def check_expressible(
    target: str, model: TransformerConfig, text: TextSettings
) -> None:
    """Raise ``SettingsError`` with all reasons against this export."""
    reasons = reasons_against([target], model, text)
    if reasons:
        raise SettingsError(reasons)


def _other_kind(model: TransformerConfig, tool: str) -> str:
    return f"model.kind = {model.kind!r}: {tool} is for kind = 'transformer' only"


def _variants(model: TransformerConfig, tool: str) -> Iterator[str]:
    defaults = TransformerConfig()
    for each in variants_of(model):
        name = each.removeprefix("model.").split(" = ")[0]
        default = getattr(defaults, name)
        other = "a model without it" if default is None else repr(default)
        yield f"{each}: there is no export of it to {tool}; {other} can be exported"


def _widths(model: TransformerConfig, tool: str) -> Iterator[str]:
    for name, width in (("d_k", model.key_width), ("d_v", model.value_width)):
        if width * model.num_heads != model.d_model:
            yield (
                f"model.{name} = {width}: {tool} gives each of the {model.num_heads} "
                f"heads its share of d_model={model.d_model}; "
                + (
                    f"{model.d_model // model.num_heads} can be exported"
                    if model.d_model % model.num_heads == 0
                    else "d_model must be a multiple of num_heads"
                )
            )


def _concatenation(model: TransformerConfig, tool: str) -> Iterator[str]:
    if model.position_join != "add":
        yield (
            f"model.position_join = {model.position_join!r}: {tool} adds positions to "
            "embeddings; 'add' can be exported"
        )


def _is_language_code(symbol: str) -> bool:
    return symbol.startswith(">>") and "<<" in symbol
