"""``headwise data``: what a user sees."""

import gzip
import json
import signal
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwise.data.public.catalogue import CORPORA
from headwise.data.public.multi30k import multi30k
from headwise.data.public.transfer import part_of


def test_the_list_names_every_corpus_with_licence_and_size(headwise):
    found = headwise("data", "list")
    assert found.code == 0
    title, *rows = found.out.rstrip("\n").split("\n")
    assert title.split()[:3] == ["name", "pairs", "download"]
    assert [row.split()[0] for row in rows] == [*CORPORA]
    row = next(row for row in rows if row.startswith("wmt14-en-de"))
    assert "4,508,785    1.7 GB  stated" in row
    assert "first use" in next(row for row in rows if row.startswith("iwslt14"))


def test_the_list_as_json_has_every_file(headwise):
    found = json.loads(headwise("data", "list", "--json").out)
    assert [each["name"] for each in found] == [*CORPORA]
    assert found[0]["files"][0].keys() >= {"urls", "sha256", "sha256_stated_by"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["multi30k"], "did you mean multi30k-en-de or multi30k-en-fr or"),
        (["wmt14-de-en"], "did you mean wmt14-en-de?"),
        (["nothing"], "is not a public corpus that headwise knows (headwise data list"),
        ([""], "is not a public corpus"),
        (["tatoeba-en-fr", "--from", "/nowhere"], "--from /nowhere is not a folder"),
        (["tatoeba-en-fr", "--from", ""], "--from (empty) is not a folder"),
        (["tatoeba-en-fr", "--from", "."], "--from . has no fra-eng.zip"),
        (["tatoeba-en-fr", "--out", ""], "it is empty"),
        ([], "Missing argument 'NAME'"),
    ],
)
def test_mistakes_are_named(headwise, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    outcome = headwise("data", "get", *arguments)
    assert outcome.code == 2
    assert message in outcome.error
    assert not any(tmp_path.iterdir())


class SlowHandler(SimpleHTTPRequestHandler):
    """Serves files at 200 KB/s, and ranges of them."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = Path(self.translate_path(self.path)).read_bytes()
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        last = len(body) - 1
        self.send_header("Content-Range", f"bytes {start}-{last}/{len(body)}")
        self.end_headers()
        try:
            for begin in range(start, len(body), 20_000):
                self.wfile.write(body[begin : begin + 20_000])
                time.sleep(self.server.pause)
        except OSError:
            pass


@pytest.fixture
def mirror(corpora, tmp_path):
    """A mirror of Multi30K, English to Czech."""
    for each in multi30k("cs").downloads:
        path = corpora / each.name.replace("/raw/", "/")
        packed = path.with_name(f"{path.name}.gz")
        content = path.read_bytes() if path.exists() else None
        to = tmp_path / "mirror" / each.name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content or gzip.decompress(packed.read_bytes()))
    handler = partial(SlowHandler, directory=str(tmp_path / "mirror"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.pause = True, 0.1
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_stopped_download_is_resumed_by_the_same_command(mirror, start, tmp_path):
    """SIGTERM amid the first large file: exit 75, and its half is used."""
    out = tmp_path / "corpora" / "multi30k-en-cs"
    command = ("data", "get", "multi30k-en-cs", "--out", out, "--from", mirror.url)
    downloads = out.parent / "downloads" / "multi30k" / "raw"
    part = part_of(downloads / "train.en.gz")
    process = start(*command)
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < deadline, process.stderr.read().decode()
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 75, error.decode()
    assert part.stat().st_size > 0
    assert not out.exists()

    mirror.pause = 0.0
    process = start(*command)
    _, error = process.communicate(timeout=60)

    assert process.returncode == 0, error.decode()
    assert (out / "train.cs").read_bytes().count(b"\n") == 29_000
    assert not part.exists()
    assert [*out.parent.glob(".*")] == []

    process = start(*command[:5], "--from", out.parent / "downloads")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error.decode()
    assert b"is complete already" in error
