"""The translation script in the README.md of every Hugging Face export."""

SCRIPT = '''\
"""Translate: python translate.py FOLDER < input.txt > output.txt"""

import sys

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
limit = model.generation_config  # with two settings that generate ignores

lines = sys.stdin.buffer.read().decode().removesuffix("\\n").split("\\n")
ids = [tokenizer(line).input_ids for line in lines]  # with end of sentence
texts = [""] * len(lines)  # blank lines stay blank
for length in {len(each) - 1 for each in ids} - {0}:
    # The length limit depends on the source, so batches are of equal length.
    longest = int(limit.max_length_factor * length) + limit.max_length_offset
    same = [number for number, each in enumerate(ids) if len(each) == length + 1]
    for numbers in (same[first : first + 32] for first in range(0, len(same), 32)):
        batch = torch.tensor([ids[number] for number in numbers])
        with torch.inference_mode():
            found = model.generate(batch, max_new_tokens=longest)
        written = tokenizer.batch_decode(found, skip_special_tokens=True)
        for number, text in zip(numbers, written):
            texts[number] = text
for text in texts:
    sys.stdout.buffer.write(text.encode() + b"\\n")
'''
"""Reads standard input line by line; needs transformers, torch and sentencepiece."""
