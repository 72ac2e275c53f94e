"""Reports of runs: an HTML page for each, lists, and comparisons of two."""
