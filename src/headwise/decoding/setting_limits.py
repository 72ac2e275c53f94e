"""Which values the settings of a search may have, and which settings go together."""

from __future__ import annotations

from collections.abc import Sequence

MAX_HYPOTHESES = 1000
"""Most hypotheses that a search may keep alive, sample or return per sentence."""

_BY_BEAM: dict[str, Sequence[str | int]] = {"search": ("beam", "diverse-beam")}
EFFECTIVE_WITH: dict[str, dict[str, Sequence[str | int]]] = {
    "beam": _BY_BEAM,
    "coverage": {"search": ("beam",)},
    "groups": {"search": ("diverse-beam",)},
    "diversity": {"search": ("diverse-beam",)},
    "stopping": _BY_BEAM,
    "patience": {
        **_BY_BEAM,
        "beam": range(2, MAX_HYPOTHESES + 1),  # 1 is greedy search
        "stopping": ("first-k",),
    },
    **{
        name: {"search": ("sampling",)}
        for name in ("samples", "temperature", "top_k", "top_p", "epsilon", "seed")
    },
}
"""The values of other settings that a setting needs; with others it is ignored."""

MINIMUM = {
    1: ("beam", "max_length_offset", "num_best", "groups", "samples"),
    0: ("min_length_offset", "top_k", "no_repeat_ngram"),
}
NOT_NEGATIVE = (
    *("alpha", "max_length_factor", "min_length_factor"),
    *("coverage", "diversity", "epsilon"),
)
MAX_TOKENS = 1_000_000
"""Most tokens of all hypotheses of a typical sentence together."""

TYPICAL_SOURCE = 100
"""Source tokens of the typical sentence for that; longer ones are rare."""

MAX_COMPARED = 256
"""Most hypotheses of a sentence for minimum Bayes risk, which compares all pairs."""

MIN_TEMPERATURE = 0.001

_TIME = "the time of a search grows with it, and beyond some tens little else does"
_NO_END = "a search without an end would not come back"
_RANKS = "beyond it nothing but this setting would choose the words"
MAXIMUM = {
    "beam": (MAX_HYPOTHESES, _TIME),
    "samples": (MAX_HYPOTHESES, "each is decoded in full"),
    "num_best": (MAX_HYPOTHESES, "each comes from a beam or samples as many"),
    "groups": (100, "each group of a step waits for those before it"),
    "patience": (100, _NO_END),
    "max_length_factor": (100, _NO_END),
    "max_length_offset": (10**4, _NO_END),
    "alpha": (10, "lengths to a higher power leave the numbers of a computer"),
    "coverage": (100, _RANKS),
    "diversity": (1000, _RANKS),
    "repetition_penalty": (100, _RANKS),
    "temperature": (1000, "all tokens would be equally likely"),
}
"""The maximum of each setting, and why."""
