"""Tokenizers, decoding of text files, constituency trees. Nothing here needs torch."""
