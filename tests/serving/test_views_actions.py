"""What can be done in the views: force words, switch parts off, use the keyboard."""

from urllib.parse import parse_qs

from tests.serving.page_tables import ELLE, IL, TIRED, WIDE, asked, table


def state(page):
    """Return what the address of the page says."""
    address = page.page.evaluate("location.hash.slice(1)")
    return {key: value[0] for key, value in parse_qs(address).items()}


def focused(page, attribute):
    return page.page.evaluate(f"document.activeElement.getAttribute('{attribute}')")


def test_forcing_an_alternative_changes_the_output(open_page):
    page = open_page(text=TIRED, view="output")
    before = page.text("#panel .said")
    page.click("#panel button.alternative[aria-label^='elle,']")
    assert state(page)["prefix"] == ELLE
    assert page.text("#comparison ins") == "qu'elle"
    assert "il était" in before
    assert page.text("#panel .said") == f"{ELLE} était trop fatiguée."


def test_the_end_of_a_sentence_cannot_be_forced(open_page):
    page = open_page(text=TIRED, view="output")
    ends = page.page.locator("#panel .alternative").filter(has_text="</s>")
    assert ends.count() > 0
    assert ends.locator("xpath=self::button").count() == 0


def test_a_part_that_is_switched_off_is_off_everywhere(open_page):
    """A head and a sublayer, by the keyboard."""
    page = open_page(text=TIRED, view="model", level="decoder.0.cross_attention")
    page.page.focus("[id='model-part-cross.0.3']")
    page.press("Space")
    assert state(page)["off"] == "cross.0.3"
    assert focused(page, "id") == "model-part-cross.0.3", "focus stays"
    assert "elle" in page.text("#comparison ins")
    page.click("[id='level-decoder.0']")
    page.click("[id='model-part-decoder.0.feed_forward']")
    page.click("[id='model-residual-decoder.0.self_attention']")
    now = state(page)
    assert now["off"] == "cross.0.3,decoder.0.feed_forward"
    assert now["noResidual"] == "decoder.0.self_attention"
    off = [row[0] for row in table(page, "All parts") if row[2] == "off"]
    assert off == ["cross.0.3", "decoder.0.feed_forward"]
    page.page.go_back()
    page.settle()
    assert page.page.is_checked("[id='model-residual-decoder.0.self_attention']")


def test_the_model_opens_level_by_level(open_page):
    page = open_page(text=TIRED, view="model")
    for selector, level in (
        (".black", "stacks"),
        (".part:has-text('Layer 1') >> nth=1", "decoder.1"),
        (".part.cross_attention", "decoder.1.cross_attention"),
    ):
        page.click(f"#panel {selector}")
        assert state(page)["level"] == level
        assert focused(page, "id") == f"level-{level}"
    assert len(page.texts("#panel .heads > .part")) == 4
    page.click("[aria-label='Attention of cross.1.2']")
    assert (state(page)["view"], state(page)["head"]) == ("attention", "cross.1.2")


def test_the_tree_is_followed_by_arrow_keys(open_page):
    page = open_page(text=TIRED, view="beam")
    nodes = {each["id"]: each for each in asked(page, "beam")["nodes"]}
    page.page.focus("#panel .node[tabindex='0']")
    at = nodes[int(focused(page, "data-node"))]
    for _ in range(14):
        page.press("ArrowRight")
        child = nodes[int(focused(page, "data-node"))]
        assert child["parent"] == at["id"]
        at = child
    assert f"step {at['step']}, rank {at['rank']}" in page.text("#panel .chosen")
    page.press("ArrowDown")
    assert nodes[int(focused(page, "data-node"))]["rank"] == at["rank"] + 1
    assert page.page.locator("#panel .node[tabindex='0']").count() == 1


def test_what_was_dropped_can_be_hidden(open_page):
    page = open_page(text=TIRED, view="beam")
    assert page.page.locator("#panel .node.dropped").count() > 0
    page.click("#hide-dropped")
    assert page.page.locator("#panel .node.dropped").count() == 0


def test_a_matrix_says_what_its_cell_is(open_page):
    """13 down, 12 to the right: what *il* owes to *tired*."""
    page = open_page(text=TIRED, view="attribution")
    page.page.focus("#panel .cells >> nth=0")
    page.press(*["ArrowDown"] * 13, *["ArrowRight"] * 12)
    said = page.text("#panel .readout")
    value = asked(page, "attribution")["leave_one_out"][13][12]
    assert said == f"il (13) \u2190 \u00b7tired (12): {value:.3f} nats"


def test_a_token_is_lit_wherever_it_stands(open_page):
    page = open_page(text=TIRED, view="attribution")
    page.page.hover("#panel .labels.columns [data-token='source:12'] >> nth=0")
    lit = page.page.locator("#panel .token.lit")
    assert {each.text_content() for each in lit.all()} == {"\u00b7tired"}
    assert lit.count() == 2
    assert page.page.locator("#panel .band:not([hidden])").count() == 2


def test_the_lens_tells_alternatives_on_focus(open_page):
    page = open_page(text=TIRED, view="lens")
    page.page.focus("#panel .cell >> nth=2")
    page.press("ArrowDown", "ArrowLeft")
    each = asked(page, "lens")["layers"][1]["positions"][1]
    assert page.text("#panel .chosen h3") == "After layer 0, position 1"
    written = page.texts("#panel .chosen li bdi")
    assert written == [
        x["piece"].replace("\u2581", "\u00b7") for x in each["alternatives"]
    ]


def test_head_and_position_of_a_word_are_chosen(open_page):
    page = open_page(text=TIRED, view="word")
    page.page.select_option("#word-head", "cross.0.3")
    page.settle()
    page.page.wait_for_selector("#word-position-13")
    page.click("#word-position-13")
    now = state(page)
    assert (now["head"], now["query"]) == ("cross.0.3", "13")
    assert "Channels 72 to 95" in page.text("#panel .steps")


def test_a_form_asks_what_patching_needs(open_page):
    page = open_page(text=WIDE, view="patch")
    assert "Fill in two texts" in page.text("#panel .needs")
    for name, value in (("donor", TIRED), ("target", IL), ("other", ELLE)):
        page.page.fill(f"#panel input[name={name}]", value)
    page.click("#patch-run")
    assert "decoder.1.0" in page.text("#panel .said")
    page.click("#panel .bars button >> nth=1")
    now = state(page)
    assert (now["view"], now["head"], now["query"]) == ("attention", "cross.0.3", "13")
