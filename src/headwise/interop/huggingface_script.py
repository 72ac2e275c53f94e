"""The script that stands in the README.md of every export for transformers."""

SCRIPT = '''\
"""Translate: python translate.py FOLDER < input.txt > output.txt"""

import sys

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

lines = sys.stdin.buffer.read().decode().removesuffix("\\n").split("\\n")
spoken = [line for line in lines if line.strip()]
texts = []
with torch.inference_mode():
    for first in range(0, len(spoken), 32):
        batch = tokenizer(spoken[first : first + 32], return_tensors="pt", padding=True)
        texts += tokenizer.batch_decode(
            model.generate(**batch), skip_special_tokens=True
        )
found = iter(texts)
for line in lines:
    text = next(found) if line.strip() else ""
    sys.stdout.buffer.write(text.encode() + b"\\n")
'''
"""Reads standard input line by line; needs transformers, torch and sentencepiece."""
