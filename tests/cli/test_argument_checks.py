"""What is checked before torch is imported is what will be used."""

import json
import shutil

from headwise.cli.argument_checks import check_search
from headwise.decoding.settings import DecodingSettings
from headwise.run_folder.default_decoding import OLD_DEFAULTS
from headwise.run_folder.paths import BEST, GENERATION


def test_the_settings_of_an_older_folder_are_checked_as_they_are_used(
    tiny_run, tmp_path
):
    """It took today's patience for what a folder without one means."""
    folder = shutil.copytree(tiny_run / BEST, tmp_path / "model")
    table = json.loads((folder / GENERATION).read_text())
    del table["patience"]
    (folder / GENERATION).write_text(json.dumps(table))

    assert DecodingSettings().patience != OLD_DEFAULTS["patience"]
    assert check_search(folder, {}).patience == OLD_DEFAULTS["patience"]
    assert check_search(folder, {"patience": 3.0}).patience == 3.0
