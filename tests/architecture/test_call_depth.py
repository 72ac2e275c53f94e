"""Few Python frames lie between a command and the backend that does the work."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.training.conftest import QUICK

from headwise.backends.native import training as native_training
from headwise.backends.native.decoder import NativeDecoder
from headwise.cli.translate import translate
from headwise.training.trainer import Trainer

DEMO = Path(__file__).parents[1] / "models" / "demo"

MOST_FRAMES = 13
"""From the command's function to the decoder's method, both counted."""

MOST_TRAINING_FRAMES = 10
"""From ``Trainer.run`` to the forward pass of the native backend, both counted."""


def frames_since(function) -> list[str]:
    """Return the names of the Python frames from ``function`` to the caller's caller.

    Generators that are being read count as well.
    """
    names, frame = [], sys._getframe(2)
    while frame.f_code is not function.__code__:
        names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return [function.__name__, *reversed(names)]


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize(("beam", "method"), [(1, "decode_greedily"), (4, "step_topk")])
def test_translate_reaches_the_decoder_in_few_frames(
    beam, method, monkeypatch, tmp_path, capfdbinary
):
    """There were 22: three wrappers of a step, three futures and four of streams."""
    original = getattr(NativeDecoder, method)
    seen = []

    def noted(self, *arguments, **named):
        seen.append([*frames_since(translate), method])
        return original(self, *arguments, **named)

    monkeypatch.setattr(NativeDecoder, method, noted)
    source = tmp_path / "line.en"
    source.write_text("The dog sleeps.\n", encoding="utf-8")

    translate(DEMO, files=[source], beam=beam, engine="torch")

    assert seen
    assert len(seen[0]) <= MOST_FRAMES, " > ".join(seen[0])


@pytest.mark.usefixtures("uses_native_backend")
def test_training_reaches_the_native_kernels_in_few_frames(make_trainer, monkeypatch):
    """There were 21, three of them of modules and three for a lack of memory."""
    seen = []

    def noted():
        seen.append(frames_since(Trainer.run))
        return original()

    trainer = make_trainer(replace(QUICK, backend="native", processes=1, steps=1))
    original = native_training.kernels
    monkeypatch.setattr(native_training, "kernels", noted)
    trainer.run()

    assert seen
    assert len(seen[-1]) <= MOST_TRAINING_FRAMES, " > ".join(seen[-1])
