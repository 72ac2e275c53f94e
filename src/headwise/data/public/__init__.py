"""Public corpora: downloaded from their publishers, verified, written as plain text."""
