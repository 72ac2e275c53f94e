"""Tagging: a tag for each word of a text, by an encoder alone."""
