"""The drill table of docs/for-validators.md, a row a test: what goes wrong, and what a validator then gets."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attest import envelope as dsse
from forensics.client import Code, Reading, Scored, State
from forensics.client.core import MAX_BODY
from tests.forensics.client.world import NETUID, World, address, key, revision, signed, signer, verdict, verdicts


def codes(reading: Reading) -> list[Code]:
    return [problem.code for problem in reading.problems]


def of(reading: Reading, name: str = "bob") -> float:
    return reading.multiplier(address(name), revision(name)).multiplier


def test_all_well(world: World) -> None:
    world.publish()
    reading = world.client().read()
    assert (reading.state, reading.problems, reading.refused, reading.loud) == (State.FRESH, (), False, False)
    assert [of(reading, name) for name in ("ada", "bob", "eve")] == [1.0, 0.25, 0.0]
    assert reading.age == 0


def test_nothing_new_is_confirmed_by_a_304(world: World) -> None:
    world.publish()
    client = world.client()
    client.read()
    world.wait(minutes=10)
    reading = client.read()
    assert (reading.state, reading.age, reading.problems) == (State.FRESH, 600, ())
    assert world.asked[-1].headers["if-none-match"] == '"1"'
    assert "if-none-match" not in world.asked[0].headers


def test_service_down(world: World) -> None:
    world.publish()
    world.client().read()
    world.down = True
    world.wait(minutes=30)
    reading = world.client().read()
    assert (reading.state, codes(reading), of(reading)) == (State.CACHED, [Code.UNREACHABLE], 0.25)
    assert len(world.asked) == 1 + 3
    assert world.loud == [reading]


def test_service_down_from_the_start(world: World) -> None:
    world.down = True
    reading = world.client().read()
    assert (reading.state, codes(reading), of(reading, "eve")) == (State.NEUTRAL, [Code.UNREACHABLE], 1.0)
    assert world.loud == [reading]


def test_service_answers_with_errors(world: World) -> None:
    world.publish()
    client = world.client()
    client.read()
    for status, tries in ((503, 3), (404, 1), (500, 3)):
        world.asked.clear()
        world.status = status
        reading = client.read()
        assert (reading.state, codes(reading), of(reading)) == (State.CACHED, [Code.ERROR_STATUS], 0.25)
        assert len(world.asked) == tries


def test_expired(world: World) -> None:
    world.publish()
    world.client().read()
    world.down = True
    world.wait(minutes=60)
    reading = world.client().read()
    assert (reading.state, codes(reading)) == (State.NEUTRAL, [Code.EXPIRED, Code.UNREACHABLE])
    assert of(reading, "eve") == 1.0
    assert world.loud == [reading]


def test_expired_though_the_service_still_confirms_it(world: World) -> None:
    world.publish()
    client = world.client()
    client.read()
    world.wait(minutes=61)
    reading = client.read()
    assert (reading.state, codes(reading)) == (State.NEUTRAL, [Code.EXPIRED])


def test_tampered(world: World) -> None:
    good = world.publish()
    world.client().read()
    envelope = dsse.read(good)
    better = envelope.payload.replace(b'"multiplier":"0.25"', b'"multiplier":"1.00"')
    assert better != envelope.payload
    world.body = dsse.Envelope(better, envelope.payload_type, envelope.signatures).to_json()
    world.headers = {"etag": '"forged"'}
    reading = world.client().read()
    assert (reading.state, codes(reading), of(reading)) == (State.CACHED, [Code.BAD_SIGNATURE], 0.25)
    assert reading.refused
    assert world.loud == [reading]


def test_not_a_snapshot_at_all(world: World) -> None:
    for body in (b"", b"{}", b"<html>login</html>", b"[" * 100_000, b'{"payload":"","payload":""}'):
        world.body = body
        reading = world.client().read()
        assert (reading.state, codes(reading)) == (State.NEUTRAL, [Code.MALFORMED])
        assert reading.refused


def test_rolled_back(world: World) -> None:
    old = world.publish(4)
    world.client().read()
    world.publish(5, verdict(0, "bob", "0.5"))
    world.client().read()
    world.body, world.headers = old, {}
    reading = world.client().read()
    assert (reading.state, codes(reading), of(reading)) == (State.CACHED, [Code.ROLLED_BACK], 0.5)


def test_two_snapshots_under_one_number_are_kept_as_evidence(world: World) -> None:
    first = world.publish(4)
    world.client().read()
    second = world.publish(4, verdict(1, "bob", "1.0"))
    world.headers = {}
    reading = world.client().read()
    assert (reading.state, codes(reading), of(reading)) == (State.CACHED, [Code.EQUIVOCATION], 0.25)
    assert {path.read_bytes() for path in world.folder.glob("*.contradiction-*")} == {first, second}


def test_a_log_that_shrank(world: World) -> None:
    world.publish(4)
    client = world.client()
    client.read()
    world.publish(5, size=3)
    reading = client.read()
    assert (reading.state, codes(reading)) == (State.CACHED, [Code.EQUIVOCATION])


def test_wrong_key(world: World) -> None:
    mallory = signer("mallory")
    world.body = signed(verdicts(by=mallory), by=mallory)
    assert codes(world.client().read()) == [Code.WRONG_KEY]
    world.body = signed(verdicts(), by=mallory)  # the service's name in the context, somebody else's signature
    assert codes(world.client().read()) == [Code.BAD_SIGNATURE]
    world.publish()
    reading = world.client(service_key=key("mallory")).read()
    assert (reading.state, codes(reading)) == (State.NEUTRAL, [Code.WRONG_KEY])


def test_wrong_netuid_chain_or_log(world: World) -> None:
    world.publish(netuid=NETUID + 1)
    assert codes(world.client().read()) == [Code.WRONG_NETUID]
    world.publish(genesis="0x" + "11" * 32)
    assert codes(world.client().read()) == [Code.WRONG_CHAIN]
    world.publish()
    reading = world.client(service_key=key(origin="other.example")).read()
    assert (reading.state, codes(reading)) == (State.NEUTRAL, [Code.WRONG_LOG])


def test_uid_recycled_to_another_hotkey(world: World) -> None:
    world.publish()
    reading = world.client().read()
    applied = reading.apply([Scored(address("newcomer"), revision("newcomer"), 0.8, uid=2)])
    (row,) = applied.rows
    assert (row.adjusted, row.known) == (0.8, False)
    assert applied.notes == (f"uid 2 was {address('eve')}'s at block 8512345; its verdict stays with it",)
    moved = reading.apply([Scored(address("eve"), revision("eve"), 0.8, uid=7)])
    assert moved.rows[0].adjusted == 0


def test_another_revision_of_a_judged_hotkey(world: World) -> None:
    world.publish()
    found = world.client().read().multiplier(address("bob"), revision("something else"))
    assert (found.multiplier, found.known) == (1.0, False)
    assert revision("bob") in found.why


def test_partial_snapshot(world: World) -> None:
    world.publish(1, verdict(0, "ada"), verdict(2, "eve", "0"))
    reading = world.client().read()
    assert (reading.state, codes(reading)) == (State.FRESH, [Code.PARTIAL])
    assert (of(reading, "bob"), of(reading, "eve")) == (1.0, 0.0)
    assert reading.against([address("ada"), address("bob"), address("zoe")]) == (address("bob"), address("zoe"))


def test_oversize_body(world: World) -> None:
    world.body = b" " * (MAX_BODY + 1)
    assert codes(world.client().read()) == [Code.TOO_LARGE]


def test_a_compressed_answer_is_not_unpacked(world: World) -> None:
    world.publish()
    world.headers = {"content-encoding": "gzip"}
    world.body = b"\x1f\x8b\x08" + bytes(100)
    reading = world.client().read()
    assert (reading.state, codes(reading), reading.refused) == (State.NEUTRAL, [Code.MALFORMED], True)


def test_redirects_are_refused(world: World) -> None:
    world.status, world.headers = 302, {"location": "https://elsewhere.example/"}
    reading = world.client().read()
    assert (reading.state, codes(reading), len(world.asked)) == (State.NEUTRAL, [Code.REDIRECTED], 1)
    world.status = 304  # though nothing was asked that it could confirm
    assert codes(world.client().read()) == [Code.REDIRECTED]


def test_clock_set_back(world: World) -> None:
    world.publish()
    world.client().read()
    world.wait(minutes=-90)
    world.down = True
    reading = world.client().read()
    assert (reading.state, codes(reading)) == (State.CACHED, [Code.UNREACHABLE, Code.CLOCK_BEHIND])
    assert reading.age == 0


def test_clock_set_forward_and_right_again(world: World) -> None:
    world.publish()
    client = world.client()
    client.read()
    world.wait(days=3650)
    assert (client.read().state, world.client().read().state) == (State.NEUTRAL, State.NEUTRAL)
    world.wait(days=-3650)
    assert (client.read().state, world.client().read().state) == (State.FRESH, State.FRESH)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 50, b"half"])
def test_a_corrupted_snapshot_on_disk(world: World, damage: bytes) -> None:
    old = world.publish(4)
    world.client().read()
    world.publish(5)
    world.client().read()
    (stored,) = world.folder.glob("*.snapshot")
    stored.write_bytes(damage)
    world.down = True
    reading = world.client().read()
    assert (reading.state, set(codes(reading))) == (State.NEUTRAL, {Code.UNREACHABLE, Code.CACHE_DAMAGED})
    world.body, world.headers, world.down = old, {}, False
    assert Code.ROLLED_BACK in codes(world.client().read())  # what was seen outlives the damage
    world.publish(6)
    assert world.client().read().state is State.FRESH
    assert codes(world.client().read()) == []  # and is repaired


def test_what_was_seen_is_damaged_on_disk(world: World) -> None:
    old = world.publish(4)
    world.publish(5)
    world.client().read()
    (seen,) = world.folder.glob("*.seen")
    seen.write_bytes(seen.read_bytes().replace(b'"sequence": 5', b'"sequence": 3'))
    world.body, world.headers = old, {}
    assert set(codes(world.client().read())) == {Code.ROLLED_BACK, Code.CACHE_DAMAGED}


@contextlib.contextmanager
def full(_path: Path) -> Iterator[None]:
    """No file can grow: what a full disk does to a writer."""
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_full_disk(world: World) -> None:
    old = world.publish(4)
    world.client().read()
    client = world.client()
    world.publish(5, verdict(0, "bob", "0.5"))
    with full(world.folder):
        reading = client.read()
        assert (reading.state, codes(reading), of(reading)) == (State.FRESH, [Code.CACHE_UNWRITABLE], 0.5)
        world.body, world.headers = old, {}
        again = client.read()
        assert (again.state, of(again)) == (State.CACHED, 0.5)  # memory does not forget
        assert Code.ROLLED_BACK in codes(again)
    assert not list(world.folder.glob(".*"))  # nothing half written is left
    assert of(world.client(transport=None, url="http://127.0.0.1:9", tries=1).offline()) == 0.25  # the last whole one


def _read_many(folder: Path, body: list[tuple[int, bytes]], out: multiprocessing.Queue[set[str]]) -> None:
    world, seen = World(folder), set()
    for sequence, snapshot in body:
        world.body, world.headers = snapshot, {"etag": f'"{sequence}"'}
        reading = world.client().read()
        seen |= {str(reading.state)} | {str(code) for code in codes(reading)}
    out.put(seen)


def test_two_processes_share_one_cache(world: World) -> None:
    """One is served every snapshot, the other by a mirror that lags: it never falls behind what the first saw."""
    snapshots = [(sequence, world.publish(sequence)) for sequence in range(1, 31)]
    context = multiprocessing.get_context("spawn")
    out: multiprocessing.Queue[set[str]] = context.Queue()
    both = [
        context.Process(target=_read_many, args=(world.folder, snapshots, out)),
        context.Process(target=_read_many, args=(world.folder, snapshots[::-1], out)),
    ]
    for process in both:
        process.start()
    told = out.get(timeout=60) | out.get(timeout=60)
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    assert told <= {"fresh", "cached", "rolled_back"}
    world.down = True
    last = world.client().offline()
    assert last.snapshot is not None
    assert last.snapshot.sequence == 30
    assert not list(world.folder.glob(".*"))


def test_a_process_that_hangs_in_the_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr("forensics.client.cache.LOCK_SECONDS", 0.1)
    world.publish(1)
    world.client().read()
    (lock,) = world.folder.glob("*.lock")
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        world.publish(2)
        reading = world.client().read()
    assert (reading.state, codes(reading)) == (State.FRESH, [Code.CACHE_UNWRITABLE])


def test_cache_folder_that_cannot_be_made(world: World) -> None:
    world.publish()
    world.folder.write_text("a file")
    reading = world.client().read()
    assert (reading.state, of(reading)) == (State.FRESH, 0.25)
    assert Code.CACHE_UNWRITABLE in codes(reading)


@contextlib.contextmanager
def trickling(pieces: Callable[[], Iterator[bytes]], *, every: float) -> Iterator[str]:
    """A server that sends a piece now and then, for ever."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)

        def talk(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.recv(4096)
                for piece in pieces():
                    connection.sendall(piece)
                    if stop.wait(every):
                        return

        def serve() -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def _headers() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"x-a: b\r\n"


def _body() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"
    while True:
        yield b" "


@pytest.mark.parametrize("pieces", [_headers, _body])
def test_slow_trickle(world: World, pieces: Callable[[], Iterator[bytes]]) -> None:
    world.publish()
    world.client().read()
    with trickling(pieces, every=0.05) as url:
        began = time.monotonic()
        reading = world.client(transport=None, url=url, deadline=0.5).read()
        took = time.monotonic() - began
    assert (reading.state, codes(reading), of(reading)) == (State.CACHED, [Code.TIMED_OUT], 0.25)
    assert took < 5  # the deadline, not the byte-to-byte timeout, ended it


def test_plain_http_is_said_and_is_no_alarm(world: World) -> None:
    world.publish()
    reading = world.client(url="http://verdicts.example").read()
    assert (reading.state, codes(reading), reading.loud) == (State.FRESH, [Code.PLAIN_HTTP], False)
    assert codes(world.client(url="http://127.0.0.1:1").read()) == []


def test_nothing_is_asked_offline(world: World) -> None:
    assert codes(world.client().offline()) == [Code.NOTHING_YET]
    world.publish()
    world.client().read()
    asked = len(world.asked)
    assert of(world.client().offline()) == 0.25
    assert len(world.asked) == asked


def test_async_client_does_the_same_and_a_blocking_one_works_inside_a_loop(world: World) -> None:
    world.publish()

    async def both() -> tuple[Reading, Reading]:
        return await world.async_client().read(), world.client().read()

    first, second = asyncio.run(both())
    assert (first.state, of(first)) == (second.state, of(second)) == (State.FRESH, 0.25)
    assert second.problems == ()


def test_cache_files_are_the_users_own(world: World) -> None:
    world.publish()
    world.client().read()
    assert os.stat(world.folder).st_mode & 0o777 == 0o700
