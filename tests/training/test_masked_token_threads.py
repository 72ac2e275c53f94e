"""The scores of masked tokens, over the whole vocabulary, have all threads of torch."""

import pytest
import torch
from tests.torch_threads import torch_threads
from tests.training.conftest import QUICK

from headwise.model.config import TransformerConfig
from headwise.model.encoder_only import EncoderOnly
from headwise.model.heads import MaskedTokenHead
from headwise.openmp import torch_in_one_thread
from headwise.training.micro_batch import MicroBatchRunner

ENCODER = TransformerConfig(
    encoder_layers=1, decoder_layers=0, d_model=16, d_ff=16, num_heads=2
)


@pytest.mark.parametrize("has_head", [False, True])
def test_a_head_over_the_vocabulary_has_all_threads(has_head):
    model = EncoderOnly(ENCODER, 9)
    if has_head:
        model.head = MaskedTokenHead(ENCODER, 9)
    runner = MicroBatchRunner(None, model, QUICK, seed=1)
    with torch_threads(3), torch_in_one_thread(), runner._threads_of(None):
        found = torch.get_num_threads()

    assert found == (3 if has_head else 1)
