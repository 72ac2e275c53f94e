"""The script that stands in the README.md of every CTranslate2 export."""

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
translator = ctranslate2.Translator(str(folder))

lines = sys.stdin.buffer.read().decode().removesuffix("\\n").split("\\n")
pieces = [source.encode(line, out_type=str) for line in lines]
spoken = [each for each in pieces if each]  # nothing is asked of a blank line
found = iter(translator.translate_batch(spoken, max_batch_size=32, **search))
for each in pieces:
    text = target.decode(next(found).hypotheses[0]) if each else ""
    sys.stdout.buffer.write(text.encode() + b"\\n")
'''
"""Reads standard input line by line; needs ctranslate2 and sentencepiece only."""
