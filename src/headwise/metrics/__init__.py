"""Evaluation metrics: BLEU, chrF, TER, error rates, perplexity."""
