"""A transfer ends with the whole file, or says why not and can go on."""

import errno
import os
from pathlib import Path

import pytest
from tests.data.public.conftest import CONTENT

from headwise.data.public import transfer as module
from headwise.data.public.transfer import Unavailable, part_of, size_text, transfer
from headwise.errors import DataError, ResourceError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.bin"


@pytest.fixture
def get(server, path):
    said, pauses = [], []

    def call(url="/file.bin", **how):
        return transfer(
            server.url + url, path, say=said.append, pause=pauses.append, **how
        )

    call.said, call.pauses = said, pauses
    return call


def test_a_file_arrives_whole(get, path):
    assert not get()
    assert part_of(path).read_bytes() == CONTENT


def test_a_broken_connection_is_resumed_where_it_broke(get, path, server):
    server.cuts = [300_000, 5]
    get()

    assert part_of(path).read_bytes() == CONTENT
    ranges = [asked for _, asked in server.requests]
    assert ranges == ["", "bytes=300000-", "bytes=300005-"]
    assert get.pauses == [1.0, 1.0]


def test_another_process_goes_on_where_one_was_killed(get, path, server):
    server.cuts = [300_000] + [0] * module.RETRIES
    with pytest.raises(ResourceError, match=r"300 KB of 1\.0 MB received; the same"):
        get()
    assert get.pauses == [1.0, 2.0, 4.0, 8.0, 16.0]

    assert get(), "resumed"
    assert part_of(path).read_bytes() == CONTENT
    assert server.requests[-1] == ("/file.bin", "bytes=300000-")


def test_a_file_that_changed_meanwhile_is_not_joined_to_its_former_half(
    get, path, server
):
    server.cuts = [300_000] + [0] * module.RETRIES
    with pytest.raises(ResourceError):
        get()
    server.files["/file.bin"] = CONTENT[::-1]

    get()

    assert part_of(path).read_bytes() == CONTENT[::-1]


def test_a_partial_file_of_unknown_origin_is_not_resumed(get, path, server):
    part_of(path).write_bytes(b"something else")
    get()
    assert part_of(path).read_bytes() == CONTENT
    assert server.requests == [("/file.bin", "")]


def test_a_file_without_identity_is_not_resumed(get, path, server):
    """Its server names no version of it, and nobody states its size."""
    server.etags["/file.bin"] = ""
    server.cuts = [300_000]
    get()
    assert part_of(path).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["", ""]


@pytest.mark.parametrize("how", [{"has_ranges": False}, {"shifts_ranges": True}])
def test_a_server_that_cannot_resume_sends_the_file_anew(get, path, server, how):
    server.cuts = [300_000] + [0] * module.RETRIES
    with pytest.raises(ResourceError):
        get()
    for name, value in how.items():
        setattr(server, name, value)

    get()

    assert part_of(path).read_bytes() == CONTENT


def test_a_complete_partial_file_needs_no_more(get, path, server):
    get()
    get()
    assert part_of(path).read_bytes() == CONTENT
    assert server.requests[-1][1] == f"bytes={len(CONTENT)}-"  # answered by 416
    get(num_bytes=len(CONTENT))
    assert len(server.requests) == 2


def test_a_partial_file_that_is_too_long_starts_over(get, path, server):
    get()
    with part_of(path).open("ab") as file:
        file.write(b"more")
    get(num_bytes=len(CONTENT))
    assert part_of(path).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(get, path, server):
    server.statuses = [503, 429]
    get()
    assert part_of(path).read_bytes() == CONTENT
    assert any("503" in each for each in get.said)


def test_what_is_not_there_is_not_asked_for_again(get, server):
    with pytest.raises(Unavailable, match=r"/gone cannot be downloaded: .* 404"):
        get("/gone")
    assert len(server.requests) == 1


def test_another_size_than_the_stated_one_is_noticed_before_the_transfer(get, path):
    with pytest.raises(DataError, match="1,024,000 bytes, but must have 1,024,001"):
        get(num_bytes=len(CONTENT) + 1)
    assert not part_of(path).exists()


def test_a_file_of_unknown_length_is_refused(get, server):
    server.says_length = False
    with pytest.raises(Unavailable, match="does not say how long"):
        get()


def test_redirects_are_followed(get, path, server):
    server.redirects["/old"] = f"{server.url}/older"
    server.redirects["/older"] = "/file.bin"
    get("/old")
    assert part_of(path).read_bytes() == CONTENT


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/file.bin"])
def test_redirects_to_other_protocols_are_not(get, path, server, to):
    server.redirects["/old"] = to
    with pytest.raises(Unavailable, match=r"not followed|not allowed"):
        get("/old")
    assert not part_of(path).exists()


def test_a_redirect_from_https_to_http_is_not_followed():
    handler = module._SafeRedirects()
    request = module.urllib.request.Request("https://example.org/file")
    with pytest.raises(Unavailable, match="must be HTTPS"):
        handler.redirect_request(request, None, 302, "", {}, "http://example.org/file")


def test_a_redirect_that_never_ends_is_given_up(get, server):
    server.redirects["/old"] = "/old"
    with pytest.raises(Unavailable, match="302"):
        get("/old")


def test_nobody_listens(path):
    with pytest.raises(ResourceError, match="refused"):
        transfer("http://127.0.0.1:9/file.bin", path, pause=lambda _: None)


def test_a_disk_without_room_is_noticed_before_the_transfer(get, path, monkeypatch):
    usage = module.shutil.disk_usage(path.parent)._replace(free=1000)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ResourceError, match=r"needs 1.0 MB more, .* has 1.0 KB free"):
        get()


def test_a_disk_that_fills_up_keeps_what_was_received(get, path, server, monkeypatch):
    class Full:
        """A file on a disk with room for 300,000 bytes."""

        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            if self.file.tell() + len(data) > 300_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.file.write(data)

        def flush(self):
            self.file.flush()

    plain = Path.open
    monkeypatch.setattr(module, "CHUNK", 100_000)
    monkeypatch.setattr(
        Path,
        "open",
        lambda self, *args, **how: (
            Full(plain(self, *args, **how))
            if self.suffix == ".part"
            else plain(self, *args, **how)
        ),
    )
    with pytest.raises(ResourceError, match="No space left"):
        get()
    monkeypatch.undo()
    kept = part_of(path).stat().st_size
    assert 0 < kept <= 300_000

    get()

    assert server.requests[-1][1] == f"bytes={kept}-"
    assert part_of(path).read_bytes() == CONTENT


def test_sizes_read_well():
    sizes = [900, 1500, 650_123_456, 2_595_102_720]
    assert [*map(size_text, sizes)] == ["900 B", "1.5 KB", "650 MB", "2.6 GB"]
