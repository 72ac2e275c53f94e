"""Which values the settings of an architecture may have, and which go together.

``config`` is a ``TransformerConfig``, whose module imports this one.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

OF_TRANSFORMERS = (
    *("d_k", "d_v", "attention_dropout", "feed_forward_dropout", "norm", "activation"),
    *("attention_bias", "embedding_norm", "position_join", "d_position"),
    *("norm_kind", "residual", "feed_forward", "attention", "attention_window"),
    "num_key_value_heads",
)
"""Settings that no other kind of model has; it must leave them at their defaults.

It has no ``num_heads`` and ``d_ff`` either. They are ignored, as every preset sets
them; and so is ``max_positions`` where there are no positions.
"""

RECURRENT = ("elman", "gru", "lstm")
CONVOLUTIONAL = ("convolutional", "dilated")
OF_KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(OF_TRANSFORMERS, ("transformer",)),
    "positions": ("transformer", *CONVOLUTIONAL),
    **dict.fromkeys(("recurrent_attention", "bidirectional"), RECURRENT),
    "kernel_size": CONVOLUTIONAL,
}
"""Setting -> the kinds of models that have it."""

POSITIONS_OF_CONVOLUTIONS = ("sinusoidal", "sinusoidal_halves", "learned", "none")

SIZES: dict[str, int] = {
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 0),
    **dict.fromkeys(("d_model", "d_ff", "num_heads", "max_positions"), 1),
    **dict.fromkeys(("d_k", "d_v", "d_position"), 1),
    **dict.fromkeys(("attention_window", "num_key_value_heads", "kernel_size"), 1),
}
"""Setting -> its least value; None, where it may be that, means another default."""


def value_problems(config: Any) -> list[str]:
    """Return the problems of single settings."""
    values = {each.name: getattr(config, each.name) for each in fields(config)}
    problems = [
        f"{name} must be {least} or more, not {values[name]}"
        for name, least in SIZES.items()
        if values[name] is not None and values[name] < least
    ]
    problems += [
        f"{name} must be 0 or more and less than 1, not {values[name]}"
        for name in ("dropout", "attention_dropout", "feed_forward_dropout")
        if not 0 <= values[name] < 1
    ]
    return problems + [
        f"{name} must be one of {', '.join(known)}, not {values[name]!r}"
        for name, known in _choices(type(config)).items()
        if values[name] not in known
    ]


def _choices(kind: type) -> dict[str, tuple[Any, ...]]:
    hints = get_type_hints(kind).items()
    return {n: get_args(hint) for n, hint in hints if get_origin(hint) is Literal}


def combination_problems(config: Any) -> list[str]:
    """Return the problems of settings that do not go together."""
    problems = []
    if not config.encoder_layers and not config.decoder_layers:
        problems.append(
            "encoder_layers and decoder_layers are both 0; a model needs 1 or more "
            "of either"
        )
    problems += _of_other_kinds(config)
    if config.kind != "transformer":
        return [*problems, *_not_a_transformer(config)]
    if (config.d_k is None or config.d_v is None) and config.d_model % config.num_heads:
        wider = config.num_heads * (config.d_model // config.num_heads + 1)
        problems.append(
            f"d_model must divide evenly among num_heads={config.num_heads}; "
            f"{config.d_model} does not, {wider} would; or set d_k and d_v"
        )
    if config.norm == "deep" and (config.norm_kind, config.residual) != (
        "layer",
        "all",
    ):
        problems.append(
            "norm = 'deep' is layer normalization of scaled residual sums, so it needs "
            f"norm_kind = 'layer' and residual = 'all', not {config.norm_kind!r} and "
            f"{config.residual!r}"
        )
    problems += _sinusoids(config)
    if config.positions == "rotary" and config.key_width % 2:
        problems.append(
            f"positions = 'rotary' turns pairs of channels, so d_k must be even, "
            f"not {config.key_width}; set d_k, or another num_heads"
        )
    problems += _attention(config)
    problems += _blocks(config)
    if config.position_join == "concatenate":
        problems += _concatenation(config)
    elif config.d_position is not None:
        problems.append(
            "d_position has a meaning only with position_join = 'concatenate'"
        )
    return problems


def _of_other_kinds(config: Any) -> list[str]:
    defaults = {each.name: each.default for each in fields(config)}
    return [
        f"{name} = {getattr(config, name)!r} is for kind = "
        f"{' or '.join(map(repr, kinds))} only; leave it out for kind = {config.kind!r}"
        for name, kinds in OF_KINDS.items()
        if config.kind not in kinds and getattr(config, name) != defaults[name]
    ]


def _not_a_transformer(config: Any) -> list[str]:
    problems = []
    if config.kind in RECURRENT and config.bidirectional and config.d_model % 2:
        problems.append(
            f"d_model must be even for kind = {config.kind!r}, whose encoder has "
            f"half of it for each direction, not {config.d_model}; or set "
            "bidirectional = false"
        )
    if config.kind not in CONVOLUTIONAL:
        return problems
    if config.kernel_size % 2 == 0:
        problems.append(
            "kernel_size must be odd, with as many positions before as after each in "
            f"the encoder; {config.kernel_size} is not, {config.kernel_size + 1} would "
            "be"
        )
    if config.positions not in POSITIONS_OF_CONVOLUTIONS:
        problems.append(
            f"positions must be one of {', '.join(POSITIONS_OF_CONVOLUTIONS)} for kind "
            f"= {config.kind!r}, which adds them to embeddings, not "
            f"{config.positions!r}"
        )
    return [*problems, *_sinusoids(config)]


def _sinusoids(config: Any) -> list[str]:
    if not config.positions.startswith("sinusoidal") or config.position_width % 2 == 0:
        return []
    return [
        f"sinusoids come in pairs, so their width must be even, not "
        f"{config.position_width}; positions = 'learned' takes any width"
    ]


def _attention(config: Any) -> list[str]:
    problems = []
    shared = config.num_key_value_heads
    if shared is not None and config.num_heads % shared:
        problems.append(
            f"num_key_value_heads must divide num_heads={config.num_heads} into equal "
            f"groups; {shared} does not"
        )
    window = config.attention_window
    if window is not None and config.encoder_layers and window % 2 == 0:
        problems.append(
            "attention_window must be odd in an encoder, with as many positions before "
            f"as after each; {window} is not, {window + 1} would be"
        )
    if config.positions == "shaw" and config.attention not in ("scaled", "unscaled"):
        problems.append(
            "positions = 'shaw' adds vectors to the keys of a dot product, and "
            f"attention = {config.attention!r} is none; set attention = 'scaled', or "
            "positions = 'alibi' or 't5'"
        )
    return problems


def _blocks(config: Any) -> list[str]:
    problems = []
    if config.feed_forward != "plain" and config.activation != "relu":
        problems.append(
            f"activation = {config.activation!r} is for feed_forward = 'plain'; "
            f"leave it out, as feed_forward = {config.feed_forward!r} names that of "
            "its gate"
        )
    if config.residual == "positions" and config.position_join != "concatenate":
        problems.append(
            "residual = 'positions' carries the channels of the positional encoding, "
            "which has channels of its own with position_join = 'concatenate' only"
        )
    is_centered = config.norm == "pre" or config.embedding_norm
    if (
        config.positions in ("number", "fraction")
        and config.position_join == "add"
        and config.norm_kind == "layer"
        and is_centered
    ):
        problems.append(
            f"positions = {config.positions!r} adds one number to all channels, which "
            "layer normalization before the first attention takes away again; set "
            "position_join = 'concatenate', norm_kind = 'rms', or norm = 'post' "
            "without embedding_norm"
        )
    return problems


def _concatenation(config: Any) -> list[str]:
    problems = []
    if config.embedding_width < 1:
        problems.append(
            f"d_position={config.position_width} leaves no channels for the "
            f"embedding in d_model={config.d_model}; it must be smaller"
        )
    if config.positions in ("none", "rotary", "alibi", "shaw", "t5"):
        problems.append(
            f"positions = {config.positions!r} leaves nothing to concatenate; "
            "set position_join = 'add'"
        )
    if config.tie_embeddings != "none":
        problems.append(
            "tie_embeddings must be 'none' with position_join = 'concatenate', where "
            f"an embedding is narrower than d_model, not {config.tie_embeddings!r}"
        )
    return problems
