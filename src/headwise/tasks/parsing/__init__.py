"""Constituency parsing: words into the tree of their phrases, by an encoder-decoder."""
