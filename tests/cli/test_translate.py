"""``headwise translate``: N lines in, N lines out, whatever the bytes."""

import gzip
import json
import os
import pty
import shutil
import signal
import subprocess

import pytest

from headwise.inference.translator import load


@pytest.fixture(scope="module")
def expected(tiny_run):
    translator = load(tiny_run, engine="torch")
    return lambda *texts: "".join(f"{each}\n" for each in translator.translate(texts))


@pytest.fixture
def write(tmp_path):
    def make(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return make


def test_standard_input_becomes_standard_output(
    headwise, tiny_run, expected, prefers_native_backend
):
    how = ("--engine", "torch")
    found = headwise("translate", tiny_run, *how, stdin=b"one two.\nsix.\n")

    assert found == type(found)(0, expected("one two.", "six."), "")


def test_a_model_folder_can_be_named_too(headwise, tiny_run, expected):
    found = headwise("translate", tiny_run / "best", stdin=b"six.\n")

    assert found.out == expected("six.")


def test_files_follow_each_other_plain_or_gzip(headwise, tiny_run, expected, write):
    plain = write("a.en", b"one.\ntwo.")  # the last line without its end
    zipped = write("b.en.gz", gzip.compress(b"three.\n"))
    found = headwise("translate", tiny_run, plain, zipped, plain)

    assert found.code == 0
    assert found.out == expected(*["one.", "two.", "three.", "one.", "two."])


def test_a_dash_is_standard_input(headwise, tiny_run, expected, write):
    file = write("a.en", b"one.\n")
    found = headwise("translate", tiny_run, file, "-", file, stdin=b"six.\n")

    assert found.out == expected("one.", "six.", "one.")


def test_a_pipe_is_as_good_as_a_file(headwise, tiny_run, expected, tmp_path):
    """As bash makes one for: headwise translate en-de <(zcat text.gz)."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["bash", "-c", f"echo six. > '{pipe}'"]):
        found = headwise("translate", tiny_run, pipe)

    assert found.out == expected("six.")


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"\n\n \n", 3),
        (b"one.", 1),
        (b"one.\r\ntwo.\r\n", 2),
        (b"one.\rtwo.\n", 1),
        ("one.\u2028two.\x85three.\n".encode(), 1),
        ("👩‍👩‍👧 one 🇩🇪.\n".encode(), 1),
        (b"\xef\xbb\xbfone.\n", 1),
        (b"\x00\n\x01\n", 2),
        (b"\xff\n\xc3\n", 2),
        (b"one.\rtwo.\r", 1),
    ],
)
def test_as_many_lines_come_out_as_went_in(headwise, tiny_run, raw, lines):
    found = headwise("translate", tiny_run, "--beam", "1", stdin=raw)

    assert found.code == 0
    assert found.out.count("\n") == lines
    assert found.out == "" or found.out.endswith("\n")
    assert "\r" not in found.out


def test_windows_line_ends_are_dropped_and_said(headwise, tiny_run, expected):
    found = headwise("translate", tiny_run, stdin=b"one two.\r\nsix.\r\n")

    assert found.out == expected("one two.", "six.")
    assert "2 lines of 2 ended in \\r\\n; the \\r was dropped" in found.error


def test_text_of_an_old_mac_is_translated_whole_and_said(headwise, tiny_run, expected):
    """Its lines were one, of which the model said the first sentence."""
    found = headwise("translate", tiny_run, stdin=b"one two.\rsix.\rfour.\r")

    whole = expected("one two.", "six.", "four.")
    assert found.out == whole.rstrip("\n").replace("\n", " ") + "\n"
    assert "line 1: the line holds 2 \\r without \\n" in found.error
    assert "translated in 3 pieces" in found.error


@pytest.mark.parametrize("name", ["text.en.gz", "text.en", "-"])
def test_gzip_is_known_by_its_bytes(headwise, tiny_run, expected, write, name):
    """From standard input it was translated as if it were text."""
    zipped = gzip.compress(b"one two.\nsix.\n")
    file = write(name, zipped) if name != "-" else name
    found = headwise("translate", tiny_run, file, stdin=zipped)

    assert (found.code, found.out) == (0, expected("one two.", "six."))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["-", "text.en"])
def test_utf_16_is_refused_with_advice(headwise, tiny_run, write, name, encoding):
    content = "one two.\nsix.\n".encode(encoding)
    file = write(name, content) if name != "-" else name
    found = headwise("translate", tiny_run, file, stdin=content)

    assert (found.code, found.out) == (4, "")
    assert "looks like UTF-16 text" in found.error
    assert "iconv -f UTF-16" in found.error
    assert ("standard input" if name == "-" else str(file)) in found.error


def test_warnings_name_the_file_and_its_line(headwise, tiny_run, write):
    first = write("a.en", b"one.\nsix.\n")
    empty = write("b.en", b"")
    last = write("c.en", "two.\n水.\n".encode())
    found = headwise("translate", tiny_run, first, empty, last)

    assert f"{last}, line 2: the source has" in found.error


def test_a_line_in_pieces_warns_of_each_thing_once(headwise, tiny_run):
    line = "水 one two three four five. " * 9
    found = headwise("translate", tiny_run, "--beam", "1", stdin=line.encode())
    unknown = [each for each in found.error.split("\n") if "unknown token" in each]

    assert len(unknown) == 1
    assert unknown[0].startswith("line 1: in 9 of ")


def answered(lines, send, receive):
    """Send each line after the answer to the one before it; return the answers."""
    found = []
    for line in lines:
        send(line)
        found.append(receive())
    return "".join(found)


TALK = ("one two.", "six.", "", "three.")


@pytest.mark.parametrize("how", [[], ["--interactive"]])
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_pipe_that_stays_open_is_answered_line_by_line(
    start, tiny_run, expected, how, engine
):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    process = start(
        *("translate", tiny_run, "--engine", engine, *how), stdin=subprocess.PIPE
    )

    def send(line):
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()

    def receive():
        return process.stdout.readline().decode()

    assert answered(TALK, send, receive) == expected(*TALK)
    send("one.\ntwo.")
    assert receive() + receive() == expected("one.", "two.")
    process.stdin.close()
    assert process.wait(60) == 0
    said = process.stderr.read().decode().splitlines()
    assert [each for each in said if not each.startswith("engine: ")] == []


def test_a_terminal_is_answered_line_by_line(start, tiny_run, expected):
    """And it is said how to end; Ctrl-C ends too."""
    keyboard, terminal = pty.openpty()
    process = start("translate", tiny_run, stdin=terminal)

    def send(line):
        os.write(keyboard, f"{line}\n".encode())

    def receive():
        return process.stdout.readline().decode()

    assert b"Ctrl-D to exit" in process.stderr.readline()
    assert answered(TALK, send, receive) == expected(*TALK)
    os.write(keyboard, b"\x04")  # Ctrl-D
    assert process.wait(60) == 0
    os.close(keyboard)
    os.close(terminal)


def test_ctrl_c_ends_the_wait_for_a_line(start, tiny_run, expected):
    process = start("translate", tiny_run, stdin=subprocess.PIPE)
    process.stdin.write(b"six.\n")
    process.stdin.flush()
    assert process.stdout.readline().decode() == expected("six.")
    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 130
    assert process.stderr.read() == b"headwise: interrupted\n"


def test_bytes_that_are_no_text_are_replaced_and_said(headwise, tiny_run, write):
    file = write("latin1.en", "one.\nfünf für.\n".encode("latin1"))
    found = headwise("translate", tiny_run, file)

    assert found.code == 0
    assert found.out.count("\n") == 2
    assert f"{file}: 1 line with bytes that are not UTF-8, first line 2" in found.error


def test_a_line_of_10_000_words_comes_out_whole_and_as_one_line(headwise, tiny_run):
    line = "one two three four. " * 2_500
    found = headwise("translate", tiny_run, "--beam", "1", stdin=line.encode() + b"\n")

    assert found.code == 0
    assert found.out.count("\n") == 1
    assert len(found.out.split()) >= 2_500
    assert "line 1: the line is longer than" in found.error


def test_n_best_lists_are_json_lines_with_scores(headwise, tiny_run):
    found = headwise(
        *("translate", tiny_run, "--beam", "3", "--n-best", "2"),
        stdin="one.\n\nfünf\u2028.\n".encode(),
    )
    rows = [json.loads(line) for line in found.out.split("\n")[:-1]]

    assert [row["source"] for row in rows] == ["one.", "", "fünf\u2028."]
    assert [len(row["translations"]) for row in rows] == [2, 1, 2]
    first, second = rows[0]["translations"]
    assert first["score"] >= second["score"]
    assert rows[1]["translations"] == [{"text": "", "score": 0, "log_probability": 0}]


def test_scores_come_on_request(headwise, tiny_run, expected):
    found = headwise("translate", tiny_run, "--scores", stdin=b"one.\n")

    (row,) = [json.loads(line) for line in found.out.split("\n")[:-1]]
    assert row["translations"][0]["text"] + "\n" == expected("one.")
    assert row["translations"][0]["log_probability"] < 0


@pytest.mark.parametrize("how", [["--paper"], ["--backend", "reference"]])
def test_other_searches_and_engines_can_be_asked_for(headwise, tiny_run, how):
    found = headwise("translate", tiny_run, *how, stdin=b"one.\n")

    assert found.code == 0
    assert found.out.count("\n") == 1


@pytest.mark.parametrize(
    ("engine", "backend"), [("torch-eager", "torch"), ("torch-readable", "reference")]
)
def test_engines_by_their_old_names_go_on_working(headwise, tiny_run, engine, backend):
    old = headwise("translate", tiny_run, "--engine", engine, stdin=b"one.\n")
    new = headwise("translate", tiny_run, "--backend", backend, stdin=b"one.\n")

    assert old.code == new.code == 0
    assert old.out == new.out
    now = f"--engine {engine} is now called --engine torch --backend {backend}"
    assert now in old.error
    assert "is now called" not in new.error


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing.en"], 2, "missing.en does not exist"),
        (["."], 2, ". is a folder"),
        (["--engine", "warp"], 2, "'warp' is not an engine; known: auto"),
        (["--device", "abacus"], 2, "--device abacus is not a device"),
        (["--n-best", "9"], 3, "num_best must be at most beam=4, not 9"),
    ],
)
def test_invalid_options_have_an_exit_code_and_a_message(
    headwise, tiny_run, arguments, code, said
):
    found = headwise("translate", tiny_run, *arguments, stdin=b"one.\n")

    assert (found.code, found.out) == (code, "")
    assert said in found.error


def test_a_damaged_gzip_file_is_named(headwise, tiny_run, write):
    file = write("cut.gz", gzip.compress(b"one two three.\n" * 99)[:-12])
    found = headwise("translate", tiny_run, file)

    assert found.code == 4
    assert "cut.gz is a corrupt .gz file" in found.error


@pytest.mark.parametrize(("name", "code"), [("missing", 2), ("file", 2), ("empty", 5)])
def test_a_folder_that_is_no_model_is_named(headwise, tmp_path, name, code):
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    found = headwise("translate", tmp_path / name, stdin=b"one.\n")

    assert (found.code, found.out) == (code, "")
    assert str(tmp_path / name) in found.error


def test_a_closed_output_pipe_is_no_error(start, tiny_run):
    """headwise translate FOLDER < TEXT | head -1."""
    process = start("translate", tiny_run, "--beam", "1", stdin=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write(b"one.\n" * 20)
    process.stdin.close()

    assert process.stderr.read() == b""
    assert process.wait() == 0


@pytest.fixture
def own_model(tiny_run, tmp_path):
    """Return a model folder in which an export may be kept."""
    return shutil.copytree(tiny_run / "best", tmp_path / "model")


@pytest.mark.usefixtures("no_kernels_to_choose")
def test_it_is_said_once_which_engine_ran(headwise, own_model, expected):
    """And, where an export was made for it, where that is kept."""
    kept = own_model / "exports" / "ctranslate2-float32"
    first = headwise("translate", own_model, stdin=b"one two.\n\nsix.\n")
    again = headwise("translate", own_model, stdin=b"one two.\n\nsix.\n")
    paper = headwise("translate", own_model, "--paper", stdin=b"one.\n")

    assert first.out == again.out == expected("one two.", "", "six.")
    assert first.error == f"engine: ctranslate2 (exported to {kept})\n"
    assert again.error == "engine: ctranslate2\n"
    assert paper.error.startswith("engine: torch (CTranslate2 does not support ")
    assert paper.error.count("\n") == 1


@pytest.mark.usefixtures("uses_native_backend")
def test_the_native_backend_supports_every_search(headwise, own_model, expected):
    engines = {
        (): "native (C kernels with ",
        ("--paper",): "native (C kernels with ",
        ("--search", "coverage=0.1"): "torch (by the native backend, ",
    }
    for how, engine in engines.items():
        found = headwise("translate", own_model, *how, stdin=b"six.\n")

        assert found.out == expected("six.")
        assert found.error.startswith(f"engine: {engine}")
        assert found.error.count("\n") == 1
    assert not (own_model / "exports").exists()


def test_where_nothing_was_searched_nothing_is_said(headwise, own_model):
    found = headwise("translate", own_model, stdin=b"\n \n")

    assert (found.code, found.error) == (0, "")
    assert not (own_model / "exports").exists()


@pytest.mark.usefixtures("no_kernels_to_choose")
def test_without_the_extra_torch_does_it_and_it_is_said(
    headwise, own_model, expected, monkeypatch
):
    monkeypatch.setattr(
        "headwise.inference.engines.ctranslate2_support.find_spec", lambda name: None
    )
    found = headwise("translate", own_model, stdin=b"six.\n")

    assert found.out == expected("six.")
    assert found.error == (
        "engine: torch (the package ctranslate2 is not installed, which is faster: "
        "pip install 'headwise[fast]')\n"
    )


def test_float16_and_int8_are_for_ctranslate2_only(headwise, own_model):
    how = ("translate", own_model, "--precision", "int8")
    found = headwise(*how, stdin=b"one two.\n")
    refused = headwise(*how, "--engine", "torch", stdin=b"one two.\n")

    assert (found.code, found.out.count("\n")) == (0, 1)
    assert (own_model / "exports" / "ctranslate2-int8").is_dir()
    assert refused.code == 2
    assert "--engine auto or ctranslate2 has it" in refused.error


def test_any_setting_of_the_search_can_be_changed(headwise, tiny_run, write):
    file = write("two.en", b"one two.\nsix.\n")
    found = headwise(
        *("translate", tiny_run, file),
        *("--search", "search=sampling", "--search", "samples=3"),
        *("--search", "num_best=3", "--search", "token_scores=true"),
    )
    rows = [json.loads(line) for line in found.out.splitlines()]

    assert [len(row["translations"]) for row in rows] == [3, 3]
    for row in rows:
        for each in row["translations"]:
            total = sum(log_p for _, log_p in each["tokens"])
            assert total == pytest.approx(each["log_probability"])


@pytest.mark.parametrize(
    ("setting", "code", "message"),
    [
        ("beem=3", 3, "did you mean beam?"),
        ("beam", 2, "--search takes NAME=VALUE"),
        ("top_p=7", 3, "top_p must be above 0 and at most 1, not 7"),
        ("search=beem", 3, "search"),
    ],
)
def test_an_unknown_search_setting_is_refused(
    headwise, tiny_run, setting, code, message
):
    found = headwise("translate", tiny_run, "--search", setting, stdin=b"one.\n")

    assert found.code == code
    assert message in found.error


def test_prefixes_are_read_from_a_file(headwise, tiny_run, write):
    prefixes = write("begin.de", b"sechs\n\nzwei \n")
    text = write("three.en", b"one.\none two.\nthree.\n")
    found = headwise("translate", tiny_run, text, "--prefix-file", prefixes)
    first, free, last = found.out.splitlines()

    assert first.startswith("sechs")
    assert free == headwise("translate", tiny_run, stdin=b"one two.\n").out.strip()
    assert last.startswith("zwei")


def test_alignments_are_written_line_by_line(headwise, tiny_run, write, tmp_path):
    text = write("two.en", b"one two.\n\nsix.\n")
    out = tmp_path / "links"
    found = headwise("translate", tiny_run, text, "--alignments", out)
    links = out.read_text().splitlines()

    assert found.code == 0
    assert len(links) == 3
    assert links[1] == ""
    for line, target in zip(links, found.out.splitlines(), strict=True):
        places = [int(link.split("-")[1]) for link in line.split()]
        assert sorted({*places}) == list(range(len(target.split())))


def test_a_model_may_be_its_own_ensemble(headwise, tiny_run, expected):
    found = headwise("translate", tiny_run, "--ensemble", tiny_run, stdin=b"one two.\n")

    assert found.out == expected("one two.")
