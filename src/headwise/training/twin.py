"""A second model, to look at other weights than those that are in training."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from headwise.tasks.for_training import Transformer, Translation


class Twin:
    """A model like ``first``, made when it is first asked for."""

    def __init__(self, task: Translation, first: Transformer) -> None:
        self._task = task
        self._config = first.config
        self._device = first.device
        self._model: Transformer | None = None

    @property
    def model(self) -> Transformer:
        """The model, with the weights it was last given."""
        if self._model is None:
            model = self._task.new_model(self._config, seed=0)
            self._model = model.to(self._device)
        return self._model

    def having(self, weights: Mapping[str, Tensor]) -> Transformer:
        """Return the model with these weights."""
        self.model.load_state_dict(weights)
        return self.model
