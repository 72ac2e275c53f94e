"""Regression: a number for each text, by an encoder alone."""
