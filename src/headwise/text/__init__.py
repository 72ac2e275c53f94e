"""Text to tokens and back. No torch here."""
