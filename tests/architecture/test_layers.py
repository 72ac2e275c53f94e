"""The package reads downwards: no part imports from a part above it."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "headwise"

BASE = {
    "errors",
    "evaluation_mode",
    "fork_safe_lock",
    "openmp",
    "settings",
    "storage",
    "subprocesses",
    "text_arguments",
    "wording",
}
PARTS = {"text", "model", "data", "losses", "consistency", "metrics", "decoding"}
PARTS |= {"distillation"}
EXPERIMENT = BASE | PARTS | {"backends", "tasks", "training", "recipe", "run_folder"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "evaluation_mode": set(),
    "wording": set(),
    "settings": {"errors"},
    "storage": {"errors", "settings"},
    "fork_safe_lock": set(),
    "openmp": set(),
    "subprocesses": {"errors"},
    "text_arguments": {"errors", "wording"},
    "text": BASE,
    "model": {"errors"},
    "backends": BASE | {"model", "data", "losses"} | {"consistency", "distillation"},
    "consistency": {"losses"},
    "distillation": {"losses"},
    "data": BASE | {"text"},
    "demo_corpus": BASE | {"data", "text"},
    "sample_data": {"errors", "storage", "text"},
    "losses": {"errors"},
    "metrics": {"errors", "text"},
    "decoding": BASE | {"backends"},
    "tasks": BASE | PARTS | {"backends"},
    "training": BASE
    | {"data", "metrics", "model", "backends", "tasks"}
    | {"consistency", "distillation"},
    "recipe": BASE | {"model", "text", "data", "decoding", "tasks", "training"},
    "run_folder": BASE | PARTS | {"backends", "tasks", "training", "recipe"},
    "inspection": BASE | {"text", "model", "metrics", "decoding", "tasks"},
    "reports": BASE
    | {"text", "metrics", "tasks", "training", "recipe", "run_folder", "inspection"},
    "interop": BASE | {"model", "text", "recipe", "run_folder"},
    "inference": EXPERIMENT | {"interop", "inspection"},
    "pipeline_arguments": {"errors"},
    "pipelines": BASE
    | {"text", "decoding", "run_folder", "inference", "pipeline_arguments"},
    "serving": EXPERIMENT | {"inspection", "reports", "inference"},
    "doctor": EXPERIMENT | {"interop", "inference"},
    "sweep": EXPERIMENT | {"reports"},
    "complexity": BASE | {"model", "metrics", "reports"},
    "cli": EXPERIMENT
    | {"demo_corpus", "sample_data", "reports", "interop", "inference", "doctor"}
    | {"sweep", "inspection", "serving", "complexity"},
    "__main__": {"errors", "cli"},
    "__init__": {
        "inference",
        "pipelines",
    },  # lazily: tests/architecture/test_light_imports.py
}
"""What each part may import besides itself; see docs/architecture.md."""

LAZY = {
    "load": "inference",
    "Translator": "inference",
    "pipeline": "pipelines",
    "TranslationPipeline": "pipelines",
}
"""What ``headwise`` itself offers, and the part that it comes from."""


def imported_modules(file: Path, package: Path = PACKAGE) -> set[str]:
    """Collect the dotted names of ours that ``file`` imports, wherever it does."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    home = ["headwise", *file.relative_to(package).parent.parts]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(home[: len(home) + 1 - node.level]) if node.level else ""
            module = ".".join(filter(None, [start, node.module]))
            found.update(f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called_name(node) in IMPORTERS:
            found.add(imported_by_call(node, home))
    found |= set(reached_through_the_package(tree))
    return {name for name in found if name.split(".")[0] == "headwise"}


IMPORTERS = {"import_module", "__import__"}


def called_name(node: ast.Call) -> str:
    """Return the last word of what is called: ``import_module`` of importlib's."""
    return ast.unparse(node.func).split(".")[-1]


def imported_by_call(node: ast.Call, home: list[str]) -> str:
    name = node.args[0] if node.args else None
    assert isinstance(name, ast.Constant), (
        f"line {node.lineno}: a name put together at run time hides from this test; "
        "write it out"
    )
    dots = len(name.value) - len(name.value.lstrip("."))
    start = home[: len(home) + 1 - dots] if dots else []
    return ".".join([*start, name.value.lstrip(".")])


def reached_through_the_package(tree: ast.AST) -> Iterator[str]:
    """Find ``headwise.load`` and the like, after ``import headwise``."""
    names = {
        alias.asname or "headwise"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "headwise" or (not alias.asname and "headwise." in alias.name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names:
            yield f"headwise.{node.attr}"


def part_of(file: Path, package: Path = PACKAGE) -> str:
    return file.relative_to(package).with_suffix("").parts[0]


def upward_imports(file: Path, package: Path = PACKAGE) -> set[str]:
    """Name the parts that ``file`` imports and may not."""
    used = {
        name.split(".")[1] for name in imported_modules(file, package) if "." in name
    }
    used = {LAZY.get(name, name) for name in used if name != "__version__"}
    part = part_of(file, package)
    return used - MAY_IMPORT[part] - {part}


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_the_table_itself_has_no_circle():
    TopologicalSorter(MAY_IMPORT).prepare()


@pytest.mark.parametrize("file", SOURCES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_point_downwards(file):
    part = part_of(file)
    assert part in MAY_IMPORT, f"{part} is new: say in MAY_IMPORT what it may use"
    upwards = upward_imports(file)
    assert not upwards, f"{part} may not import {sorted(upwards)}; see MAY_IMPORT"


def test_no_circle_runs_through_modules():
    """Inside a part too, where the table does not look."""
    modules = {
        ".".join(["headwise", *file.relative_to(PACKAGE).with_suffix("").parts]): file
        for file in SOURCES
    }
    modules = {name.removesuffix(".__init__"): file for name, file in modules.items()}
    graph = {
        name: {nearest(used, modules) for used in imported_modules(file)} - {name}
        for name, file in modules.items()
        if name != "headwise"  # which reaches the translator lazily, on purpose
    }
    TopologicalSorter(graph).prepare()


def nearest(name: str, modules: dict[str, Path]) -> str:
    """Return the module that ``name`` is, or is defined in."""
    while name not in modules and "." in name:
        name = name.rpartition(".")[0]
    return name


UPWARDS = [
    "import headwise.training",
    "import headwise.training.trainer as trainer",
    "import os, headwise.training.trainer",
    "from headwise import training",
    "from headwise import errors, training as t",
    "from headwise.training import train",
    "from headwise.training.trainer import train",
    "from headwise.training import *",
    "from .. import training",
    "from ..training import train",
    "from ..training.trainer import train",
    "def later():\n    from headwise.training import train",
    "class Inner:\n    def later(self):\n        import headwise.training",
    "if TYPE_CHECKING:\n    from headwise.training import Trainer",
    "try:\n    from headwise import training\nexcept ImportError:\n    pass",
    "import importlib\nimportlib.import_module('headwise.training.trainer')",
    "from importlib import import_module\nimport_module('headwise.training')",
    "from importlib import import_module\nimport_module('..training', __package__)",
    "__import__('headwise.training')",
    "import headwise\nheadwise.training.trainer.train()",
    "import headwise as h\nh.training.trainer.train()",
    "import headwise.errors\nheadwise.training.trainer.train()",
]


@pytest.fixture
def planted(tmp_path):
    """Return a function that puts one line of code into a small package of parts."""

    def plant(code: str, name: str = "attention.py") -> Path:
        package = tmp_path / "headwise"
        for folder in ("model", "training"):
            (package / folder).mkdir(parents=True, exist_ok=True)
        file = package / "model" / name
        file.write_text(code, encoding="utf-8")
        return file

    return plant


@pytest.mark.parametrize("code", UPWARDS)
@pytest.mark.parametrize("name", ["attention.py", "__init__.py"])
def test_every_form_of_import_is_seen(planted, code, name):
    file = planted(code, name)
    assert upward_imports(file, file.parents[1]) == {"training"}


@pytest.mark.parametrize(
    "code", ["from headwise import load", "import headwise\nheadwise.load('model')"]
)
def test_what_the_package_offers_lazily_counts_as_the_part_it_comes_from(planted, code):
    file = planted(code)
    assert upward_imports(file, file.parents[1]) == {"inference"}


@pytest.mark.parametrize(
    "code",
    [
        "from headwise.errors import UsageError",
        "from headwise import errors",
        "from headwise import __version__",
        "import headwise\nprint(headwise.__version__)",
        "from . import masks",
        "from .masks import causal",
        "from ..errors import UsageError",
        "import torch.nn.functional as F",
        "from importlib import import_module\nimport_module('torch')",
        "self.training = True\nmodel.training",
    ],
)
def test_what_points_downwards_is_left_alone(planted, code):
    file = planted(code)
    assert upward_imports(file, file.parents[1]) == set()


def test_a_name_put_together_at_run_time_is_refused(planted):
    file = planted(
        "import importlib\nimportlib.import_module('head' + 'wise.training')"
    )
    with pytest.raises(AssertionError, match="hides from this test"):
        upward_imports(file, file.parents[1])
