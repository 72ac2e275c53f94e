"""What is asked of the demo model, by page and by command."""

from pathlib import Path

DEMO = Path(__file__).parents[1] / "models" / "demo"
TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
IL = "L'animal n'a pas traversé la rue parce qu'il"
ELLE = "L'animal n'a pas traversé la rue parce qu'elle"

BODIES = {
    "word": {"heads": ["encoder.1.1"], "position": 9},
    "patch": {"donor": WIDE, "target": IL, "other": ELLE},
    "compare": {"changes": [{"off": "cross.0.3"}]},
}
"""View -> what it needs besides the text."""

ARGUMENTS = {
    "word": ["--head", "encoder.1.1", "--position", "9"],
    "patch": ["--donor", WIDE, "--target", IL, "--other", ELLE],
    "compare": ["--off", "cross.0.3"],
}
"""The same for the command line."""
