"""Measure the inspection page in a headless Chromium: drawing, hovering, switching.

python benchmarks/inspection_page.py
python benchmarks/inspection_page.py --model FOLDER

Synthetic attention of 6 layers x 8 heads x 512 x 512 weights is served to the real
page, once in full (each head as it is) and once as the real server does it (max-pooled
for small pictures). Drawing is counted from the last byte of the answer to the frame in
which all heads and the large matrix stand; hovering is the frames a second while the
pointer moves over the large matrix, which lights tokens and all small pictures. Then a
model of translation is served as ``headwise inspect --serve`` does: a text of 1,000
tokens, and the seconds from the click that switches a head off to both translations.

Chromium draws in software here: with a graphics card it is faster.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from result_file import TRANSLATION, Measurement, add_options, place_of

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "inspection_page.json"
DEMO = ROOT / "tests" / "models" / "demo"
SOURCES = [
    *TRANSLATION,
    "src/headwise/inspection/**/*",
    "src/headwise/serving/**/*",
]
LAYERS, HEADS, LENGTH = 6, 8, 512
HEAD = "encoder.3.4"

WATCH = """
(() => {
  const read = Response.prototype.arrayBuffer;
  Response.prototype.arrayBuffer = async function () {
    const buffer = await read.call(this);
    window.answered ??= performance.now();
    return buffer;
  };
})();
"""
"""Notes when the page has the bytes of the first answer of attention."""

DRAWN = """
(heads) => new Promise((resolve) => {
  const look = () => {
    const tiles = document.querySelectorAll(".tile-button canvas").length;
    const large = document.querySelector("canvas.matrix-canvas");
    if (tiles < heads || !large || document.querySelector("#panel .busy")) {
      requestAnimationFrame(look);
    } else {
      requestAnimationFrame(() => requestAnimationFrame(() => resolve({
        draw: (performance.now() - window.answered) / 1000,
        all: performance.now() / 1000,
      })));
    }
  };
  look();
})
"""
"""Seconds from the answer, and from navigation, to the frame that has all of it."""

COUNT_FRAMES = """
() => {
  window.frames_at = [];
  const note = (at) => {
    window.frames_at.push(at);
    if (!window.counted) requestAnimationFrame(note);
  };
  window.counted = false;
  requestAnimationFrame(note);
}
"""

FRAMES = "() => { window.counted = true; return window.frames_at; }"


class SyntheticModel:
    """Answers attention that is made up, in place of an ``InspectedModel``."""

    def __init__(self, length: int, *, pooled: bool) -> None:
        import torch

        from headwise.inspection.attention import Attention, AttentionMap
        from headwise.inspection.places import Head

        generator = torch.Generator().manual_seed(1)
        self.pooled = pooled
        self.pieces = tuple(f"▁w{index}" for index in range(length))
        self.found = Attention(
            self.pieces,
            (),
            (),
            tuple(
                AttentionMap(
                    Head("encoder", layer, head),
                    (4 * torch.randn(length, length, generator=generator)).softmax(-1),
                )
                for layer in range(LAYERS)
                for head in range(HEADS)
            ),
        )

    def facts(self) -> dict[str, Any]:
        """Return what the page shows of the model."""
        heads = [str(each.head) for each in self.found.maps]
        return {
            "format": 1,
            "name": "synthetic",
            "task": "classification",
            "languages": None,
            "config": {"encoder_layers": LAYERS, "num_heads": HEADS},
            "parameters": 0,
            "heads": heads,
            "sublayers": [],
            "views": ["attention"],
            "drawn": [],
            "examples": [],
        }

    def answer(
        self, view: str, table: Mapping[str, Any], check_stop: object = None
    ) -> tuple[str, bytes]:
        """Return the maps that are asked for."""
        from dataclasses import replace

        from headwise.serving.attention_binary import encode_attention

        wanted = table.get("heads")
        maps = [
            each
            for each in self.found.maps
            if wanted is None or str(each.head) in wanted
        ]
        side = table.get("max_side") if self.pooled else None
        found = replace(self.found, maps=tuple(maps))
        return "application/octet-stream", encode_attention(found, max_side=side)


@contextmanager
def served(model: Any) -> Iterator[str]:
    """Serve the page of a model on loopback; yield the address."""
    import uvicorn

    from headwise.serving.inspection_app import inspection_app
    from headwise.serving.run_server import address, bind

    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(inspection_app(model), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield address(listening)
    finally:
        server.should_exit = True
        thread.join(10)


def measure_drawing(
    browser: Any, address: str, state: Mapping[str, Any], heads: int, seconds: float
) -> dict[str, Any]:
    """Open the page at a state; return how long it draws, and its frames a second."""
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.set_default_timeout(300_000)
    page.add_init_script(WATCH)
    page.goto(f"{address}#{urlencode(state)}")
    drawn = page.evaluate(DRAWN, heads)
    found = {
        "draw_seconds": round(drawn["draw"], 3),
        "seconds_until_it_stands": round(drawn["all"], 3),
        "elements": page.evaluate("() => document.querySelectorAll('*').length"),
        "hover": hover(page, seconds),
    }
    page.close()
    return found


def hover(page: Any, seconds: float) -> dict[str, Any]:
    """Move the pointer over the large matrix; return the frames meanwhile."""
    matrix = page.query_selector("#matrix")
    matrix.scroll_into_view_if_needed()
    box = matrix.bounding_box()
    left, top = box["x"] + 60, box["y"] + 60
    width, height = min(box["width"], 600) - 80, box["height"] - 80
    page.evaluate(COUNT_FRAMES)
    ends = time.monotonic() + seconds
    moves = 0
    while time.monotonic() < ends:
        part = (moves % 97) / 97
        page.mouse.move(left + part * width, top + (moves * 7 % 89) / 89 * height)
        moves += 1
    times = page.evaluate(FRAMES)
    gaps = [after - before for before, after in pairwise(times)]
    return {
        "frames_per_second": round(1000 * len(gaps) / (times[-1] - times[0]), 1),
        "median_gap_ms": round(statistics.median(gaps), 1),
        "p95_gap_ms": round(sorted(gaps)[int(0.95 * len(gaps))], 1),
        "pointer_moves_per_second": round(moves / seconds, 1),
    }


def measure_switch(browser: Any, address: str, text: str, rounds: int) -> list[float]:
    """Return the seconds from a click on a head's switch to both translations."""
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    seconds = []
    for number in range(rounds):
        page.goto("about:blank")
        page.goto(f"{address}#{urlencode({'text': text})}")
        page.wait_for_selector(".busy", state="detached")
        page.wait_for_selector("#comparison .text")
        switch = page.wait_for_selector(f"[id='power-cross.0.{number % 4}']")
        started = time.perf_counter()
        switch.click()
        page.wait_for_selector("#comparison .written:nth-child(2)")
        page.wait_for_selector(".busy", state="detached")
        seconds.append(round(time.perf_counter() - started, 3))
    page.close()
    return seconds


def long_text(model: Any, text: str, tokens: int) -> str:
    """Repeat a text until it has at least so many tokens."""
    one = len(model.inspector.pair(text, text).source) - 1
    return " ".join([text] * -(-tokens // one))


def measure_model(browser: Any, folder: Path, rehearse: bool) -> dict[str, Any]:
    """Return what is measured of a real model."""
    from headwise.serving.inspected_model import open_model

    model = open_model(folder, "cpu")
    text = model.opened.golden[0].source
    source = long_text(model, text, 100 if rehearse else 1000)
    state = {"text": source, "target": source, "head": "encoder.0.0"}
    pair = model.inspector.pair(source, source)
    with served(model) as address:
        # Without a target, the time would be that of the search.
        found = measure_drawing(
            browser, address, state, len(model.facts()["heads"]), 1 if rehearse else 3
        )
        switches = measure_switch(browser, address, text, 2 if rehearse else 5)
    config = model.facts()["config"]
    names = ("encoder_layers", "decoder_layers", "d_model", "num_heads")
    return {
        "model": {name: config[name] for name in names},
        "long_text": {
            "source_tokens": len(pair.source),
            "target_tokens": len(pair.target),
            **found,
        },
        "switch_a_head_off": {
            "tokens": len(model.inspector.pair(text, text).source),
            "seconds": switches,
            "median": statistics.median(switches),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=DEMO, help="a translation model")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()

    import torch
    from playwright.sync_api import sync_playwright

    torch.set_num_threads(1)
    measurement = Measurement.begin(SOURCES)
    length = 64 if arguments.rehearse else LENGTH
    seconds = 1 if arguments.rehearse else 3
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        synthetic = {}
        for name, pooled in (("in full", False), ("max-pooled", True)):
            with served(SyntheticModel(length, pooled=pooled)) as address:
                state = {"text": "x", "head": HEAD}
                synthetic[name] = measure_drawing(
                    browser, address, state, LAYERS * HEADS, seconds
                )
        figures = {
            "browser": f"Chromium {browser.version}, headless, drawn in software",
            "synthetic": {
                "layers": LAYERS,
                "heads": HEADS,
                "length": length,
                **synthetic,
            },
            "translation": measure_model(browser, arguments.model, arguments.rehearse),
        }
        browser.close()
    measurement.write(place_of(arguments), figures)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
