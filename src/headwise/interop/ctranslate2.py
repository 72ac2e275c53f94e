"""A trained model as a CTranslate2 folder, which a program without headwise can run.

model.bin              weights, in float32, float16 or int8
config.json            special tokens, and that END is added to each source
*_vocabulary.json      the pieces: shared, or source and target
source.spm target.spm  SentencePiece models; of one vocabulary, the same one twice
translate_batch.json   the search: arguments for ``Translator.translate_batch``
max_length.json        what of its limit depends on the source: factor and offset
README.md              what it is, with a script that translates
manifest.json          sizes, SHA-256, and the SHA-256 of the weights this was made of

``docs/export.md`` says what is the same as here, and what is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headwise import storage
from headwise.interop.ctranslate2_file import (
    Array,
    apart_from_copies,
    in_int8,
    write_model_file,
)
from headwise.interop.ctranslate2_script import SCRIPT
from headwise.interop.limits import (
    CTRANSLATE2,
    check_export,
    refuse_what_cannot_be_expressed,
)
from headwise.interop.positions import num_positions
from headwise.interop.provenance import described, model_name
from headwise.interop.unsupported_decoding import (
    exponent,
    notes_on_penalty,
    notes_on_what_is_left,
)
from headwise.run_folder.model_folder import ModelFolder
from headwise.text.settings import SENTENCEPIECE
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import END, SPECIALS, START, UNKNOWN

ALMOST_NO_PENALTY = 1e-9
"""An exponent that changes no score in float32. With 0 itself, CTranslate2 ends a
search as soon as the hypothesis that leads is finished, and finds other words."""

NEAREST_TO_EXACT = 2
"""The patience that finds most of what exact stopping finds: docs/searches.md."""

EPSILON = 1e-5
"""What torch's LayerNorm adds to a variance."""

CARD = """\
# {name}, for CTranslate2

The model `{name}` as [CTranslate2](https://github.com/OpenNMT/CTranslate2) runs it, in
{quantization}, written by headwise: see the card of the model itself for what it was
trained on and how good it is.

{usage}{notes}"""

WITH_SENTENCEPIECE = f"""\
`translate_batch.json` holds the search that the model was measured with. It has one
limit for all outputs, that of the longest source; the script gives each source its own
(`max_length.json`). It needs `pip install ctranslate2 sentencepiece` and nothing else:

```python
{SCRIPT}```
"""

WITHOUT_SENTENCEPIECE = """\
Its tokens are {kinds}, which CTranslate2 leaves to its caller; the vocabulary files
list them, a space being written as U+2581. `translate_batch.json` holds the search.
"""


def write_ctranslate2(
    out: Path, opened: ModelFolder, *, quantization: str = "float32"
) -> list[str]:
    """Write ``opened`` as a CTranslate2 folder; return what its user should know.

    Whole or not at all. What CTranslate2 cannot express is a ``SettingsError`` with
    every reason; what is expressed otherwise comes back as notes.
    """
    from headwise.interop.ctranslate2_weights import named_arrays  # it imports torch

    check_export(CTRANSLATE2, quantization)
    model, text = opened.model, opened.tokenizers.settings
    refuse_what_cannot_be_expressed(CTRANSLATE2, model.config, text)
    arrays, aliases = apart_from_copies(named_arrays(model, num_positions(opened)))
    search, notes = translate_batch_arguments(opened)
    kinds = sorted({text.source_kind, text.target_kind} - set(SENTENCEPIECE))
    if kinds:
        notes.append(
            f"the tokens are {' and '.join(kinds)}, and not SentencePiece's: a "
            "program that runs this has to cut the text itself"
        )
    about = described(opened, target=CTRANSLATE2, quantization=quantization)
    with storage.new_folder(out, describe=about) as folder:
        write_model_file(folder / "model.bin", quantized(arrays, quantization), aliases)
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
    """Return the search as CTranslate2 takes it, and in what it is another one."""
    decoding, longest = opened.decoding, opened.facts.longest_source
    tool = "CTranslate2"
    notes = notes_on_penalty(opened, tool=tool, file="translate_batch.json")
    notes += notes_on_what_is_left(opened, tool=tool)
    enough = decoding.outputs_to_finish
    if decoding.stopping != "first-k" and decoding.beam > 1:
        enough = NEAREST_TO_EXACT * decoding.beam
        notes.append(
            f"CTranslate2 does not search with stopping = {decoding.stopping!r}: "
            f"with translate_batch.json it stops at {enough} finished outputs, and "
            "other translations may win"
        )
    arguments = {
        "beam_size": decoding.beam,
        "length_penalty": exponent(opened) or ALMOST_NO_PENALTY,
        "patience": enough / decoding.beam,
        "max_input_length": 0,  # else it cuts a long source without a word
        "max_decoding_length": decoding.max_length(longest),
        "min_decoding_length": 0,  # else an empty output is forbidden
    }
    return arguments, notes


def max_length(opened: ModelFolder) -> dict[str, float]:
    """Return what makes a limit of a source's length n: floor(factor * n) + offset."""
    return {
        "factor": opened.decoding.max_length_factor,
        "offset": opened.decoding.max_length_offset,
    }


def quantized(arrays: Mapping[str, Array], quantization: str) -> dict[str, Array]:
    """Return the arrays in the numbers they are to be written in."""
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
            found[name], found[f"{name}_scale"] = in_int8(array)
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
