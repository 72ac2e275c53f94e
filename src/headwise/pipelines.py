"""``headwise.pipeline("translation", model=FOLDER)``, as in transformers 4.

Arguments and results are those of its translation pipeline, so that programs written
for it keep working. Unknown arguments raise ``UsageError``: ignoring one would silently
change the search.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError, UsageError
from headwise.inference.translator import Translator, checked_text, load, warn_of
from headwise.settings import as_table, merged, read

TASK = re.compile(r"translation(_[A-Za-z-]+_to_[A-Za-z-]+)?")
Record = dict[str, str]
Search = dict[str, Any]
Warned = list[Sequence[str]]


def pipeline(
    task: str = "translation",
    model: str | Path | Translator | None = None,
    *,
    device: int | str | torch.device | None = None,
    engine: str = "auto",
    backend: str = "auto",
    precision: str = "float32",
    **options: Any,
) -> TranslationPipeline:
    """Open a run or model folder as a translation pipeline.

    ``device`` is as in transformers: -1 or None for the CPU, a number for that GPU.
    ``engine``, ``backend`` and ``precision`` are those of ``headwise.load``. Other
    ``options`` are defaults for every call.
    """
    if not isinstance(task, str) or not TASK.fullmatch(task):
        raise UsageError(
            f"{task!r} is not a task of headwise.pipeline; use 'translation', or a "
            "name such as 'translation_en_to_de'"
        )
    if model is None:
        raise UsageError(
            "there is no default model; give a run folder or model folder: "
            "headwise.pipeline('translation', model='en-de')"
        )
    for name in ("tokenizer", "config"):
        given = options.pop(name, None)
        if given is not None and given != model:
            raise UsageError(
                f"{name}={given!r} cannot be used: a model folder has its own; leave "
                f"{name} out"
            )
    options = _drop_neutral(options, OPENING)
    if isinstance(model, Translator):
        return TranslationPipeline(model, task=task, **options)
    translator = load(
        model,
        device=_device(device),
        engine=engine,
        backend=backend,
        precision=precision,
    )
    return TranslationPipeline(translator, task=task, **options)


class TranslationPipeline:
    """Callable that turns texts into ``{"translation_text": ...}``."""

    def __init__(
        self, translator: Translator, *, task: str = "translation", **options: Any
    ) -> None:
        self.translator = translator
        self.task = task
        self.options = options
        self._parse_options({})  # raises for unknown options

    def __call__(self, texts: Any, *more: Any, **options: Any) -> Any:
        """Translate a text, a list of texts, or any iterable of texts.

        A text gives a list of its translations: one, or ``num_return_sequences``, best
        first. A list gives one translation per text, or a list of several per text. Any
        other iterable is read lazily, ``batch_size`` texts at a time (default 1), and
        gives a list per text.
        """
        if more:
            raise UsageError(
                f"{1 + len(more)} texts were given as separate arguments; give a list"
            )
        search, result_options = self._parse_options(options)
        warned: Warned = []
        if isinstance(texts, str):
            outputs = next(self._records([texts], search, result_options, warned))
            warn_of(warned, stacklevel=2)
            return outputs
        if isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
            checked_text(texts)
        if not isinstance(texts, list | tuple):
            return self._lazily(iter(texts), search, result_options)
        found = list(self._records(texts, search, result_options, warned))
        warn_of(warned, stacklevel=2)
        if search.get("num_best", 1) == 1:
            return [record for (record,) in found]
        return found

    def _lazily(
        self, texts: Iterator[str], search: Search, result_options: dict[str, Any]
    ) -> Iterator[list[Record]]:
        while batch := list(islice(texts, result_options.get("batch_size") or 1)):
            warned: Warned = []
            yield from self._records(batch, search, result_options, warned)
            warn_of(warned, stacklevel=2)

    def _records(
        self,
        texts: Iterable[str],
        search: Search,
        result_options: dict[str, Any],
        warned: Warned,
    ) -> Iterator[list[Record]]:
        """Yield the translations of each text; of a text of several lines, the best.

        Warnings of each line are appended to ``warned``.
        """
        sizes: deque[int] = deque()

        def lines() -> Iterator[str]:
            for text in texts:
                parts = checked_text(text).split("\n")
                sizes.append(len(parts))
                yield from parts

        found = self.translator.lines(lines(), **search)
        for first in found:
            rest = list(islice(found, sizes.popleft() - 1))
            warned += [each.warnings for each in (first, *rest)]
            if rest:
                outputs = ["\n".join(each.text for each in (first, *rest))]
            else:
                outputs = [each.text for each in first.candidates]
            if result_options.get("clean_up_tokenization_spaces"):
                outputs = [cleaned_up(each) for each in outputs]
            yield [{"translation_text": each} for each in outputs]

    def _parse_options(
        self, options: Mapping[str, Any]
    ) -> tuple[Search, dict[str, Any]]:
        """Split options into decoding settings and options of the results."""
        given = _drop_neutral({**self.options, **options}, CALLING)
        result_options = {name: given.pop(name) for name in RESULTS if name in given}
        for name, value in result_options.items():
            RESULTS[name](name, value)
        search: Search = {}
        for name, value in given.items():
            if name not in SEARCH:
                raise _unknown(name, value)
            search |= SEARCH[name](name, value)
        if "max_new_tokens" in given:  # wins over max_length, as in transformers
            search |= SEARCH["max_new_tokens"]("", given["max_new_tokens"])
        self._check(search)
        return search, result_options

    def _check(self, search: Search) -> None:
        default = self.translator.decoding
        beam = search.get("beam", default.beam)
        count = search.get("num_best", 1)
        if count > beam:
            raise UsageError(
                f"num_return_sequences={count} is more than the beam of {beam}; set "
                f"num_beams={count}"
            )
        try:
            read(DecodingSettings, merged(as_table(default), search))
        except SettingsError as error:
            raise UsageError(f"invalid decoding settings:\n{error}") from None


def cleaned_up(text: str) -> str:
    """Remove spaces before punctuation and English contractions."""
    for before, after in SPACES.items():
        text = text.replace(before, after)
    return text


SPACES = {
    **{f" {sign}": sign for sign in ".?!,"},
    " ' ": "'",
    **{f" {ending}": ending for ending in ("n't", "'m", "'s", "'ve", "'re")},
}
"""In the order of transformers."""


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
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
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


def _drop_neutral(
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
        elif not any(value is each or value == each for each in values):
            only = " or ".join(map(repr, values))
            why = WHY_NOT.get(name, "use headwise.load(FOLDER).translate")
            raise UsageError(
                f"{name}={value!r} is not supported by this pipeline, only {only}; "
                f"{why}"
            )
    return others


def _check_known(name: str, value: Any) -> None:
    if not any(name in each for each in (SEARCH, RESULTS, OPENING, CALLING)):
        raise _unknown(name, value)


def _unknown(name: str, value: Any) -> UsageError:
    known = [*SEARCH, *RESULTS]
    close = get_close_matches(name, [*known, *CALLING], n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return UsageError(
        f"{name}={value!r} is not an argument of this pipeline{hint}; choose from "
        f"{', '.join(known)}, or use headwise.load(FOLDER).translate for all "
        "decoding settings"
    )


def _device(given: int | str | torch.device | None) -> str | torch.device:
    if given is None or (isinstance(given, int) and given < 0):
        return "cpu"
    if isinstance(given, int):
        return f"cuda:{given}"
    return given


def _integer(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(
            f"{name} must be a whole number, {least} or more, not {value!r}"
        )
    return value
