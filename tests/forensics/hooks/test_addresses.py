"""Where our machine does not connect to, whatever a subscriber writes or its name server says."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address

import pytest

from forensics.errors import Unavailable
from forensics.hooks.addresses import UrlRefused, check_url, is_public, resolve
from forensics.hooks.delivering import post_pinned

PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.3.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 - nothing is bound to it
    "224.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.18.0.1",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "fd12:3456::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "2002:7f00:1::",
    "2002:0a00:1::1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
]
PUBLIC = ["1.1.1.1", "9.9.9.9", "2606:4700:4700::1111", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused_by_name_and_as_a_literal(address):
    assert not is_public(ip_address(address))
    with pytest.raises(UrlRefused):
        resolve("https://receiver.example/x", lookup=lambda host, port: ["1.1.1.1", address])
    literal = f"[{address}]" if ":" in address else address
    with pytest.raises(UrlRefused):
        check_url(f"https://{literal}/x")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_hosts_are_reached_at_the_address_that_was_resolved(address):
    found = resolve("https://receiver.example/x?y=1", lookup=lambda host, port: [address])
    literal = f"[{address}]" if ":" in address else address
    assert (found.host, found.address, found.pinned) == (
        "receiver.example",
        address,
        f"https://{literal}:443/x?y=1",
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://receiver.example/",
        "ftp://receiver.example/",
        "https:///x",
        "https://user:pw@receiver.example/",
        "https://receiver.example:0/",
        "https://receiver.example:99999/",
        "https://receiver.example/ x",
        "https://receiver.example/\n",
        "https://receiver.example\\@127.0.0.1/",
        "https://réceiver.example/",
        "https://receiver.example/#x",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://[::ffff:7f00:1]/",
        "file:///etc/passwd",
        "//receiver.example/",
        "https://" + "a" * 2000 + ".example/",
    ],
)
def test_urls_that_are_not_subscribed(url):
    with pytest.raises(UrlRefused):
        check_url(url)


def test_loopback_only_where_it_is_asked_for():
    check_url("http://127.0.0.1:8/", loopback=True)
    check_url("http://localhost:8/", loopback=True)
    for url in ("http://10.0.0.1/", "http://receiver.example/", "https://192.168.0.1/"):
        with pytest.raises(UrlRefused):
            check_url(url, loopback=True)
    with pytest.raises(UrlRefused):
        resolve("https://r.example/", loopback=True, lookup=lambda host, port: ["10.0.0.1"])


def test_a_name_that_does_not_resolve_may_do_so_later():
    with pytest.raises(Unavailable):
        resolve("https://receiver.example/", lookup=lambda host, port: [])
    with pytest.raises(Unavailable):
        resolve("https://no-such-name.invalid/")


class Here(BaseHTTPRequestHandler):
    """Notes what comes; answers with a redirect on /away, and with far too much on /much."""

    def do_POST(self):
        self.server.got.append((self.path, dict(self.headers), self.rfile.read(int(self.headers["content-length"]))))
        away = self.path == "/away"
        self.send_response(302 if away else 200)
        if away:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def here():
    server = HTTPServer(("127.0.0.1", 0), Here)
    server.got = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_message_goes_out_with_the_name_it_was_subscribed_under(here):
    url = f"http://localhost:{here.server_port}/hook"
    target = resolve(url, loopback=True, lookup=lambda host, port: ["127.0.0.1"])
    assert post_pinned(target, {"webhook-id": "msg_1"}, b'{"a":1}') == 200
    path, headers, body = here.got[0]
    assert (path, body, headers["Host"]) == ("/hook", b'{"a":1}', f"localhost:{here.server_port}")
    assert (headers["webhook-id"], headers["Content-Type"]) == ("msg_1", "application/json")


def test_redirects_are_not_followed_and_proxies_not_used(here, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    url = f"http://127.0.0.1:{here.server_port}/away"
    assert post_pinned(resolve(url, loopback=True), {}, b"{}") == 302
    assert [path for path, _, _ in here.got] == ["/away"]


def test_nobody_there_is_no_error_of_ours():
    with pytest.raises(Unavailable):
        post_pinned(resolve("http://127.0.0.1:9/", loopback=True), {}, b"{}")
