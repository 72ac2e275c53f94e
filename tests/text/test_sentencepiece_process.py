"""SentencePiece trains in a subprocess that ends with its parent."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import sentencepiece
from tests.processes import busy_child, is_gone, write_slow_text

from headwise.errors import ResourceError
from headwise.text import sentencepiece_process
from headwise.text.sentencepiece_process import SentencePieceError, train_sentencepiece

OPTIONS = {"model_type": "bpe", "vocab_size": 60, "minloglevel": 2}
LINES = ["The animal didn't cross the street because it was too tired.", "Ça va ?"]

SLOW = """
import signal, sys
from headwise.text.sentencepiece_process import train_sentencepiece
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
train_sentencepiece(
    dict(model_type="unigram", vocab_size=2000, max_sentence_length=100_000),
    open(sys.argv[1]).read().split(),
)
"""


@pytest.fixture
def slow(tmp_path):
    """Start to learn from a text that takes minutes."""
    if sys.platform != "linux":
        pytest.skip("its child is looked for in /proc")
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, write_slow_text(tmp_path / "slow.txt")],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()
    process.stderr.close()


def test_a_subprocess_trains_the_same_tokenizer():
    """Line ends and zeros inside a line too: each line arrives byte for byte."""
    import io

    lines = [*LINES, "a\nb", "a\r\nb\0c", ""]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        **OPTIONS, sentence_iterator=iter(lines), model_writer=model
    )

    assert train_sentencepiece(OPTIONS, lines) == model.getvalue()


def test_messages_of_sentencepiece_are_returned():
    with pytest.raises(SentencePieceError, match="sentences_"):
        train_sentencepiece(OPTIONS, [])
    with pytest.raises(SentencePieceError, match="no_such_option"):
        train_sentencepiece({**OPTIONS, "no_such_option": 1}, LINES * 100_000)


def children():
    """Return the child processes, of other tests too, such as a browser."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            _, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid():
                found.add(stat.parent.name)
    return found


def test_an_error_of_the_lines_is_theirs_and_leaves_no_child():
    def lines():
        yield "one"
        raise ZeroDivisionError

    before = children()
    with pytest.raises(ZeroDivisionError):
        train_sentencepiece(OPTIONS, lines())
    assert children() <= before


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)]
)
def test_a_signal_is_handled_while_a_tokenizer_is_trained(slow, number, code):
    """Sent to all of them, as a terminal and many supervisors do."""
    child = busy_child(slow)
    os.killpg(slow.pid, number)
    _, error = slow.communicate(timeout=30)

    assert slow.returncode == code
    assert b"Traceback" not in error
    assert is_gone(child)


def test_the_subprocess_exits_with_its_parent(slow):
    child = busy_child(slow)
    slow.kill()

    assert is_gone(child)


def test_a_stop_signal_to_the_subprocess_does_not_end_it(slow):
    """Whoever stops a whole service means us; what follows is for us to say."""
    child = busy_child(slow)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(child, number)
    slow.terminate()
    slow.communicate(timeout=30)

    assert slow.returncode == 75


def test_a_child_that_was_killed_is_told_from_one_that_found_nothing(monkeypatch):
    children = []

    class Noted(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            children.append(self)

    def lines():
        (child,) = children
        child.kill()
        yield from LINES * 100_000

    monkeypatch.setattr(subprocess, "Popen", Noted)
    with pytest.raises(ResourceError, match=r"SIGKILL.*text\.sample_pairs"):
        train_sentencepiece(OPTIONS, lines())


def test_without_a_python_to_start_it_is_said(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ResourceError, match="/nowhere/python"):
        train_sentencepiece(OPTIONS, LINES)


def test_the_child_finds_what_we_found(monkeypatch, tmp_path):
    """A script may have put its own places on the path; and "" is where one stands."""
    places = [each for each in sys.path if "site-packages" not in each]
    here = str(Path(sentencepiece.__file__).parents[1])
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", *places])

    assert train_sentencepiece(OPTIONS, LINES)


def test_the_subprocess_imports_neither_torch_nor_numpy():
    """It starts for each tokenizer, so it brings in neither torch nor numpy."""
    probe = f"import sys, {sentencepiece_process.__name__}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    )
    assert not {"torch", "numpy"} & set(done.stdout.split())
