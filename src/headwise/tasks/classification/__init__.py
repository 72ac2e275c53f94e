"""Classification: a label for each text, by an encoder alone."""
