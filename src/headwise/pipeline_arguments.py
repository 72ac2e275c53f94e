"""The arguments of ``headwise.pipeline`` and its calls, as in transformers 4."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import torch

from headwise.errors import UsageError

Search = dict[str, Any]
"""Decoding settings."""


def _beams(name: str, value: Any) -> Search:
    return {"beam": _integer(name, value, least=1)}


def _sequences(name: str, value: Any) -> Search:
    return {"num_best": _integer(name, value, least=1)}


def _new_tokens(name: str, value: Any) -> Search:
    limit = _integer("max_new_tokens", value, least=1)
    return {"max_length_factor": 0.0, "max_length_offset": limit}


def _tokens(name: str, value: Any) -> Search:
    limit = _integer(name, value, least=2)
    return {"max_length_factor": 0.0, "max_length_offset": limit - 1}  # START included


def _penalty(name: str, value: Any) -> Search:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise UsageError(
            f"{name} must be a number, 0 or more, not {value!r}; scores are divided by "
            "the length to this power"
        )
    return {"length_penalty": "n^alpha", "alpha": float(value)}


def _stopping(name: str, value: Any) -> Search:
    if value is True:
        return {"stopping": "first-k", "patience": 1.0}
    if value == "never":
        return {"stopping": "exact"}
    raise UsageError(
        f"{name}={value!r} is not supported; True stops at num_beams finished "
        "hypotheses, 'never' when none can become better"
    )


SEARCH: dict[str, Callable[[str, Any], Search]] = {
    "num_beams": _beams,
    "num_return_sequences": _sequences,
    "max_length": _tokens,
    "max_new_tokens": _new_tokens,
    "length_penalty": _penalty,
    "early_stopping": _stopping,
}
"""Arguments of ``generate``, and the decoding settings that they set."""


def _is_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False, not {value!r}")


def _is_size(name: str, value: Any) -> None:
    _integer(name, value, least=1)


RESULTS: dict[str, Callable[[str, Any], None]] = {
    "clean_up_tokenization_spaces": _is_flag,
    "batch_size": _is_size,
}
"""Arguments without effect on the search, and checks of their values."""

ANYTHING = object()

OPENING: dict[str, tuple[Any, ...]] = {
    "framework": ("pt",),
    "torch_dtype": (torch.float32, "float32", "auto"),
    "dtype": (torch.float32, "float32", "auto"),
    "revision": ("main",),
    "trust_remote_code": (False,),  # code in a folder is never run
    "use_fast": (ANYTHING,),
    "token": (ANYTHING,),
    "use_auth_token": (ANYTHING,),
    "model_kwargs": ({},),
}
"""Arguments of ``pipeline``, with the values that have no effect."""

DEFAULTS = {
    "device": "cpu",
    "engine": "auto",
    "backend": "auto",
    "precision": "float32",
    "deterministic": False,
    "threads": None,
}
"""Arguments of ``pipeline`` that open a model, with their defaults."""

CALLING: dict[str, tuple[Any, ...]] = {
    "return_text": (True,),
    "return_tensors": (False,),
    "return_type": (1,),
    "truncation": (False, "do_not_truncate"),
    "padding": (ANYTHING,),
    "num_workers": (ANYTHING,),
    "src_lang": (ANYTHING,),  # "no effect for single pair translation models"
    "tgt_lang": (ANYTHING,),
    "use_cache": (ANYTHING,),  # affects speed only
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "temperature": (1.0,),
    "top_k": (50,),
    "top_p": (1.0,),
    "repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
}
"""The same for a call; None never has an effect."""

WHY_NOT = {
    "truncation": "lines are never truncated: a line that is too long is split, "
    "translated and rejoined",
    "return_tensors": "for token ids use headwise.load(FOLDER).engine.search",
    "torch_dtype": "use precision='float16' or 'int8' (CTranslate2)",
    "dtype": "use precision='float16' or 'int8' (CTranslate2)",
    "framework": "headwise uses PyTorch, 'pt'",
}


def drop_neutral(
    options: Mapping[str, Any], neutral: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """Drop options at neutral values; raise ``UsageError`` for their other values."""
    others = {}
    for name, value in options.items():
        values = neutral.get(name)
        if value is None or (values is not None and values[0] is ANYTHING):
            _check_known(name, value)
            continue
        if values is None:
            others[name] = value
        elif not any(_is_same(value, each) for each in values):
            only = " or ".join(map(repr, values))
            why = WHY_NOT.get(name, "use headwise.load(FOLDER).translate")
            raise UsageError(
                f"{name}={value!r} is not supported by this pipeline, only {only}; "
                f"{why}"
            )
    return others


def _is_same(value: Any, neutral: Any) -> bool:
    """Return whether these are equal; an array, which is many values, is not."""
    try:
        return value is neutral or bool(value == neutral)
    except ValueError:
        return False


def _check_known(name: str, value: Any) -> None:
    if not any(name in each for each in (SEARCH, RESULTS, OPENING, CALLING)):
        raise unknown(name, value)


def unknown(name: str, value: Any) -> UsageError:
    """Return the error for an argument that there is not."""
    known = [*SEARCH, *RESULTS]
    close = get_close_matches(name, [*known, *DEFAULTS, *CALLING], n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return UsageError(
        f"{name}={value!r} is not an argument of this pipeline{hint}; choose from "
        f"{', '.join(known)}, when it is made also from {', '.join(DEFAULTS)}, or use "
        "headwise.load(FOLDER).translate for all decoding settings"
    )


def _integer(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UsageError(
            f"{name} must be a whole number, {least} or more, not {value!r}"
        )
    return int(value)
