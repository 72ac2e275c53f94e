"""Tokenizers, and decoding of text files. Nothing here needs torch."""
