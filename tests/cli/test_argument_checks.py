"""What is checked before torch is imported is what will be used."""

import gzip
import json
import shutil

import pytest

from headwise.cli.argument_checks import check_search, check_two_files
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
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


TABLES = {
    "a.tsv": b"one.\teins.\n",
    "a.tab.gz": gzip.compress(b"\nheader\none.\teins.\n"),
    "a.ndjson": b'{"source": "one."}\n',
    "a.mrg": b"( (S (NN one) ) )\n",
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("order", [1, -1])
def test_a_table_is_not_one_of_two_files(tmp_path, name, order):
    table, plain = tmp_path / name, tmp_path / "plain.tsv"
    table.write_bytes(TABLES[name])
    plain.write_bytes(b"eins.\n")

    with pytest.raises(
        UsageError, match=f"{name} is a table .* give it alone, or give"
    ):
        check_two_files(*(table, plain)[::order])
    check_two_files(table, None)
    check_two_files(plain, plain)


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_csv_is_not_one_of_two_files(tmp_path, name, order):
    """Its rows were learned and scored as they stand, with quotes and labels."""
    files = (tmp_path / name, tmp_path / "plain.txt")[::order]

    with pytest.raises(
        UsageError, match=f"{name} is a CSV .* give it alone, after making"
    ):
        check_two_files(*files)
    check_two_files(tmp_path / name, None)
