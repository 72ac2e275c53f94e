"""One experiment on disk, and the model folder in it that people share."""
