"""Sweeps: a recipe trained with several values of its settings, and several seeds."""
