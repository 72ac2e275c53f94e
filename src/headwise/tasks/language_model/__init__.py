"""Language modelling: the next token of a text from the earlier ones (GPT)."""
