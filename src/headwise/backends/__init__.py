"""How a Transformer runs fast: each file has its reference in ``headwise.model``."""
