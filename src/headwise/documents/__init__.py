"""Sentence splitting of long lines. Nothing here needs torch."""
