"""What the numbers mean: data, model, loss, search and metric bound for one use.

Training knows a task by the names of :mod:`headwise.tasks.for_training`, which brings
in torch, and nothing of the parts that they come from. Turning text into tokens needs
no torch, so nothing is imported here.
"""
