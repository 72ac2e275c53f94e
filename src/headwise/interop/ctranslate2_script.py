"""The translation script in the README.md of every CTranslate2 export."""

SCRIPT = '''\
"""Translate: python translate.py FOLDER < input.txt > output.txt"""

import json
import sys
from pathlib import Path

import ctranslate2
import sentencepiece

folder = Path(sys.argv[1])
source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
target = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))
search = json.loads((folder / "translate_batch.json").read_text())
limit = json.loads((folder / "max_length.json").read_text())
translator = ctranslate2.Translator(str(folder))

lines = sys.stdin.buffer.read().decode().removesuffix("\\n").split("\\n")
pieces = [source.encode(line, out_type=str) for line in lines]
texts = [""] * len(lines)  # blank lines stay blank
for length in {len(each) for each in pieces} - {0}:
    # The length limit depends on the source, so batches are of equal length.
    search["max_decoding_length"] = int(limit["factor"] * length) + limit["offset"]
    numbers = [number for number, each in enumerate(pieces) if len(each) == length]
    found = translator.translate_batch(
        [pieces[number] for number in numbers], max_batch_size=32, **search
    )
    for number, result in zip(numbers, found):
        texts[number] = target.decode(result.hypotheses[0])
for text in texts:
    sys.stdout.buffer.write(text.encode() + b"\\n")
'''
"""Reads standard input line by line; needs ctranslate2 and sentencepiece only."""
