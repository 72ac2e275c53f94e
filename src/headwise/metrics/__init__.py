"""Scores of finished output, each through a well-kept library where one exists."""
