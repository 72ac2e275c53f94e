"""Other sites' pages, other hosts and large bodies are refused."""

import pytest
from tests.serving.demo_requests import TIRED

from headwise.serving.local_only import MAX_BODY, is_loopback

BODY = {"text": TIRED}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("::", False),
        ("", False),
        ("2130706433", False),
    ],
)
def test_what_is_loopback(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9", "[::1]:1", "[::1]"])
def test_our_own_names_are_served(client, host):
    headers = {"host": host, "origin": f"http://{host}"}

    assert client.get("/api/model", headers=headers).status_code == 200
    assert client.post("/api/output", json=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1@evil.example", "[", ""]
)
@pytest.mark.parametrize("path", ["/", "/api/model", "/dom.js"])
def test_another_host_is_refused(client, host, path):
    """DNS rebinding: a name of somebody else that points to this computer."""
    answer = client.get(path, headers={"host": host})

    assert answer.status_code == 403
    assert "loopback" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost:8765", ""],
)
def test_a_page_of_another_origin_is_refused(client, origin):
    answer = client.post("/api/output", json=BODY, headers={"origin": origin})

    assert answer.status_code == 403
    assert "are refused" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "", "json"]
)
def test_what_a_form_can_send_is_refused(client, media_type):
    headers = {"content-type": media_type}

    answer = client.post("/api/output", content=b'{"text": "a"}', headers=headers)

    assert answer.status_code == 415


def test_a_charset_does_not_hurt(client):
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    content = b'{"text": "The dog sleeps."}'

    answer = client.post("/api/output", content=content, headers=headers)

    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/api/output", "/api/snapshot"])
def test_a_large_body_is_refused_whatever_it_says_of_its_length(client, path):
    headers = {"content-type": "application/json"}
    whole = b" " * (MAX_BODY + 1)

    said = client.post(path, content=whole, headers=headers)
    unsaid = client.post(path, content=iter([whole]), headers=headers)

    assert (said.status_code, unsaid.status_code) == (413, 413)
    assert "1,048,576 bytes" in unsaid.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/dom.js", "/api/model", "/nothing"])
def test_every_answer_forbids_what_a_page_does_not_need(client, path):
    headers = client.get(path).headers

    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] in ("no-store", "no-cache")


def test_other_sites_get_no_leave_to_read(client):
    headers = {"origin": "http://evil.example"}

    answer = client.get("/api/model", headers=headers)

    assert "access-control-allow-origin" not in answer.headers
    preflight = client.options("/api/output", headers=headers)
    assert "access-control-allow-origin" not in preflight.headers
