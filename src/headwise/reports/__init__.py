"""Reports of runs: an HTML page for each, lists, comparisons; drawings of trees."""
