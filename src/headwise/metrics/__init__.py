"""Evaluation metrics: BLEU, chrF, TER, error rates, perplexity; bracket F1 of trees."""
