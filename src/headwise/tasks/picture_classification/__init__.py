"""Classification of pictures and videos: a label for each, by an encoder alone."""
