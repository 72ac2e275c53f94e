"""Attention in a browser: all heads, one head, one cell, and a changed model."""

import json
import re
from base64 import b64encode
from io import BytesIO

import pytest
from PIL import Image
from tests.serving.demo_requests import TIRED
from tests.serving.synthetic_attention import attention_answer

WIDTH = "() => document.documentElement.scrollWidth"


def test_a_head_that_is_switched_off_turns_il_into_elle(open_page):
    page = open_page(text=TIRED)
    assert "qu'il était" in page.text("#comparison")
    page.click("[id='power-cross.0.3']")
    assert page.texts("#comparison del") == ["qu'il", "fatigué"]
    assert page.texts("#comparison ins") == ["qu'elle", "fatiguée"]
    assert page.texts(".chip bdi") == ["cross.0.3 off"]
    assert "elle" in page.texts(".token-list.queries .token"), "of the changed model"
    page.click("[id='chip-0']")
    assert page.texts("#comparison del") == []
    assert "il" in page.texts(".token-list.queries .token")


def test_a_sublayer_and_a_residual_connection_are_switched_off(open_page):
    page = open_page(text=TIRED, view="model", level="decoder.1")
    for name in ("part-decoder.1.feed_forward", "residual-decoder.1.self_attention"):
        page.page.uncheck(f"[id='model-{name}']")
        page.settle()
    assert page.texts(".chip bdi") == [
        "decoder.1.feed_forward off",
        "decoder.1.self_attention without residual connection",
    ]
    assert page.texts("#comparison .name") == ["Before", "After"]
    page.click("#all-back")
    assert page.texts(".chip") == []


def test_a_row_is_replaced_and_the_heads_behind_it_look_elsewhere(open_page):
    """The position before *il* finds *tired*; sent to *The*, it loses the gender."""
    page = open_page(text=TIRED, head="cross.0.3", query=13, key=0)
    page.click("#row-only")
    assert page.texts(".chip bdi") == ["cross.0.3, row 13 replaced"]
    assert page.texts("#comparison ins")[:1] == ["qu'elle"]
    assert re.search(r"attends to ·The 0: 1\.000", page.text(".matrix-readout"))
    page.click("#row-back")
    assert page.texts("#comparison del") == []


def test_weights_that_are_typed_are_divided_by_their_sum(open_page):
    page = open_page(text=TIRED, head="cross.0.3", query=13, key=0)
    page.page.click(".row-editor summary")
    for index in range(len(page.texts(".typed-weights li"))):
        page.page.fill(f"#weight-{index}", "3" if index < 2 else "0")
    page.click(".row-editor button[type=submit]")
    assert "rows=cross.0.3%4013%3D0%3A0.5%2C1%3A0.5" in page.page.url
    assert re.search(r"attends to ·The 0: 0\.500", page.text(".matrix-readout"))


def test_a_cell_shows_the_product_of_query_and_key_in_numbers(open_page):
    """docs/inside.md has these numbers from the command line."""
    page = open_page(text=TIRED, head="decoder.1.0", query=13, key=1)
    numbers = dict(
        zip(
            page.texts(".named-number .name"),
            page.texts(".named-number strong"),
            strict=True,
        )
    )
    assert numbers == {"q·k": "29.752", "score": "6.073", "weight": "0.934"}
    page.page.click(".cell-numbers details summary")
    page.page.wait_for_selector(".cell-numbers details:nth-of-type(1) td")
    *channels, total = page.texts(
        ".cell-numbers details:nth-of-type(1) td:nth-of-type(3)"
    )
    values = [float(each.replace("\u2212", "-")) for each in channels]
    assert float(total) == pytest.approx(29.752)
    assert sum(values) == pytest.approx(29.752, abs=0.001 * len(values))


def test_a_masked_cell_says_so(open_page):
    page = open_page(text=TIRED, head="decoder.1.0", query=2, key=9)
    assert "masked" in page.text(".score-steps")


def test_a_token_that_is_pointed_at_lights_wherever_it_stands(open_page):
    page = open_page(text=TIRED, head="encoder.0.0")
    page.page.hover(".token-list.queries li:nth-child(9) .token")
    lit = page.page.eval_on_selector_all(
        ".token.lit", "all => all.map(each => each.dataset.token)"
    )
    assert lit == ["source:8", "source:8"], "as a query and as a key"
    lines = page.page.eval_on_selector_all(".token-lines line.on", "all => all.length")
    assert lines > 0


def test_pointing_at_a_cell_lights_its_query_and_its_key(open_page):
    page = open_page(text=TIRED, head="cross.0.3")
    page.page.focus("#matrix")
    page.press("ArrowDown", "ArrowRight", "ArrowRight")
    lit = page.page.eval_on_selector_all(
        ".token.lit", "all => all.map(each => each.dataset.token)"
    )
    assert lit == ["target:1", "source:2"]


def test_everything_can_be_reached_by_the_keyboard(open_page):
    page = open_page(text=TIRED)
    page.page.focus("[id='head-cross.0.0']")
    page.press("ArrowRight", "ArrowRight", "ArrowRight", "Enter")
    assert "head=cross.0.3" in page.page.url
    page.press("o")
    assert page.texts(".chip bdi") == ["cross.0.3 off"]
    focused = page.page.evaluate("() => document.activeElement.id")
    assert focused == "head-cross.0.3", "the keyboard stays where it was"
    page.press("o", "Home", "ArrowDown", "Enter")
    assert "head=encoder.1.0" in page.page.url
    page.page.focus("#matrix")
    page.press("ArrowDown", "ArrowRight", "Enter")
    assert "query=1&key=1" in page.page.url
    assert page.text(".named-number .name") == "q·k"
    page.press("o")
    assert page.texts(".chip bdi") == ["encoder.1.0 off"]


def test_it_says_that_weights_are_not_explanations_and_leads_to_attribution(open_page):
    page = open_page(text=TIRED)
    assert "not explanations" in page.text(".caution")
    page.click(".caution button")
    assert "view=attribution" in page.page.url


def test_pooled_maps_of_a_thousand_tokens_open_in_full(open_page):
    """A strong weight that is alone is seen in the overview, and found in the head."""
    source = [f"▁word{index}" for index in range(1000)]

    def answer(route):
        body = json.loads(route.request.post_data)
        route.fulfill(
            body=attention_answer(source, ["encoder.0.0", "encoder.0.1"], body),
            content_type="application/octet-stream",
        )

    page = open_page(
        text="long",
        head="encoder.0.1",
        query=700,
        key=699,
        routes={"api/attention": answer},
    )
    assert "700 attends to ·word699 699: 0.900" in page.text(".matrix-readout")
    assert "24 positions" in page.text(".token-lines >> xpath=..")
    assert page.page.evaluate("() => document.querySelectorAll('*').length") < 3000
    page.page.focus("#matrix")
    page.press("+", "+", "+", "+", "+", "+", "+", "+", "+", "+", "ArrowDown")
    assert "·word701 701 attends to ·word699 699" in page.text(".matrix-readout")


def test_long_tokens_other_scripts_and_emoji_fit(open_page):
    """A family is one letter of several characters; Arabic runs from right to left."""
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    arabic, combined = "▁السلام", "▁e\u0301\u0323\u0308tude"
    source = [arabic, combined, family, "x" * 300, "▁שלום", "</s>"]

    def answer(route):
        body = json.loads(route.request.post_data)
        route.fulfill(
            body=attention_answer(source, ["encoder.0.0"], body),
            content_type="application/octet-stream",
        )

    page = open_page(width=320, text="x", routes={"api/attention": answer})
    shown = page.texts(".token-list.queries .token")
    assert shown == [each.replace("▁", "·") for each in source]
    directions = page.page.eval_on_selector_all(
        ".token-list.queries .token",
        "all => all.map(each => each.matches(':dir(rtl)'))",
    )
    assert directions == [True, False, False, False, True, False]
    assert page.page.evaluate(WIDTH) <= 320


def test_a_query_is_drawn_over_the_picture_that_it_looks_at(open_page):
    """Query 3 looks at patch 1 of 2 x 2, behind [class]: the upper right one."""
    white = Image.new("RGB", (8, 8), "white")
    file = BytesIO()
    white.save(file, "PNG")
    patches = {"rows": 2, "columns": 2, "frames": 1, "first": 1}
    patches["image"] = f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"

    def answer(route):
        body = json.loads(route.request.post_data)
        source = ["[class]", "0,0", "0,1", "1,0", "1,1"]
        route.fulfill(
            body=attention_answer(source, ["encoder.0.0"], body, patches=patches),
            content_type="application/octet-stream",
        )

    page = open_page(text="x", query=3, key=2, routes={"api/attention": answer})
    page.page.wait_for_timeout(100)
    colours = page.page.evaluate(
        """() => {
          const canvas = document.querySelector("canvas.patches");
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const at = (x, y) => {
            const pixel = Math.floor(height * y) * width + Math.floor(width * x);
            return [...data.slice(4 * pixel, 4 * pixel + 3)];
          };
          return [at(0.25, 0.25), at(0.75, 0.25), at(0.25, 0.75), at(0.75, 0.75)];
        }"""
    )
    strong = colours.pop(1)
    assert all(strong[0] < other[0] - 80 for other in colours), "the bluest one"


def test_axe_finds_nothing(open_page):
    state = {"off": "cross.0.3", "head": "cross.1.3", "query": 3, "key": 2}
    page = open_page(text=TIRED, width=320, **state)
    for summary in page.page.query_selector_all("summary"):
        summary.click()
    assert page.violations() == [], "with all tables"
    assert page.page.evaluate(WIDTH) <= 320
    for summary in page.page.query_selector_all("summary"):
        summary.click()
    for width, scheme in ((320, "dark"), (1280, "light"), (1280, "dark")):
        page.page.set_viewport_size({"width": width, "height": 900})
        page.page.emulate_media(color_scheme=scheme)
        assert page.violations() == [], (width, scheme)
        assert page.page.evaluate(WIDTH) <= width
