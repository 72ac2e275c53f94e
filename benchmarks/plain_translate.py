"""Translate a file with CTranslate2 and SentencePiece, as their own pages show it.

This is what benchmarks/end_to_end.py compares with; it imports nothing of headwise.
"""

import argparse

import ctranslate2
import sentencepiece

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="a folder that headwise export wrote")
parser.add_argument("source")
parser.add_argument("output")
parser.add_argument("--beam", type=int, required=True)
parser.add_argument("--patience", type=float, default=1.0)
parser.add_argument("--compute-type", required=True)
parser.add_argument("--max-batch-size", type=int, required=True)
parser.add_argument("--batch-type", default="examples")
parser.add_argument("--inter-threads", type=int, default=1)
parser.add_argument("--intra-threads", type=int, default=0)
arguments = parser.parse_args()

translator = ctranslate2.Translator(
    arguments.model,
    device="cpu",
    compute_type=arguments.compute_type,
    inter_threads=arguments.inter_threads,
    intra_threads=arguments.intra_threads,
)
tokenizer = sentencepiece.SentencePieceProcessor(
    model_file=f"{arguments.model}/source.spm"
)

with open(arguments.source, encoding="utf-8", newline="\n") as file:
    lines = [line.rstrip("\n") for line in file]
pieces = tokenizer.encode(lines, out_type=str)
results = translator.translate_batch(
    pieces,
    beam_size=arguments.beam,
    patience=arguments.patience,
    max_batch_size=arguments.max_batch_size,
    batch_type=arguments.batch_type,
)
texts = tokenizer.decode([result.hypotheses[0] for result in results])
with open(arguments.output, "w", encoding="utf-8", newline="\n") as file:
    file.writelines(f"{text}\n" for text in texts)
