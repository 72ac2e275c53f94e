"""Trained models in the forms of other tools: one file writes or reads one form."""
