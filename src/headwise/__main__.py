"""The door of the command line: ``headwise`` and ``python -m headwise``."""

from headwise.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
