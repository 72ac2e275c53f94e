"""Export a trained model as a CTranslate2 folder, which runs without headwise.

model.bin              weights, in float32, float16 or int8
config.json            special tokens, and that end of sentence is added to each source
*_vocabulary.json      the pieces: shared, or source and target
source.spm target.spm  SentencePiece models; of one vocabulary, the same one twice
translate_batch.json   decoding settings: arguments for ``Translator.translate_batch``
max_length.json        length limit by the source: factor and offset
README.md              what it is, with a script that translates
manifest.json          sizes, SHA-256, and the SHA-256 of the original weights

``docs/export.md`` lists what is the same as in headwise, and what is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headwise import storage
from headwise.interop.ctranslate2_file import (
    Array,
    alias_duplicates,
    quantize_int8,
    write_model_file,
)
from headwise.interop.ctranslate2_script import SCRIPT
from headwise.interop.position_table_size import num_positions
from headwise.interop.provenance import export_description, model_name
from headwise.interop.unsupported_decoding import (
    length_penalty_exponent,
    notes_on_ignored_settings,
    notes_on_penalty,
)
from headwise.interop.unsupported_models import (
    CTRANSLATE2,
    check_export,
    check_expressible,
)
from headwise.run_folder.model_folder import ModelFolder
from headwise.text.settings import SENTENCEPIECE
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import END, SPECIALS, START, UNKNOWN

TINY_EXPONENT = 1e-9
"""A length penalty that changes no score in float32. With exactly 0, CTranslate2 stops
as soon as the best hypothesis is finished, which gives other translations."""

PATIENCE_NEAR_EXACT = 2
"""The patience that comes closest to exact stopping: docs/searches.md."""

EPSILON = 1e-5
"""Epsilon of torch's LayerNorm."""

CARD = """\
# {name}, for CTranslate2

The model `{name}` for [CTranslate2](https://github.com/OpenNMT/CTranslate2) in
{quantization}, exported by headwise. See the card of the original model for training
data and scores.

{usage}{notes}"""

WITH_SENTENCEPIECE = f"""\
`translate_batch.json` has the decoding settings of the model. Its length limit is that
of the longest source; the script gives each source its own (`max_length.json`). It
needs `pip install ctranslate2 sentencepiece` and nothing else:

```python
{SCRIPT}```
"""

WITHOUT_SENTENCEPIECE = """\
Its tokens are {kinds}, so the caller has to tokenize. The vocabulary files list them,
with U+2581 for a space. `translate_batch.json` has the decoding settings.
"""


def write_ctranslate2(
    out: Path, opened: ModelFolder, *, quantization: str = "float32"
) -> list[str]:
    """Write ``opened`` as a CTranslate2 folder, atomically; return notes for the user.

    The notes name decoding settings that CTranslate2 handles differently. Raises
    ``SettingsError`` with all reasons for a model that it cannot express.
    """
    from headwise.interop.ctranslate2_weights import named_arrays  # it imports torch

    check_export(CTRANSLATE2, quantization)
    model, text = opened.model, opened.tokenizers.settings
    check_expressible(CTRANSLATE2, model.config, text)
    arrays, aliases = alias_duplicates(named_arrays(model, num_positions(opened)))
    search, notes = translate_batch_arguments(opened)
    kinds = sorted({text.source_kind, text.target_kind} - set(SENTENCEPIECE))
    if kinds:
        notes.append(
            f"the tokens are {' and '.join(kinds)}, not SentencePiece pieces: a "
            "program that runs this export has to tokenize the text itself"
        )
    about = export_description(opened, target=CTRANSLATE2, quantization=quantization)
    with storage.new_folder(out, describe=about) as folder:
        write_model_file(folder / "model.bin", quantize(arrays, quantization), aliases)
        storage.write_json(folder / "config.json", _config())
        for name, pieces in _vocabularies(opened).items():
            storage.write_json(folder / f"{name}_vocabulary.json", pieces)
        if not kinds:
            opened.tokenizers.source.save(folder / "source.spm")
            opened.tokenizers.target.save(folder / "target.spm")
        storage.write_json(folder / "translate_batch.json", search)
        storage.write_json(folder / "max_length.json", max_length(opened))
        usage = (
            WITHOUT_SENTENCEPIECE.format(kinds=" and ".join(kinds))
            if kinds
            else WITH_SENTENCEPIECE
        )
        card = CARD.format(
            name=model_name(opened),
            quantization=quantization,
            usage=usage,
            notes="".join(f"\n- {note}" for note in notes) + "\n" if notes else "",
        )
        storage.write_text(folder / "README.md", card)
    return notes


def translate_batch_arguments(opened: ModelFolder) -> tuple[dict[str, Any], list[str]]:
    """Return arguments for ``translate_batch``, and notes on what they leave out."""
    decoding, longest = opened.decoding, opened.facts.longest_source
    tool = "CTranslate2"
    notes = notes_on_penalty(opened, tool=tool, file="translate_batch.json")
    notes += notes_on_ignored_settings(opened, tool=tool)
    enough = decoding.outputs_to_finish
    if decoding.stopping != "first-k" and decoding.beam > 1:
        enough = PATIENCE_NEAR_EXACT * decoding.beam
        notes.append(
            f"CTranslate2 does not support stopping = {decoding.stopping!r}: with "
            f"translate_batch.json it stops at {enough} finished hypotheses, and may "
            "choose another translation"
        )
    arguments = {
        "beam_size": decoding.beam,
        "length_penalty": length_penalty_exponent(opened) or TINY_EXPONENT,
        "patience": enough / decoding.beam,
        "max_input_length": 0,  # by default it truncates a long source silently
        "max_decoding_length": decoding.max_length(longest),
        "min_decoding_length": 0,  # by default an empty output is impossible
    }
    return arguments, notes


def max_length(opened: ModelFolder) -> dict[str, float]:
    """Return the length limit for a source of n tokens: floor(factor * n) + offset."""
    return {
        "factor": opened.decoding.max_length_factor,
        "offset": opened.decoding.max_length_offset,
    }


def quantize(arrays: Mapping[str, Array], quantization: str) -> dict[str, Array]:
    """Return the arrays in float32, float16, or int8 with scales."""
    if quantization == "float32":
        return dict(arrays)
    if quantization == "float16":
        return {
            name: array.astype(np.float16) if array.dtype == np.float32 else array
            for name, array in arrays.items()
        }
    found = {}
    for name, array in arrays.items():
        if name.endswith("/weight"):  # of a layer or an embedding
            found[name], found[f"{name}_scale"] = quantize_int8(array)
        else:
            found[name] = array
    return found


def _config() -> dict[str, Any]:
    return {
        "add_source_bos": False,
        "add_source_eos": True,
        "bos_token": SPECIALS[START],
        "decoder_start_token": SPECIALS[START],
        "eos_token": SPECIALS[END],
        "layer_norm_epsilon": EPSILON,
        "multi_query_attention": False,
        "unk_token": SPECIALS[UNKNOWN],
    }


def _vocabularies(opened: ModelFolder) -> dict[str, list[str]]:
    pair = opened.tokenizers
    if pair.joint:
        return {"shared": _pieces(pair.source)}
    return {"source": _pieces(pair.source), "target": _pieces(pair.target)}


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.pieces(range(tokenizer.size))
