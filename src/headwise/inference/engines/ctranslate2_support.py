"""What CTranslate2 does not support of a model or search, for errors and for auto.

An unknown setting counts as unsupported, as it may change outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.interop.position_table_size import num_positions
from headwise.interop.unsupported_decoding import ignored_settings
from headwise.interop.unsupported_models import CTRANSLATE2, reasons_against
from headwise.run_folder.model_folder import ModelFolder
from headwise.wording import without_surrogates


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why CTranslate2 cannot do it, and what would work besides torch."""

    reason: str
    instead: str = ""

    def __str__(self) -> str:
        either = f"{self.instead} or " if self.instead else ""
        return f"{self.reason}; {either}--engine torch would do"


PENALTIES = ("n^alpha", "none")
NO_EFFECT_IF_GREEDY = {
    "length_penalty": ("n^alpha", "gnmt", "none"),
    "stopping": ("first-k", "exact"),
}
"""Values that have no effect in greedy search."""


def unsupported_model(opened: ModelFolder) -> list[Unsupported]:
    """Return why CTranslate2 cannot run this model on this machine."""
    config, text = opened.config, opened.tokenizers.settings
    found = [Unsupported(each) for each in reasons_against([CTRANSLATE2], config, text)]
    found += _unsupported_weights(opened)
    found += unsupported_path(opened.path)
    if find_spec(CTRANSLATE2) is None:
        found.append(
            Unsupported(
                "the package ctranslate2 is not installed, which is faster: pip "
                "install 'headwise[fast]'"
            )
        )
    return found


def _unsupported_weights(opened: ModelFolder) -> Iterator[Unsupported]:
    """Yield a reason if the loaded model differs from its file in device or dtype."""
    model = opened.weights.model
    device = opened.device if model is None else str(model.device)
    if device.partition(":")[0] != "cpu":
        yield Unsupported(f"the model is on {device}", "--device cpu")
    if model is None:
        return
    dtypes = sorted({str(each.dtype) for each in model.parameters()})
    if others := [each for each in dtypes if each != "torch.float32"]:
        yield Unsupported(f"the model was changed to {others[0]}", "model.float()")


def unsupported_path(folder: Path) -> list[Unsupported]:
    """Return a reason if CTranslate2 cannot open ``folder``: its name is not UTF-8."""
    name = str(folder)
    if name == without_surrogates(name):
        return []
    return [
        Unsupported(
            f"CTranslate2 cannot open {name!r}, whose name is not UTF-8",
            "another name",
        )
    ]


def unsupported_search(settings: DecodingSettings) -> list[Unsupported]:
    """Return the settings that CTranslate2 does not support."""
    return [*_unsupported_settings(settings), *_unsupported_values(settings)]


def unsupported_lengths(
    opened: ModelFolder, sources: Sequence[Sequence[int]], settings: DecodingSettings
) -> list[Unsupported]:
    """Return which texts may exceed the positional encodings of an export."""
    longest = max(map(len, sources), default=0)
    positions, limit = num_positions(opened), settings.max_length(longest)
    return [
        Unsupported(
            f"{what} may have {count:,} tokens, and an export has {positions:,} "
            "positions",
            "a shorter one",
        )
        for what, count in (("a source", longest + 1), ("an output", limit))
        if count > positions
    ]


def unsupported_prefixes(prefixes: Sequence[Prefix] | None) -> list[Unsupported]:
    """Return a reason if outputs have a forced prefix."""
    if not any(prefixes or ()):
        return []
    return [Unsupported("CTranslate2 supports no forced prefix", "none")]


def unsupported_placeholders(
    opened: ModelFolder, sources: Sequence[Sequence[int]]
) -> list[Unsupported]:
    """Return a reason if a source has placeholders, of which CTranslate2 loses some."""
    placeholder = opened.texts.source_placeholder
    if placeholder is None or not any(placeholder in source for source in sources):
        return []
    return [Unsupported("CTranslate2 has no rule that copies each placeholder once")]


def why_not_same_scores(opened: ModelFolder) -> str | None:
    """Return why scores, and rarely translations, differ from torch's; None if not.

    To forbid a placeholder where the source has none, CTranslate2 raises the
    probabilities of all other tokens.
    """
    if opened.texts.source_placeholder is None:
        return None
    return "CTranslate2 scores a model with placeholders in another way"


def _unsupported_settings(settings: DecodingSettings) -> Iterator[Unsupported]:
    for name, value, usual in ignored_settings(settings):
        yield Unsupported(
            f"CTranslate2 does not support {name} = {value!r}",
            f"{name} = {usual!r}",
        )


def _unsupported_values(settings: DecodingSettings) -> Iterator[Unsupported]:
    for name, own in (("length_penalty", PENALTIES), ("stopping", ("first-k",))):
        value = getattr(settings, name)
        if settings.beam == 1 and value in NO_EFFECT_IF_GREEDY[name]:
            continue
        if value not in own:
            yield Unsupported(
                f"CTranslate2 does not support {name} = {value!r}",
                " or ".join(map(repr, own)),
            )
