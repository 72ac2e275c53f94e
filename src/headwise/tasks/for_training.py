"""What training knows of a task; it brings in torch and the model."""

from headwise.backends.native.customization import what_is_special as what_is_special
from headwise.backends.native.training import why_not_compiled as why_not_compiled
from headwise.backends.pytorch.install import use_backend as use_backend
from headwise.metrics.perplexity import perplexity as perplexity
from headwise.metrics.score import Score as Score
from headwise.model.activation_checkpointing import (
    checkpoint_activations as checkpoint_activations,
)
from headwise.model.config import TransformerConfig as TransformerConfig
from headwise.model.transformer import Transformer as Transformer
from headwise.tasks.translation.task import Translation as Translation
from headwise.tasks.translation.task import summed_loss as summed_loss
from headwise.tasks.translation.torch_compile_loss import CompiledLoss as CompiledLoss
from headwise.tasks.translation.torch_compile_loss import (
    compiling_explained as compiling_explained,
)
