"""Sequence to sequence: one line of text becomes another."""
