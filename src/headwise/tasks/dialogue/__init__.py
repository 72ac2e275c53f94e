"""Dialogues: the answer of an assistant to the turns before it."""
