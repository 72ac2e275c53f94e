# The door for people; each target does its own set-up. The scripts are the same door.

.PHONY: demo test check setup clean

demo: setup
	.venv/bin/headwise demo

test: setup
	scripts/test

check: setup
	scripts/check

setup:
	@scripts/setup

# What the targets above made, except runs and models: those are work.
clean:
	rm -rf .venv dist build src/headwise/backends/native/lib .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
