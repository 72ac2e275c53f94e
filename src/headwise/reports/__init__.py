"""Runs as people see them: one page a run, lists and comparisons of runs."""
