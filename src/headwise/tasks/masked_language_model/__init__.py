"""Masked language modelling: hidden tokens from those around them (BERT)."""
