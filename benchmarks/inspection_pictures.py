"""Pictures of the inspection page for docs/inside.md, taken in headless Chromium.

python benchmarks/inspection_pictures.py --out docs/inside

The committed demo model is served by ``headwise inspect --serve``, and each state of
the page is opened by the address that restores it.
"""

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "tests" / "models" / "demo"

WIDTH = 1280
"""Of the window, in CSS pixels."""

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
HE = "L'animal n'a pas traversé la rue parce qu'il"
SHE = "L'animal n'a pas traversé la rue parce qu'elle"


@dataclass(frozen=True)
class Picture:
    """A state of the page, and how it is looked at."""

    state: dict[str, object]
    height: int = 900
    dark: bool = False
    of: str = "body"
    """The element that is taken."""


PICTURES = {
    "heads": Picture({"text": TIRED, "head": "cross.0.3", "query": 13}, height=1250),
    "switched-off": Picture({"text": TIRED, "head": "cross.0.3", "off": "cross.0.3"}),
    "beam": Picture({"text": TIRED, "view": "beam"}, of="#panel"),
    "word": Picture(
        {"text": TIRED, "view": "word", "head": "decoder.1.0", "query": 13},
        dark=True,
        height=2400,
        of="#panel",
    ),
    "patch": Picture(
        {"text": WIDE, "donor": TIRED, "target": HE, "other": SHE, "view": "patch"},
        of="#panel",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "headwise", "inspect", str(MODEL), "--serve"]
    server = subprocess.Popen(
        [*command, "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        address = _address(server)
        with sync_playwright() as started:
            browser = started.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for name, picture in PICTURES.items():
                _take(browser, address, picture, out / f"{name}.png")
            browser.close()
    finally:
        server.terminate()
        server.wait()


def _address(server: subprocess.Popen) -> str:
    for line in server.stderr:
        if "http://" in line:
            return "http://" + line.split("http://")[1].split("#")[0].strip()
    raise SystemExit("the server did not start")


def _take(browser, address: str, picture: Picture, path: Path) -> None:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{address}#{urlencode(picture.state)}")
    page.wait_for_selector("#panel > *")
    page.wait_for_selector(".busy", state="detached")
    if picture.of == "body":
        page.screenshot(path=path)
    else:
        page.locator(picture.of).screenshot(path=path)
    context.close()
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
