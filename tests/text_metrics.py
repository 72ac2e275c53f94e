"""Which metrics and measures are of text, for tests that loop over them."""

NOT_OF_TEXT = {"rmse", "pearson", "bracket-f1", "complete-match"}
