"""Captioning: a picture into the text that describes it."""
