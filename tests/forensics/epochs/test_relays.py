from __future__ import annotations

import io
import json
import threading
import urllib.error
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from attest.seeds.beacon import QUICKNET
from attest.seeds.errors import BeaconUnavailable
from forensics.epochs.relays import RELAYS, HttpRelays, fetch
from forensics.errors import UsageError
from tests.attest.material import vectors

GOLDEN = vectors()["drand_quicknet"]
ROUND, SIGNATURE = GOLDEN["round"], GOLDEN["signature"]
PATH = f"/{QUICKNET.chain.hex()}/public/{ROUND}"
HONEST = json.dumps({"round": ROUND, "randomness": GOLDEN["randomness"], "signature": SIGNATURE}).encode()


def relays(answers: dict[str, object]) -> HttpRelays:
    """Relays that answer with bytes, or raise."""

    def get(url: str) -> bytes:
        host, _, path = url.removeprefix("https://").partition("/")
        assert f"/{path}" == PATH
        found = answers[host]
        if isinstance(found, Exception):
            raise found
        return found

    return HttpRelays([f"https://{host}" for host in answers], get=get)


def http_error(code: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("https://x", code, "no", {}, io.BytesIO())


def test_the_first_verified_answer_counts():
    assert relays({"a": HONEST}).signature(ROUND).hex() == SIGNATURE


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"<html>",
        json.dumps({"round": ROUND + 1, "signature": SIGNATURE}).encode(),
        json.dumps({"round": ROUND, "signature": "00" * 48}).encode(),
        json.dumps({"round": ROUND, "signature": SIGNATURE[:-2] + "00"}).encode(),
        b" " * 5000,
        http_error(404),
        http_error(425),
        http_error(500),
        TimeoutError(),
        ConnectionRefusedError(),
    ],
)
def test_a_bad_relay_is_passed_over_and_alone_makes_the_epoch_wait(bad):
    assert relays({"bad": bad, "good": HONEST}).signature(ROUND).hex() == SIGNATURE
    with pytest.raises(BeaconUnavailable, match="bad: "):
        relays({"bad": bad}).signature(ROUND)


def test_why_no_relay_helped_is_said_relay_by_relay():
    lie = json.dumps({"round": ROUND, "signature": "00" * 48}).encode()
    with pytest.raises(BeaconUnavailable, match=r"a: 404; b: TimeoutError; c: not a point"):
        relays({"a": http_error(404), "b": TimeoutError(), "c": lie}).signature(ROUND)


@pytest.mark.parametrize("names", [[], ["ftp://a"], ["file:///etc/passwd"], ["api.drand.sh"], ["https://"]])
def test_only_web_addresses_are_relays(names):
    with pytest.raises(UsageError):
        HttpRelays(names)


def test_there_are_several_built_in():
    assert len(RELAYS) >= 3
    HttpRelays()


def test_over_a_real_socket():
    class Relay(BaseHTTPRequestHandler):
        def do_GET(self):
            body = HONEST if self.path == PATH else b"{}"
            self.send_response(200 if self.path == PATH else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Relay) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        source = HttpRelays([f"http://127.0.0.1:{server.server_port}"], get=fetch)
        assert source.signature(ROUND).hex() == SIGNATURE
        with pytest.raises(BeaconUnavailable, match="404"):
            source.signature(ROUND + 1)
        server.shutdown()
        thread.join()
