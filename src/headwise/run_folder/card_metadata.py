"""The metadata of a model card: YAML front matter, as model hubs read it.

Every text is in double quotes: YAML reads a bare ``no`` (Norwegian) as false.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from headwise.data.prepared import CorpusFacts
from headwise.data.settings import CorpusSettings
from headwise.run_folder.card_fields import DASHES, UNKNOWN_LICENSE
from headwise.tasks import TASKS
from headwise.training.validation import Validation

HUB_METRICS = {
    "bleu": "bleu",
    "chrf": "chrf",
    "ter": "ter",
    "multi30k-bleu": "bleu",
    "exact-match": "exact_match",
    "word-error-rate": "wer",
    "token-error-rate": "token_error_rate",
    "accuracy": "accuracy",
    "macro-f1": "f1",
    "tag-accuracy": "accuracy",
    "rmse": "rmse",
    "pearson": "pearsonr",
    "bracket-f1": "f1",
    "complete-match": "exact_match",
}
"""Names of our metrics on model hubs."""

LANGUAGES = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu
cv cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he
hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko
kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd
ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se
sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty
ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
"""ISO 639-1 codes, which corpus files have as suffixes: ``train.en``."""


def card_metadata(
    name: str,
    corpora: Sequence[CorpusFacts],
    validation: Validation,
    *,
    task: str = "translation",
    languages: Sequence[str] = (),
    license: str | None = None,
) -> str:
    """Return the metadata as YAML between two lines of dashes.

    Without ``languages``, the suffixes of the
    corpus files are used, if they are codes.
    """
    codes = list(languages) or languages_of(corpora)
    hub_task = TASKS[task].hub_task
    metrics = dict.fromkeys(HUB_METRICS[each] for each in validation.scores)
    lines = [
        *_entries(hub_task, codes, license),
        *(["metrics:", *_items(metrics)] if metrics else []),
        *("model-index:", f"- name: {quoted(name)}", "  results:"),
        *("  - task:", f"      type: {hub_task}", "    dataset:"),
        "      type: held-out",
        f"      name: {quoted('held-out pairs of ' + _names(corpora))}",
        *("    metrics:", *_metrics(validation, TASKS[task].loss_name)),
    ]
    return "\n".join([DASHES, *lines, f"{DASHES}\n"])


def metadata_without_scores(
    task: str, languages: Sequence[str], license: str | None
) -> str:
    """Return the metadata of a model that nothing has scored; see card_metadata."""
    entries = _entries(task, languages, license)
    return "\n".join([DASHES, *entries, f"{DASHES}\n"])


def _entries(task: str, languages: Sequence[str], license: str | None) -> list[str]:
    return [
        *(["language:", *_items(languages)] if languages else []),
        f"license: {quoted((license or UNKNOWN_LICENSE).lower())}",
        "library_name: headwise",
        f"pipeline_tag: {task}",
    ]


def languages_of(corpora: Iterable[CorpusFacts | CorpusSettings]) -> list[str]:
    """Return the language codes of the corpus files, if all corpora agree.

    Text alone has one.
    """
    suffixes = {
        tuple(_suffix(path) for path in (each.source, each.target) if path is not None)
        for each in corpora
    }
    if len(suffixes) != 1:
        return []
    found = list(dict.fromkeys(suffixes.pop()))
    return found if {*LANGUAGES.split()}.issuperset(found) else []


def quoted(text: str) -> str:
    """Return ``text`` as a YAML string in double quotes, on one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_printable, escaped)) + '"'


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    if "\ud800" <= character <= "\udfff":  # a lone surrogate, from a file name
        return "\ufffd"
    return f"\\U{ord(character):08x}"


def _suffix(path: str) -> str:
    name = PurePath(path.lower())
    return (name.with_suffix("") if name.suffix == ".gz" else name).suffix[1:]


def _names(corpora: Sequence[CorpusFacts]) -> str:
    files = [
        PurePath(path).name
        for corpus in corpora
        for path in (corpus.source, corpus.target)
        if path
    ]
    return " and ".join(dict.fromkeys(files)) or "the corpus"


def _items(texts: Iterable[str]) -> list[str]:
    return [f"- {quoted(text)}" for text in texts]


def _metrics(validation: Validation, loss_name: str) -> Iterator[str]:
    for name, score in validation.scores.items():
        if math.isfinite(score.value):
            yield f"    - type: {HUB_METRICS[name]}"
            yield f"      value: {score.value:.2f}"
            yield f"      name: {quoted(score.name)}"
            yield from ("      args:", f"        signature: {quoted(score.signature)}")
    yield "    - type: loss"
    yield f"      value: {validation.loss:.4f}"
    yield f"      name: {quoted(loss_name)}"
