"""How each task is looked into, by its name in ``TASKS``."""

from __future__ import annotations

from headwise.decoding.settings import DecodingSettings
from headwise.inspection.inspected.base import InspectedModel
from headwise.inspection.inspected.captioner import InspectedCaptioner
from headwise.inspection.inspected.decoder_only import (
    InspectedAssistant,
    InspectedLanguageModel,
)
from headwise.inspection.inspected.encoder_only import (
    InspectedClassifier,
    InspectedPictureClassifier,
    InspectedRegressor,
    InspectedTagger,
)
from headwise.inspection.inspected.masked_language_model import (
    InspectedMaskedLanguageModel,
)
from headwise.inspection.inspected.parser import InspectedParser
from headwise.inspection.inspected.translator import InspectedTranslator
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.task import Task

INSPECTED: dict[str, type[InspectedModel]] = {
    "translation": InspectedTranslator,
    "classification": InspectedClassifier,
    "regression": InspectedRegressor,
    "tagging": InspectedTagger,
    "language_model": InspectedLanguageModel,
    "masked_language_model": InspectedMaskedLanguageModel,
    "parsing": InspectedParser,
    "picture_classification": InspectedPictureClassifier,
    "captioning": InspectedCaptioner,
    "dialogue": InspectedAssistant,
}
"""Task -> how its models are looked into."""


def inspected_model(
    task: Task, model: SequenceModel, decoding: DecodingSettings
) -> InspectedModel:
    """Return a model as the views see it."""
    return INSPECTED[task.name](task, model, decoding)
