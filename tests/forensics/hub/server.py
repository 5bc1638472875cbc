"""A hub on loopback: the endpoints that are asked, and every way in which a server may misbehave."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LFS = (".safetensors", ".bin", ".gguf")


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@dataclass
class HubServer:
    """What is served, and how; ``behaviours`` are taken one for each download, the last one again and again."""

    url: str = ""
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    behaviours: list[str] = field(default_factory=lambda: ["good"])
    listing: dict[str, object] = field(default_factory=dict)
    error: tuple[int, dict[str, str]] | None = None
    elsewhere: str = ""
    token: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Path, Range and Authorization of each request."""
    sent: int = 0

    def document(self, repo: str) -> dict[str, object]:
        return {
            "id": repo,
            "sha": COMMIT,
            "siblings": [_sibling(n, d) for n, d in self.repos[repo].items()],
        } | self.listing

    def behaviour(self) -> str:
        return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]

    def downloads(self) -> list[tuple[str, str]]:
        return [
            (path.rsplit("/", 1)[-1], wanted)
            for path, wanted, _ in self.asked
            if "/resolve/" in path or "/cdn/" in path
        ]


def _sibling(name: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": blob(data)}
    if name.endswith(LFS):
        entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return entry


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        hub.asked.append((path, self.headers.get("Range", ""), self.headers.get("Authorization", "")))
        if hub.token and "/cdn/" not in path and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self._fail(401, {"X-Error-Code": "GatedRepo"})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            return self._listing(match[1], match[2])
        if match := re.fullmatch(r"/([^/]+/[^/]+)/(resolve|cdn)/[^/]+/(.+)", path):
            return self._file(match[1], match[3], hub.behaviour() if match[2] == "resolve" else "good")
        return self._fail(404, {"X-Error-Code": "RepoNotFound"})

    def _listing(self, repo: str, revision: str) -> None:
        if self.hub.error is not None:
            return self._fail(*self.hub.error)
        if repo not in self.hub.repos:
            return self._fail(404, {"X-Error-Code": "RepoNotFound"})
        if revision != COMMIT:
            return self._fail(404, {"X-Error-Code": "RevisionNotFound"})
        return self._answer(200, json.dumps(self.hub.document(repo)).encode(), {"Content-Type": "application/json"})

    def _file(self, repo: str, name: str, how: str) -> None:
        if name not in self.hub.repos[repo]:
            return self._fail(404, {"X-Error-Code": "EntryNotFound"})
        data = self.hub.repos[repo][name]
        first, last = self._range(len(data))
        ranged = first is not None
        first = first or 0
        body, status = data[first : last + 1], 206 if ranged else 200
        headers = {"Content-Range": f"bytes {first}-{last}/{len(data)}"} if ranged else {}
        if how == "redirect":
            return self._fail(302, {"Location": f"/{repo}/cdn/{COMMIT}/{name}", "X-Linked-Etag": '"x"'})
        if how == "redirect elsewhere":
            return self._fail(302, {"Location": f"{self.hub.elsewhere}/{repo}/cdn/{COMMIT}/{name}"})
        if how == "redirect in a circle":
            return self._fail(302, {"Location": self.path})
        if how.isdecimal():
            return self._fail(int(how), {"Retry-After": "7"} if how in ("429", "503") else {})
        if how == "ignores range":
            body, status, headers = data, 200, {}
        elif how == "wrong range":
            headers = {"Content-Range": f"bytes {first + 1}-{last}/{len(data)}"}
        elif how == "wrong total":
            status, headers = 206, {"Content-Range": f"bytes {first}-{last}/{len(data) + 5}"}
        elif how == "no content-range":
            status, headers = 206, {}
        elif how == "changed":
            body = bytes(len(body))
        elif how == "packed":
            headers["Content-Encoding"] = "gzip"
        elif how == "truncated":
            return self._answer(status, body[: len(body) // 2], headers, length=len(body))
        elif how == "endless":
            return self._endless(status, headers)
        elif how == "trickle":
            return self._trickle(status, body, headers)
        return self._answer(status, body, headers)

    def _range(self, size: int) -> tuple[int | None, int]:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if match is None:
            return None, size - 1
        return int(match[1]), min(int(match[2] or size - 1), size - 1)

    def _answer(self, status: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.hub.sent += len(body)
        if length is not None and length != len(body):
            self.close_connection = True

    def _endless(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        while self.hub.sent < 1 << 30:
            self.wfile.write(bytes(1 << 16))
            self.hub.sent += 1 << 16

    def _trickle(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for at in range(len(body)):
            self.wfile.write(body[at : at + 1])
            time.sleep(0.02)

    def _fail(self, status: int, headers: dict[str, str]) -> None:
        self._answer(status, b"", headers)

    def log_message(self, *_: object) -> None:
        """Silent."""

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except (ConnectionError, ValueError):
            self.close_connection = True


@contextmanager
def served(hub: HubServer) -> Iterator[HubServer]:
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
