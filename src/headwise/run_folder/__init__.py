"""Run folders (checkpoints, log, best model) and model folders."""
