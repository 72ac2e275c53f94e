"""List the mutations of Python modules, or write mutants: by cosmic-ray.

Runs in an environment of its own, in which cosmic-ray is installed:

    python generate.py list MODULE ...
    python generate.py show < LIST     # prints the mutated module of each, as JSON
"""

import json
import sys
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

WITHOUT_MEANING = (
    "core/ReplaceBinaryOperator_BitOr_",  # nearly all are types: int | None
    "core/RemoveDecorator",  # mostly dataclass and overload: nothing can be imported
)


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "list":
        for module in rest:
            for name, occurrence, line in mutations(Path(module)):
                print(json.dumps([module, name, occurrence, line]))
    else:
        for asked in sys.stdin:
            module, name, occurrence, _ = json.loads(asked)
            text = Path(module).read_text()
            mutant = mutate_code(text, get_operator(name)(), occurrence)
            print(json.dumps(mutant))


def mutations(module):
    """Yield operator, occurrence and line of each, as cosmic-ray numbers them."""
    tree = get_ast_from_path(module)
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments() or name.startswith(WITHOUT_MEANING):
            continue
        positions = (
            start
            for node in ast_nodes(tree)
            for start, _ in kind().mutation_positions(node)
        )
        for occurrence, (line, _) in enumerate(positions):
            yield name, occurrence, line


if __name__ == "__main__":
    main()
