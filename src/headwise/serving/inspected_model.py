"""A model that pages look into: what it is, and the answers of its views as bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headwise.errors import UsageError
from headwise.inspection.attention import heads_to_source
from headwise.inspection.inspector import Inspector
from headwise.inspection.json_form import FORMAT, json_text
from headwise.inspection.places import Head, all_heads, config_of, sublayers
from headwise.inspection.views import Request, look, views_of
from headwise.reports.drawing import to_png, to_svg
from headwise.reports.inspection_views import DRAWINGS
from headwise.run_folder.card import model_name
from headwise.run_folder.card_fields import card_fields
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.model_folder import ModelFolder
from headwise.serving.attention_binary import encode_attention
from headwise.serving.examples import known_examples
from headwise.serving.inspection_requests import (
    ATTENTION_FIELDS,
    read_attention_request,
    read_request,
)
from headwise.settings import as_table
from headwise.tasks.translation.thread_pool import CheckStop

JSON = "application/json"
BINARY = "application/octet-stream"

DRAWN: dict[str, tuple[str, Callable[[Any], str | bytes]]] = {
    ".svg": ("image/svg+xml", to_svg),
    ".png": ("image/png", to_png),
}

MAX_EXAMPLES = 5


class InspectedModel:
    """An opened model with its inspector; one thread at a time may ask it."""

    def __init__(self, opened: ModelFolder, inspector: Inspector, name: str) -> None:
        self.opened = opened
        self.inspector = inspector
        self.name = name
        self.views = tuple(views_of(inspector))
        attends = "attention" in self.views
        self.heads = [*map(str, _heads_of(inspector))] if attends else []

    def facts(self) -> dict[str, Any]:
        """Return what pages say of the model: ``GET /api/model``."""
        model = self.inspector.model
        config = self.opened.config
        architecture = {**as_table(config), "d_k": config.key_width}
        vocabulary = self.opened.tokenizers.target.size
        return {
            "format": FORMAT,
            "name": self.name,
            "task": self.inspector.task.name,
            "languages": list(self._languages()) or None,
            "config": {
                **architecture,
                "d_v": config.value_width,
                "vocab_size": vocabulary,
                "source_vocab_size": self.opened.tokenizers.source.size,
            },
            "parameters": sum(each.numel() for each in model.parameters()),
            "heads": self.heads,
            "sublayers": [str(each) for each in sublayers(model)],
            "views": list(self.views),
            "drawn": [each for each in self.views if each in DRAWINGS],
            "examples": self._examples(),
        }

    def answer(
        self,
        view: str,
        table: Mapping[str, Any],
        check_stop: CheckStop = lambda: None,
    ) -> tuple[str, bytes]:
        """Return the media type and the bytes of what a view finds.

        Attention is in the form of :mod:`attention_binary`, all else the JSON of
        ``headwise inspect --out``. ``check_stop`` is called now and then, and may
        raise. Raises ``UsageError`` and ``DataError`` for what cannot be asked of this
        model.
        """
        self._check_view(view)
        if view == "attention":
            return BINARY, self._attention(table)
        found = look(self._stopped_by(check_stop), view, read_request(table))
        return JSON, (json_text(found, show=view) + "\n").encode("utf-8")

    def drawing(
        self,
        view: str,
        suffix: str,
        table: Mapping[str, Any],
        check_stop: CheckStop = lambda: None,
    ) -> tuple[str, bytes]:
        """Return the same as a drawing, ``.svg`` or ``.png``."""
        self._check_view(view)
        if view not in DRAWINGS:
            raise UsageError(f"{view} is not drawn; there is {view} as JSON alone")
        more = ATTENTION_FIELDS if view == "attention" else ()
        request = read_request(table, *more)
        found = look(self._stopped_by(check_stop), view, request)
        media_type, write = DRAWN[suffix]
        drawn = write(DRAWINGS[view](found))
        return media_type, drawn.encode("utf-8") if isinstance(drawn, str) else drawn

    def _stopped_by(self, check_stop: CheckStop) -> Inspector:
        mine = self.inspector
        return Inspector(mine.task, mine.model, mine.decoding, check_stop=check_stop)

    def _attention(self, table: Mapping[str, Any]) -> bytes:
        request = read_request(table, *ATTENTION_FIELDS)
        asked = read_attention_request(table)
        heads = self._heads(request, asked.kinds)
        with self.inspector.intervene(*request.changes):
            found = self.inspector.attention(
                request.text,
                request.target,
                prefix=request.prefix,
                heads=heads,
                norms=asked.norms,
                rollout=asked.rollout,
            )
        return encode_attention(
            found, changes=[*map(str, request.changes)], max_side=asked.max_side
        )

    def _heads(self, request: Request, kinds: tuple[str, ...]) -> list[Head]:
        heads = list(request.heads) or _heads_of(self.inspector)
        return [each for each in heads if not kinds or each.kind in kinds]

    def _check_view(self, view: str) -> None:
        if view not in self.views:
            raise UsageError(
                f"{view} cannot be shown of this model of {self.inspector.task.name}; "
                f"it has {', '.join(self.views) or 'no view'}"
            )

    def _languages(self) -> tuple[str, ...]:
        card = self.opened.path / CARD
        try:
            text = card.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        return card_fields(text).languages

    def _examples(self) -> list[dict[str, str]]:
        """Return the model's own golden sources, and examples for its languages."""
        golden = self.opened.golden[:MAX_EXAMPLES]
        own = [{"text": each.source} for each in golden if each.source.strip()]
        return [*own, *known_examples(self._languages())]


def _heads_of(inspector: Inspector) -> list[Head]:
    """Return every head; models of other kinds have those of cross-attention."""
    try:
        return all_heads(inspector.model)
    except UsageError:
        return heads_to_source(config_of(inspector.model))


def open_model(
    folder: Path, device: str, *, search: Mapping[str, Any] | None = None
) -> InspectedModel:
    """Open a model of any task, with these decoding settings changed.

    Raises ``ModelError`` if it cannot be opened, ``UsageError`` for settings that are
    refused.
    """
    from headwise.inference.load import load_predictor

    predictor = load_predictor(folder, device=device).with_search(search or {})
    name = model_name(folder.resolve())
    return InspectedModel(predictor.opened, predictor.inspector, name)
