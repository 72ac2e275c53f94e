"""The door of the command line: ``headwise`` and ``python -m headwise``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a Ctrl-C while it is being imported ends it quietly."""
    try:
        from headwise.cli.app import main as command_line
    except KeyboardInterrupt:
        print("headwise: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    command_line()


if __name__ == "__main__":
    main()
