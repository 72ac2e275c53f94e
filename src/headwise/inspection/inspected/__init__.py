"""A model with its task, as the views see it: one class for each kind of task."""
