"""Corpora: read, split, tokenize, store, batch."""
