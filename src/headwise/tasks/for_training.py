"""What training knows of a task; it brings in torch and the model."""

from headwise.metrics.perplexity import perplexity as perplexity
from headwise.metrics.score import Score as Score
from headwise.model.compiled_learning import why_not_compiled as why_not_compiled
from headwise.model.config import TransformerConfig as TransformerConfig
from headwise.model.customization import what_is_special as what_is_special
from headwise.model.training_path import use_kernels as use_kernels
from headwise.model.transformer import Transformer as Transformer
from headwise.tasks.compiled import CompiledLoss as CompiledLoss
from headwise.tasks.compiled import compiling_explained as compiling_explained
from headwise.tasks.translation import Translation as Translation
from headwise.tasks.translation import summed_loss as summed_loss
