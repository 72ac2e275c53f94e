"""Streaming: blocks are prefetched, in order, bounded, and nothing is lost."""

import pytest

from headwise.errors import DataError
from headwise.inference.streaming_translation import PREFETCH_BLOCKS
from headwise.inference.translator import PAUSE, load

BLOCK = 16


class FakeAsyncEngine:
    """An engine with futures: it logs calls, and they are done when ``done`` is set."""

    name = "fake"

    def __init__(self, engine):
        self.engine = engine
        self.used = {}
        self.done = False
        self.log = []

    def can_search(self, settings):
        return True

    def search(self, *asked):
        return self.engine.search(*asked)

    def submit(self, *request):
        self.log.append("submitted")
        return FakeFuture(self, request)


class FakeFuture:
    def __init__(self, engine, request):
        self.engine, self.request = engine, request

    def done(self):
        return self.engine.done

    def result(self):
        self.engine.log.append("collected")
        return self.engine.search(*self.request)

    def cancel(self):
        self.engine.log.append("cancelled")


@pytest.fixture(scope="module")
def translator(tiny_run):
    return load(tiny_run, engine="torch")


@pytest.fixture
def fake(translator, monkeypatch):
    engine = FakeAsyncEngine(translator.engine)
    monkeypatch.setattr(translator, "engine", engine)
    monkeypatch.setattr("headwise.inference.streaming_translation.BLOCK_LINES", BLOCK)
    return engine


TEXTS = [f"{each}." for each in ("one", "two", "", "six five", "four")] * BLOCK


def test_outputs_do_not_depend_on_when_futures_are_done(translator, fake):
    theirs = [each.text for each in translator.lines(TEXTS, beam=1)]
    fake.done = True
    ready = [each.text for each in translator.lines(TEXTS, beam=1)]
    alone = [translator.translate(text, beam=1) for text in TEXTS[:5]]

    assert theirs == ready == alone * BLOCK


def test_blocks_are_submitted_while_others_are_searched(translator, fake):
    list(translator.lines(TEXTS, beam=1))

    ahead = PREFETCH_BLOCKS + 1
    assert fake.log[: ahead + 1] == ["submitted"] * ahead + ["collected"]
    held = 0
    for each in fake.log:
        held += 1 if each == "submitted" else -1
        assert 0 <= held <= ahead
    assert fake.log.count("submitted") == len(TEXTS) / BLOCK


def test_searches_that_nobody_waits_for_are_cancelled(translator, fake):
    lines = translator.lines(TEXTS, beam=1)
    next(lines)
    lines.close()

    waiting = fake.log.count("submitted") - fake.log.count("collected")
    assert fake.log.count("cancelled") == waiting > 0


def test_finished_lines_do_not_wait_for_a_slow_stream(translator, fake):
    """Of a stream that has no further block yet, what was asked comes out."""
    read = []

    def slow():
        for number in range(10 * BLOCK):
            read.append(number)
            fake.done = number > BLOCK
            yield "one."

    next(translator.lines(slow(), beam=1))

    assert len(read) <= 2 * BLOCK


@pytest.mark.parametrize("count", [3, 2 * BLOCK])
def test_lines_read_before_an_error_are_translated(translator, fake, count):
    def broken():
        yield from ["one."] * count
        raise DataError("the rest cannot be read")

    found = []
    with pytest.raises(DataError, match="the rest"):
        found.extend(translator.lines(broken(), beam=1))
    # extend keeps what came before the error

    assert [each.source for each in found] == ["one."] * count


def test_a_block_of_long_lines_has_fewer(translator, fake, monkeypatch):
    monkeypatch.setattr("headwise.inference.streaming_translation.BLOCK_CHARACTERS", 20)

    list(translator.lines(["one two three four."] * 8, beam=1))

    assert fake.log.count("submitted") == 4


def test_before_a_pause_everything_is_translated(translator, fake):
    """Else an answer would wait for input that may never come."""
    read = []

    def typed():
        for line in ("one.", "two.", PAUSE, PAUSE, "six.", PAUSE):
            read.append(line)
            yield line

    lines = translator.lines(typed(), beam=1)
    before = [(next(lines).source, len(read)) for _ in range(3)]
    expected = [translator.translate(each, beam=1) for each in ("one.", "two.")]

    assert before == [("one.", 3), ("two.", 3), ("six.", 6)]
    assert list(lines) == []
    pauses = translator.lines(["one.", PAUSE, "two."], beam=1)
    assert [each.text for each in pauses] == expected


def test_pauses_take_neither_prefixes_nor_settings(translator):
    lines = ["one.", PAUSE, "two."]
    found = translator.lines(lines, prefixes=["sechs", "drei"], each=[{}, {"beam": 1}])

    first, last = [each.text for each in found]
    assert first.startswith("sechs")
    assert last.startswith("drei")


def test_a_long_line_is_submitted_before_all_of_it_is_split(
    translator, fake, monkeypatch
):
    """A line of megabytes was cut in silence, and then searched at one go."""
    monkeypatch.setattr("headwise.inference.streaming_translation.BLOCK_PIECES", 8)
    fake.done = True
    line = "one two three. " * 40
    reports = []
    (found,) = translator.lines([line], beam=1, on_progress=reports.append)

    assert fake.log.count("submitted") >= 5
    done = [each.characters for each in reports if each.of_characters]
    assert done == sorted({*done})
    assert len(done) >= 4
    assert all(each.of_characters in (0, len(line)) for each in reports)
    assert reports[-1].lines == 1
    alone = translator.translate("one two three.", beam=1)
    assert found.text == " ".join([alone] * 40) + " "


def test_lines_around_a_long_one_keep_their_order(translator, fake, monkeypatch):
    monkeypatch.setattr("headwise.inference.streaming_translation.BLOCK_PIECES", 4)
    lines = ["six.", "one two three. " * 30, "four.", "", "five. " * 30, "two."]
    found = list(translator.lines(lines, beam=1))

    assert [each.source for each in found] == lines
    short = [found[place].text for place in (0, 2, 3, 5)]
    assert short == [translator.translate(lines[n], beam=1) for n in (0, 2, 3, 5)]


def test_carriage_returns_set_texts_apart_and_are_said(translator):
    (found,) = translator.lines(["one two.\rsix.\r\rfour."], beam=1)
    alone = [translator.translate(each, beam=1) for each in ("one two.", "six.")]

    assert found.text.startswith(" ".join(alone))
    assert "\r" not in found.text
    assert found.warnings[0] == (
        "the line holds 3 \\r without \\n, which ends no line here and ended one on "
        "old Macs; it was translated in 3 pieces"
    )


def test_no_lines_submit_no_search(translator, fake):
    assert list(translator.lines([])) == []
    assert fake.log == []
