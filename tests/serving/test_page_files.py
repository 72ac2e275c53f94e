"""The static files of the page: few bytes, no other site, nothing inline."""

import re
from importlib.resources import files
from itertools import takewhile

import pytest

from headwise.serving.joined_modules import joined_modules
from headwise.serving.page_files import INDEX, MEDIA_TYPES, read_page_file

AT_MOST = 150 * 1024

FOLDER = files("headwise.serving") / "inspection_page"
PATHS = sorted(
    f"{prefix}{each.name}"
    for prefix, folder in (("", FOLDER), ("views/", FOLDER / "views"))
    if folder.is_dir()
    for each in folder.iterdir()
    if each.is_file()
)


def text_of(path):
    return read_page_file(path)[1].decode("utf-8")


def test_all_files_together_are_small():
    sizes = {path: len(read_page_file(path)[1]) for path in PATHS}

    assert sum(sizes.values()) <= AT_MOST, sizes


@pytest.mark.parametrize("path", PATHS)
def test_every_file_is_served_and_fetches_nothing_from_elsewhere(client, path):
    answer = client.get("/" if path == INDEX else f"/{path}")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == MEDIA_TYPES[path.rpartition(".")[2]]
    assert answer.text == text_of(path)
    assert re.findall(r"https?://(?!www\.w3\.org/)[\w.-]+", answer.text) == []


def test_comments_stay_behind_and_nothing_else():
    """Every line that is served stands in the file, in its order."""
    for path in PATHS:
        kept = iter((FOLDER / path).read_text("utf-8").splitlines())
        left_out = []
        for line in text_of(path).splitlines():
            left_out += takewhile(lambda each, line=line: each != line, kept)
        left_out += kept
        inside = False
        for line in map(str.strip, left_out):
            inside = inside or line.startswith(("//", "/*"))
            assert inside, f"{path}: {line}"
            inside = not (line.startswith("//") or line.endswith("*/"))


def test_the_page_has_nothing_inline_and_relative_addresses_alone():
    page = text_of(INDEX)

    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"\son\w+=", page)
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert addresses
    assert [x for x in addresses if x.startswith(("/", "http"))] == []


def test_the_modules_can_be_joined():
    script = joined_modules("main.js", text_of)

    for path in PATHS:
        if path.endswith(".js"):
            assert f'joinedModules["{path}"] =' in script, f"{path} is never imported"
