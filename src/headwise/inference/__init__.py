"""Trained models at work on text: engines, and lines as a stream."""
