"""The loop: optimizer, schedule, precision, validation, checkpoints."""
