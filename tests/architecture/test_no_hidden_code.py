"""Opening somebody's model can never run code: nothing here calls what could.

Weights are safetensors, everything else JSON, TOML or ``.npy`` without pickles.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

CAN_RUN_CODE = {
    "eval",
    "exec",
    "compile",
    "pickle",
    "_pickle",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "runpy",
    "torch.load",
    "torch.jit",
    "torch.export.load",
    "torch.package",
    "torch.serialization",
    "torch.hub",
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.unsafe_load",
    "os.system",
    "os.popen",
}
RISKY_SWITCHES = {"allow_pickle", "trust_remote_code", "shell"}


def names_used(tree: ast.AST) -> set[str]:
    """Collect dotted names in full, whatever they were renamed to."""
    full: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                full[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    found = set(full.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.Attribute | ast.Name):
            first, dot, rest = ast.unparse(node).partition(".")
            found.add(full.get(first, first) + dot + rest)
    return found


def risks(tree: ast.AST) -> set[str]:
    """Name what in ``tree`` could run code that came with a file."""
    found = {
        risk
        for name in names_used(tree)
        for risk in CAN_RUN_CODE
        if name == risk or name.startswith(f"{risk}.")
    }
    switched = {
        node.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and ast.unparse(node.value) != "False"
    }
    return found | (switched & RISKY_SWITCHES)


@pytest.mark.parametrize("file", SOURCES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_file_of_ours_could_run_code_from_a_file(file):
    assert risks(ast.parse(file.read_text(encoding="utf-8"))) == set()


@pytest.mark.parametrize(
    ("code", "risk"),
    [
        ("import pickle", "pickle"),
        ("import pickle as p", "pickle"),
        ("from pickle import loads", "pickle"),
        ("def later():\n    import pickle", "pickle"),
        ("import torch\ntorch.load(f)", "torch.load"),
        ("import torch as t\nload = t.load", "torch.load"),
        ("from torch import load", "torch.load"),
        ("from torch import load as read", "torch.load"),
        ("import torch.serialization", "torch.serialization"),
        ("import torch\ntorch.jit.load(f)", "torch.jit"),
        ("import numpy as np\nnp.load(f, allow_pickle=True)", "allow_pickle"),
        ("import numpy as np\nnp.load(f, allow_pickle=sure)", "allow_pickle"),
        ("eval('1')", "eval"),
        ("run = exec", "exec"),
        ("import yaml\nyaml.load(f)", "yaml.load"),
        ("import subprocess\nsubprocess.run(line, shell=True)", "shell"),
        ("import os\nos.system(line)", "os.system"),
    ],
)
def test_each_risk_is_seen(code, risk):
    assert risks(ast.parse(code)) == {risk}


@pytest.mark.parametrize(
    "code",
    [
        "model.eval()",
        "import re\nre.compile('a')",
        "import torch\ntorch.compile(model)",
        "import json\njson.load(f)",
        "import numpy as np\nnp.load(f, allow_pickle=False)",
        "import yaml\nyaml.safe_load(f)",
        "import headwise\nheadwise.load('model')",
    ],
)
def test_what_only_sounds_like_it_is_left_alone(code):
    assert risks(ast.parse(code)) == set()
