"""``headwise inspect --serve`` as a process: its address, its end, its errors."""

import http.client
import json
import re
import signal
import socket
import threading
import time
from contextlib import closing

import pytest
from tests.serving.demo_requests import DEMO, TIRED

from headwise.errors import ResourceError
from headwise.serving.run_server import address, bind


@pytest.fixture
def served(start):
    """Return a function that starts a server: the process, its address and port."""

    def call(*arguments):
        process = start("inspect", DEMO, *arguments, "--serve", "--port", "0")
        timer = threading.Timer(60, process.kill)
        timer.start()
        first = process.stderr.readline().decode("utf-8").strip()
        timer.cancel()
        match = re.fullmatch(r"http://(?:127\.0\.0\.1|\[::1\]):(\d+)/(#.*)?", first)
        assert match, first
        return process, first, int(match[1])

    return call


def ask(host, port):
    headers = {"content-type": "application/json"}
    with closing(http.client.HTTPConnection(host, port, timeout=60)) as connection:
        connection.request("POST", "/api/output", json.dumps({"text": TIRED}), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "headwise: interrupted"), (signal.SIGTERM, 0, "stopped")],
)
def test_it_answers_until_it_is_stopped(served, number, code, said):
    process, link, port = served(TIRED, "--off", "cross.0.3", "--off", "cross.0.1")
    status, answer = ask("127.0.0.1", port)

    process.send_signal(number)
    process.wait(timeout=30)
    out, error = process.stdout.read(), process.stderr.read()

    assert (status, answer["show"]) == (200, "output")
    assert link.endswith(
        "/#text=The%20animal%20didn%27t%20cross%20the%20street%20because%20it%20was%20"
        "too%20tired.&off=cross.0.3,cross.0.1"
    )
    assert (process.returncode, out) == (code, b"")
    assert error.decode("utf-8") == f"Ctrl-C stops\n{said}\n"


def test_it_stops_amid_a_computation_without_a_word_of_it(served):
    process, _, port = served()
    text = "The dog sees the cat and "
    body = {"text": text * 40, "target": "Le chien voit le chat et " * 40}
    content = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(
            b"POST /api/attribution HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
        )
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)

    assert process.returncode == 0
    assert process.stderr.read() == b"Ctrl-C stops\nstopped\n"


def test_it_can_listen_on_the_other_loopback(served):
    if not socket.has_ipv6:
        pytest.skip("this system has no IPv6")
    try:
        bind("::1", 0).close()
    except ResourceError:
        pytest.skip("this machine has no IPv6 address")
    _, link, port = served("--host", "::1")

    assert link == f"http://[::1]:{port}/"
    assert ask("::1", port)[0] == 200


def test_a_port_in_use_is_named(headwise):
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        done = headwise("inspect", DEMO, "--serve", "--port", port)

    assert done.code == 6
    assert (
        f"127.0.0.1 port {port} cannot be used (Address already in use)" in done.error
    )
    assert "--port 0" in done.error


def test_an_address_names_the_port_that_was_found():
    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert port > 0
        assert address(listening) == f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["--host", "0.0.0.0"], 2, "is not an address of this computer alone"),
        (["--host", "192.168.1.5"], 2, "ssh -L 8765:127.0.0.1:8765"),
        (["--host", "example.org"], 2, "has no password"),
        (["--host", ""], 2, "is not an address of this computer alone"),
        (["--port", "70000"], 2, "70000 is not in the range"),
        (["--out", "x.json"], 2, "--out and --serve exclude each other"),
        (["--bleu", "3"], 2, "--bleu and --serve exclude each other"),
        (["--show", "all"], 2, "one of these, not 'all': output: "),
        (["--search", "bean=3"], 3, "did you mean beam"),
    ],
)
def test_mistakes_are_named(headwise, given, code, said):
    done = headwise("inspect", DEMO, "--serve", *given)

    assert (done.code, done.out) == (code, "")
    assert said in done.error


def test_a_search_where_nothing_is_searched_for_is_named(headwise):
    done = headwise(
        "inspect", DEMO.with_name("reviews"), "--serve", "--search", "beam=2"
    )

    assert (done.code, done.out) == (2, "")
    assert "a model of classification chooses its own at once" in done.error


def test_a_missing_extra_is_named_with_what_works_without(headwise, monkeypatch):
    monkeypatch.setattr("headwise.cli.inspect_page.EXTRA", ("starlette", "uvicornn"))

    done = headwise("inspect", DEMO, "--serve")

    assert done.code == 2
    assert "--serve needs uvicornn: pip install 'headwise[serve]'" in done.error
    assert "--out page.html" in done.error


def test_a_folder_that_is_no_model_is_named(headwise, tmp_path):
    done = headwise("inspect", tmp_path, "--serve")

    assert done.code == 5
    assert "neither a model folder" in done.error
