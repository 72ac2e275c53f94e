"""The shares in docs/searches.md are those that were measured."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "searches.md").read_text()
MEASURED = json.loads(
    (ROOT / "benchmarks" / "results" / "search_shares.json").read_text()
)


def test_every_row_stands_in_the_page_as_it_was_measured():
    for tool, rows in MEASURED["equal"].items():
        for name, row in rows.items():
            shares = [100 * count / MEASURED["sentences"] for count in row.values()]
            line = f"| {name} | " + " | ".join(f"{each:.1f}" for each in shares) + " |"
            assert line in PAGE, (tool, name)


def test_the_same_rules_found_the_same_words():
    everything = MEASURED["sentences"]
    same = {
        "ctranslate2": {
            "n^1, first-k": "length_penalty 1",
            "n^0.6, first-k": "length_penalty 0.6",
            "none, first-k": "length_penalty 1e-9",
            "n^1, first-k, patience 2": "length_penalty 1, patience 2",
        },
        "transformers": {
            "n^1, first-k": "1.0, True",
            "n^0.6, first-k": "0.6, True",
            "none, first-k": "0.0, True",
            "n^1, exact": "1.0, never",
            "n^0.6, exact": "0.6, never",
            "none, exact": "0.0, never",
        },
    }
    for tool, pairs in same.items():
        for ours, theirs in pairs.items():
            assert MEASURED["equal"][tool][ours][theirs] == everything
