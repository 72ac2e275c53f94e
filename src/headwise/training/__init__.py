"""Training: trainer, optimizer, schedules, data parallelism, validation, callbacks."""
