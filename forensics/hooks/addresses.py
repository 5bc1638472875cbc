"""Where messages may go: only to public hosts over TLS, decided after the name was resolved.

A subscriber chooses a URL that our machine then connects to, from inside our net. So the name is resolved once, every
address it has must be public, and the connection goes to such an address and no other: a name that points elsewhere a
moment later (DNS rebinding) gains nothing. Redirects are not followed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ..errors import BadInput, Unavailable

MAX_URL: Final = 2000
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
"""RFC 6052 and 8215: IPv4 addresses in the last 32 bits."""
Resolve = Callable[[str, int], Sequence[str]]


class UrlRefused(BadInput):
    """A URL that messages are not sent to."""


@dataclass(frozen=True)
class Target:
    """Where to connect and what to ask for.

    Args:
        url: As subscribed.
        host: Name in the URL, for the ``Host`` header and the certificate.
        address: What to connect to.
        port: Port.
        secure: Whether TLS is spoken.
    """

    url: str
    host: str
    address: str
    port: int
    secure: bool

    @property
    def pinned(self) -> str:
        """The URL with the address in the place of the name."""
        parts = urlsplit(self.url)
        place = f"[{self.address}]" if ":" in self.address else self.address
        return parts._replace(netloc=f"{place}:{self.port}").geturl()

    @property
    def shown_host(self) -> str:
        """The ``Host`` header."""
        return urlsplit(self.url).netloc


def check_url(url: str, *, loopback: bool = False) -> SplitResult:
    """The parts of a URL that may be subscribed.

    Args:
        url: As given.
        loopback: Whether plain HTTP to this machine is taken: for demos and tests.

    Raises:
        UrlRefused: Not https, no host, a user or password in it, or an address that is not public.
    """
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UrlRefused("not a URL", got=url[:80], expected=f"at most {MAX_URL} visible ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UrlRefused("not a URL", got=url[:80], expected=str(error)) from None
    host = parts.hostname or ""
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or port == 0:
        raise UrlRefused("not a URL that messages are sent to", got=url[:80], expected="https://HOST/PATH")
    if parts.fragment:
        raise UrlRefused("a fragment says nothing to a server", got=url[:80])
    if parts.scheme == "http" and not (loopback and _is_loopback(host)):
        raise UrlRefused("messages are sent over TLS only", got=url[:80], expected="https://")
    literal = _literal(host)
    if literal is not None and not is_public(literal) and not (loopback and literal.is_loopback):
        raise UrlRefused("this address is not public", got=host)
    return parts


def resolve(url: str, *, loopback: bool = False, lookup: Resolve | None = None) -> Target:
    """Where to send a message now.

    Raises:
        UrlRefused: The URL, or any address of its host, is not public.
        Unavailable: The name does not resolve.
    """
    parts = check_url(url, loopback=loopback)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = (lookup or _lookup)(host, port)
    if not found:
        raise Unavailable("the host has no address", where=host)
    for text in found:
        address = ip_address(text.partition("%")[0])
        if not is_public(address) and not (loopback and address.is_loopback):
            raise UrlRefused("the host has an address that is not public", where=host, got=text)
    return Target(url, host, found[0], port, parts.scheme == "https")


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether everybody may be sent there: no private, shared, local, reserved or multicast address.

    IPv4 addresses inside IPv6 ones count as what they are.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _nat64(address)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _nat64(address: IPv6Address) -> IPv4Address | None:
    return IPv4Address(int(address) & 0xFFFFFFFF) if any(address in network for network in _NAT64) else None


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:  # 127.1, 0x7f000001, 2130706433: what the C library also takes for an address
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _is_loopback(host: str) -> bool:
    literal = _literal(host)
    return host == "localhost" or (literal is not None and literal.is_loopback)


def _lookup(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unavailable("the name does not resolve", where=host, got=str(error)) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
