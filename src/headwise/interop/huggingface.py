"""Export a trained model as a ``MarianMTModel`` of Hugging Face Transformers.

config.json, model.safetensors       the model
generation_config.json               decoding settings for ``generate``
source.spm target.spm vocab.json     the tokenizer (and target_vocab.json, where the
tokenizer_config.json                target has a vocabulary of its own)
README.md                            the card, with a script that translates
manifest.json                        sizes and SHA-256, also of the original weights

``docs/export.md`` lists what is the same as in headwise, and what is not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.interop.huggingface_script import SCRIPT
from headwise.interop.position_table_size import num_positions
from headwise.interop.provenance import export_description
from headwise.interop.unsupported_decoding import (
    length_penalty_exponent,
    notes_on_ignored_settings,
    notes_on_penalty,
)
from headwise.interop.unsupported_models import (
    HUGGINGFACE,
    check_export,
    check_expressible,
)
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.model_folder import ModelFolder
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import END, PAD, SPECIALS, START, UNKNOWN

USE = f"""\
## Use with transformers

`AutoModelForSeq2SeqLM` and `AutoTokenizer` open this folder. It was exported by
headwise from a model folder, whose card continues below.

```python
{SCRIPT}```
"""

OWN_USE = re.compile(r"^## Use\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
"""The section of our model card on use with headwise."""


def write_huggingface(
    out: Path, opened: ModelFolder, *, quantization: str = "float32"
) -> list[str]:
    """Write ``opened`` as a folder for transformers, atomically; return notes.

    The notes name decoding settings that ``generate`` handles differently. Raises
    ``SettingsError`` with all reasons for a model that Marian cannot express.
    """
    from headwise.interop.marian_weights import marian_tensors  # these import torch
    from headwise.run_folder.safetensors_files import write_tensors

    check_export(HUGGINGFACE, quantization)
    check_expressible(HUGGINGFACE, opened.model.config, opened.tokenizers.settings)
    tool = "transformers"
    notes = notes_on_penalty(opened, tool=tool, file="generation_config.json")
    notes += _notes_on_patience(opened)
    notes += notes_on_ignored_settings(opened, tool=tool)
    about = export_description(opened, target=HUGGINGFACE, quantization=quantization)
    with storage.new_folder(out, describe=about) as folder:
        storage.write_json(folder / "config.json", model_config(opened))
        tensors = marian_tensors(opened.model)
        metadata = {"format": "pt"}  # required by transformers
        write_tensors(folder / "model.safetensors", tensors, notes=metadata)
        storage.write_json(folder / "generation_config.json", generation(opened))
        _write_tokenizer(folder, opened)
        storage.write_text(folder / CARD, _card(opened, notes))
    return notes


def model_config(opened: ModelFolder) -> dict[str, Any]:
    """Return Marian's ``config.json``."""
    model, config = opened.model, opened.model.config
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "dtype": "float32",
        "is_encoder_decoder": True,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.feed_forward_dropout,
        "scale_embedding": True,
        "max_position_embeddings": num_positions(opened),
        "vocab_size": model.source_vocab_size,
        "decoder_vocab_size": model.target_vocab_size,
        "share_encoder_decoder_embeddings": config.tie_embeddings == "all",
        "tie_word_embeddings": config.tie_embeddings != "none",
        "pad_token_id": PAD,
        "bos_token_id": START,
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "forced_eos_token_id": None,
    }


def generation(opened: ModelFolder) -> dict[str, Any]:
    """Return ``generation_config.json``."""
    decoding = opened.decoding
    search: dict[str, Any] = {
        "num_beams": decoding.beam,
        "do_sample": False,
        "max_new_tokens": decoding.max_length(opened.facts.longest_source),
        "max_length_factor": decoding.max_length_factor,  # for the script in README.md
        "max_length_offset": decoding.max_length_offset,
        "suppress_tokens": [PAD, START],
        "pad_token_id": PAD,
        "bos_token_id": START,
        "decoder_start_token_id": START,
        "eos_token_id": END,
    }
    if decoding.beam > 1:
        search["length_penalty"] = length_penalty_exponent(opened)
        search["early_stopping"] = "never" if _never_stops_early(opened) else True
    return search


def _never_stops_early(opened: ModelFolder) -> bool:
    """Return whether the search waits for more finished hypotheses than the beam."""
    decoding = opened.decoding
    return decoding.stopping != "first-k" or decoding.outputs_to_finish > decoding.beam


def _notes_on_patience(opened: ModelFolder) -> list[str]:
    """Return a note if ``generate`` cannot wait for as many finished hypotheses."""
    decoding = opened.decoding
    enough = decoding.outputs_to_finish
    if decoding.beam == 1 or decoding.stopping != "first-k" or enough == decoding.beam:
        return []
    nearest = '"never"' if _never_stops_early(opened) else "True"
    return [
        f"transformers has no patience, so it cannot stop at {enough} finished "
        f"hypotheses: generation_config.json has early_stopping = {nearest}, which may "
        "choose another translation"
    ]


def _write_tokenizer(folder: Path, opened: ModelFolder) -> None:
    pair = opened.tokenizers
    pair.source.save(folder / "source.spm")
    pair.target.save(folder / "target.spm")
    storage.write_json(folder / "vocab.json", _ids(pair.source))
    if not pair.joint:
        storage.write_json(folder / "target_vocab.json", _ids(pair.target))
    storage.write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "model_max_length": num_positions(opened),
            "separate_vocabs": not pair.joint,
            "clean_up_tokenization_spaces": False,
            "pad_token": SPECIALS[PAD],
            "eos_token": SPECIALS[END],
            "unk_token": SPECIALS[UNKNOWN],
        },
    )


def _ids(tokenizer: Tokenizer) -> dict[str, int]:
    pieces = tokenizer.pieces(range(tokenizer.size))
    return {piece: number for number, piece in enumerate(pieces)}


def _card(opened: ModelFolder, notes: list[str]) -> str:
    """Return our model card, with the section on use replaced."""
    own = (opened.path / CARD).read_text(encoding="utf-8")
    own = own.replace("library_name: headwise", "library_name: transformers", 1)
    use = USE + "".join(f"\n- {note}" for note in notes) + "\n"
    if OWN_USE.search(own):
        return OWN_USE.sub(lambda _: use, own, count=1)
    return f"{own}\n{use}"
