"""Why CTranslate2 cannot do what is asked, if it cannot: for refusals and for auto.

What is not known here is a reason: a setting that is new may mean other words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.interop.limits import CTRANSLATE2, reasons_against
from headwise.interop.positions import num_positions
from headwise.interop.unsupported_decoding import left_behind
from headwise.run_folder.model_folder import ModelFolder


@dataclass(frozen=True, slots=True)
class Reason:
    """A fact that stands in the way, and what would work besides torch."""

    fact: str
    instead: str = ""

    def __str__(self) -> str:
        either = f"{self.instead} or " if self.instead else ""
        return f"{self.fact}; {either}--engine torch would do"


PENALTIES = ("n^alpha", "none")
NO_MATTER_IF_GREEDY = {
    "length_penalty": ("n^alpha", "gnmt", "none"),
    "stopping": ("first-k", "exact"),
}
"""Values that choose no word where only one hypothesis is kept."""


def reasons_against_model(opened: ModelFolder) -> list[Reason]:
    """Say why CTranslate2 cannot run this model here."""
    config, text = opened.config, opened.tokenizers.settings
    found = [Reason(each) for each in reasons_against([CTRANSLATE2], config, text)]
    found += _reasons_against_weights(opened)
    if find_spec(CTRANSLATE2) is None:
        found.append(
            Reason(
                "the package ctranslate2 is not installed, which is faster: pip "
                "install 'headwise[fast]'"
            )
        )
    return found


def _reasons_against_weights(opened: ModelFolder) -> Iterator[Reason]:
    """Say where the model is not as its file has it; one that was not read yet is."""
    model = opened.weights.model
    device = opened.device if model is None else str(model.device)
    if device.partition(":")[0] != "cpu":
        yield Reason(f"the model is on {device}", "--device cpu")
    if model is None:
        return
    dtypes = sorted({str(each.dtype) for each in model.parameters()})
    if others := [each for each in dtypes if each != "torch.float32"]:
        yield Reason(f"the model was changed to {others[0]}", "model.float()")


def reasons_against_search(settings: DecodingSettings) -> list[Reason]:
    """Say why CTranslate2 cannot search in this way."""
    return [*_unknown(settings), *_other_rules(settings)]


def reasons_against_lengths(
    opened: ModelFolder, sources: Sequence[Sequence[int]], settings: DecodingSettings
) -> list[Reason]:
    """Say which texts go beyond the positions that an export has written out."""
    longest = max(map(len, sources), default=0)
    positions, limit = num_positions(opened), settings.max_length(longest)
    return [
        Reason(
            f"{what} may have {count:,} tokens, and an export has {positions:,} "
            "positions",
            "a shorter one",
        )
        for what, count in (("a source", longest + 1), ("an output", limit))
        if count > positions
    ]


def reasons_against_prefixes(prefixes: Sequence[Prefix] | None) -> list[Reason]:
    """Say so where outputs are to begin with a text, however it is cut."""
    if not any(prefixes or ()):
        return []
    return [Reason("a beginning is not carried over to CTranslate2", "none")]


def _unknown(settings: DecodingSettings) -> Iterator[Reason]:
    for name, value, usual in left_behind(settings):
        yield Reason(
            f"{name} = {value!r} is not carried over to CTranslate2",
            f"{name} = {usual!r}",
        )


def _other_rules(settings: DecodingSettings) -> Iterator[Reason]:
    for name, own in (("length_penalty", PENALTIES), ("stopping", ("first-k",))):
        value = getattr(settings, name)
        if settings.beam == 1 and value in NO_MATTER_IF_GREEDY[name]:
            continue
        if value not in own:
            yield Reason(
                f"{name} = {value!r} is none of CTranslate2's",
                " or ".join(map(repr, own)),
            )
