"""The hub over HTTP: whole and verified, or a state that says why not; however the server behaves."""

from __future__ import annotations

import itertools
import json
import logging
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import torch
from safetensors.torch import save

from forensics.errors import Exit
from forensics.hub import HubReference, Refusal, open_hub
from forensics.hub.huggingface import HuggingFaceHub
from forensics.hub.interface import State
from forensics.hub.limits import FetchLimits
from forensics.hub.pool import Pool
from forensics.hub.wire import Pace, connect, refusal_of, retry_after
from forensics.settings import load

from .server import COMMIT, HubServer, served

REFERENCE = HubReference("org/model", COMMIT)
WEIGHTS = save({"w": torch.arange(600_000, dtype=torch.float32).reshape(600, 1000)})
FILES = {
    "config.json": b'{"model_type": "x"}',
    "model.safetensors": WEIGHTS,
    "sub dir/tokenizer.json": b"{}",
    "empty.txt": b"",
}
LIMITS = FetchLimits(keep_free=0)
SECRET = "hf_secret"  # noqa: S105 - a stand-in, served on loopback


@pytest.fixture
def server():
    with served(HubServer(repos={"org/model": dict(FILES)})) as hub:
        yield hub


@pytest.fixture
def make(server):
    made = []

    def one(**options) -> HuggingFaceHub:
        wire = connect(server.url, token=options.pop("token", ""), timeout=5.0)
        made.append(wire.client)
        wire = replace(wire, pace=options.pop("pace", Pace(1, 10.0)), hosts=options.pop("hosts", ()))
        return HuggingFaceHub(wire, options.pop("limits", LIMITS), sleep=waits.append, **options)

    waits: list[float] = []
    one.waits = waits
    yield one
    for client in made:
        client.close()


@pytest.fixture
def hub(make) -> HuggingFaceHub:
    return make()


def there(folder) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(hub, folder, reference=REFERENCE) -> Refusal:
    with pytest.raises(Refusal) as caught:
        hub.fetch(reference, folder)
    return caught.value


def test_a_repository_is_fetched_whole_after_a_look_at_its_header(hub, server, tmp_path):
    told = []
    fetched = hub.fetch(REFERENCE, tmp_path / "here", lambda *done: told.append(done))
    assert there(fetched.path) == FILES
    assert fetched.downloaded == fetched.bytes == sum(map(len, FILES.values()))
    assert told[-1] == (fetched.bytes, fetched.bytes)
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(told))
    assert server.downloads()[0] == ("model.safetensors", "bytes=0-65535")


def test_what_is_there_and_right_is_not_fetched_again(hub, server, tmp_path):
    hub.fetch(REFERENCE, tmp_path)
    before = len(server.downloads())
    (tmp_path / "config.json").write_bytes(b'{"model_type": "y"}')
    (tmp_path / "stray.py").write_text("import os")
    assert hub.fetch(REFERENCE, tmp_path).downloaded == len(FILES["config.json"])
    assert server.downloads()[before:] == [("config.json", "")]
    assert there(tmp_path) == FILES


def test_an_interrupted_file_goes_on_where_it_stopped(hub, server, tmp_path):
    server.behaviours = ["good", "truncated", "503", "503", "503", "good"]
    server.repos["org/model"] = {"model.safetensors": WEIGHTS}
    assert refused(hub, tmp_path).state is State.UNAVAILABLE
    (part,) = tmp_path.iterdir()
    assert 0 < part.stat().st_size < len(WEIGHTS)
    server.asked.clear()
    have = part.stat().st_size
    assert hub.fetch(REFERENCE, tmp_path).downloaded == len(WEIGHTS) - have
    assert server.downloads()[-1] == ("model.safetensors", f"bytes={have}-")
    assert there(tmp_path) == {"model.safetensors": WEIGHTS}


def test_a_part_of_another_content_is_not_gone_on_with(hub, server, tmp_path):
    server.repos["org/model"] = {"model.safetensors": WEIGHTS}
    server.behaviours = ["good", "truncated", "503", "503", "503", "good"]
    refused(hub, tmp_path)
    other = save({"w": torch.zeros(600, 1000)})
    server.repos["org/model"] = {"model.safetensors": other}
    hub.fetch(REFERENCE, tmp_path)
    assert there(tmp_path) == {"model.safetensors": other}


def test_a_damaged_part_is_noticed_and_fetched_anew(hub, server, tmp_path):
    server.repos["org/model"] = {"model.safetensors": WEIGHTS}
    server.behaviours = ["good", "truncated", "503", "503", "503", "good"]
    refused(hub, tmp_path)
    (part,) = tmp_path.iterdir()
    part.write_bytes(bytes(part.stat().st_size))
    hub.fetch(REFERENCE, tmp_path)
    assert there(tmp_path) == {"model.safetensors": WEIGHTS}


@pytest.mark.parametrize("how", ["ignores range", "redirect", "good", "truncated"])
def test_servers_that_are_odd_but_honest_are_put_up_with(hub, server, tmp_path, how):
    server.behaviours = [how, "good", how, "good"]
    hub.fetch(REFERENCE, tmp_path)
    assert there(tmp_path) == FILES


def test_a_server_that_ignores_ranges_is_read_no_further_than_needed(hub, server):
    server.behaviours = ["ignores range"]
    (file,) = [f for f in hub.list(REFERENCE).files if f.name == "model.safetensors"]
    hub.look(REFERENCE, file)


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("wrong range", State.CHANGED),
        ("wrong total", State.CHANGED),
        ("no content-range", State.CHANGED),
        ("changed", State.REFUSED),  # the look sees zeros where a header should be
        ("truncated", State.UNAVAILABLE),
        ("packed", State.UNAVAILABLE),
        ("redirect in a circle", State.UNAVAILABLE),
        ("500", State.UNAVAILABLE),
        ("429", State.UNAVAILABLE),
        ("403", State.PRIVATE),
        ("404", State.NOT_FOUND),
        ("416", State.CHANGED),
    ],
)
def test_misbehaviour_is_a_state_and_leaves_no_file(hub, server, tmp_path, how, state):
    server.behaviours = [how]
    assert refused(hub, tmp_path).state is state
    assert "model.safetensors" not in there(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_content_that_changes_after_the_listing_never_gets_in(hub, server, tmp_path, name):
    server.repos["org/model"] = {name: FILES[name]}
    look = ["good"] if name == "model.safetensors" else []
    server.behaviours = [*look, "changed"]
    error = refused(hub, tmp_path)
    assert (error.state, error.what) == (State.CHANGED, "what came has another digest than was listed")
    assert there(tmp_path) == {}
    assert not error.terminal(timedelta(days=3))


def test_an_endless_body_is_cut_at_the_size_of_the_listing(hub, server, tmp_path):
    server.repos["org/model"] = {"config.json": FILES["config.json"]}
    server.behaviours = ["endless"]
    assert refused(hub, tmp_path).state is State.CHANGED
    assert server.sent < 64 << 20
    assert there(tmp_path) == {}


def test_a_trickle_is_given_up(make, server, tmp_path):
    server.repos["org/model"] = {"config.json": b"[" + b" " * 500 + b"]"}
    server.behaviours = ["trickle"]
    error = refused(make(pace=Pace(10_000, 0.1)), tmp_path)
    assert (error.state, error.what) == (State.UNAVAILABLE, "the server is too slow")


def test_a_redirect_elsewhere_is_not_followed_and_the_token_stays_home(make, server, tmp_path):
    with served(HubServer(repos={"org/model": dict(FILES)})) as other:
        server.behaviours, server.elsewhere, server.token = ["redirect elsewhere"], other.url, SECRET
        error = refused(make(token=SECRET), tmp_path)
        assert (error.state, other.asked) == (State.UNAVAILABLE, [])
        assert "no business" in str(error)
        for target in (
            "file:///etc",
            "http://169.254.169.254/latest",
            "https://huggingface.co.evil.example",
            "ftp://x",
        ):
            server.elsewhere = target
            assert refused(make(token=SECRET, hosts=("huggingface.co",)), tmp_path).state is State.UNAVAILABLE


def test_the_token_goes_to_the_hub_and_into_no_message_or_log(make, server, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    server.token = SECRET
    hub = make(token=SECRET)
    server.behaviours = ["redirect"]
    hub.fetch(REFERENCE, tmp_path)
    assert {auth for _, _, auth in server.asked} == {f"Bearer {SECRET}"}
    server.error = (500, {})
    assert SECRET not in str(refused(hub, tmp_path)) + repr(hub._wire) + caplog.text


@pytest.mark.parametrize(
    ("status", "headers", "state"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, State.NOT_FOUND),
        (401, {}, State.NOT_FOUND),
        (404, {"X-Error-Code": "RevisionNotFound"}, State.REVISION_MISSING),
        (403, {"X-Error-Code": "GatedRepo"}, State.GATED),
        (401, {"X-Error-Code": "GatedRepo"}, State.GATED),
        (403, {"X-Error-Message": "Access to this resource is disabled."}, State.PRIVATE),
        (451, {}, State.PRIVATE),
        (429, {"Retry-After": "120"}, State.UNAVAILABLE),
        (502, {}, State.UNAVAILABLE),
        (418, {}, State.UNAVAILABLE),
    ],
)
def test_errors_of_the_hub_are_states(hub, server, tmp_path, status, headers, state):
    server.error = (status, headers)
    error = refused(hub, tmp_path / "here")
    assert (error.state, error.exit) == (state, Exit.UNAVAILABLE)
    assert not (tmp_path / "here").exists()
    assert list(tmp_path.iterdir()) == []
    assert error.terminal(timedelta(minutes=16)) is (state is not State.UNAVAILABLE)
    assert not error.terminal(timedelta(minutes=14))


def test_an_unknown_commit_or_repository_is_named(hub, tmp_path):
    assert refused(hub, tmp_path, HubReference("org/model", COMMIT[::-1])).state is State.REVISION_MISSING
    assert refused(hub, tmp_path, HubReference("org/other", COMMIT)).state is State.NOT_FOUND


def test_a_wrong_token_is_our_fault_and_not_the_miners():
    error = refusal_of(
        401, {"x-error-message": "Invalid credentials in Authorization header"}, where="x", with_token=True
    )
    assert (error.state, error.terminal(timedelta(days=9))) == (State.UNAVAILABLE, False)


def test_waits_grow_and_a_long_one_is_left_to_the_caller(make, server, tmp_path):
    hub = make()
    server.error = (503, {})
    refused(hub, tmp_path)
    assert make.waits == [2.0, 4.0, 8.0]
    make.waits.clear()
    server.error = (429, {"Retry-After": "5"})
    refused(hub, tmp_path)
    assert make.waits == [5.0, 5.0, 5.0]
    make.waits.clear()
    server.error = (429, {"Retry-After": "600"})
    assert refused(hub, tmp_path).retry_after == 600.0
    assert make.waits == []


def test_retry_after_is_seconds_or_a_date_within_reason():
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert retry_after("Mon, 30 Nov 2026 12:01:00 GMT", now=lambda: noon) == 60.0
    assert retry_after("Mon, 30 Nov 2020 12:01:00 GMT", now=lambda: noon) == 0.0
    assert retry_after("99999999999") == 3600.0
    assert [retry_after(text) for text in ("", "soon", "-5", "1e9", "٣")] == [None] * 5


def test_nobody_there_is_unavailable(tmp_path):
    with served(HubServer()) as gone:
        url = gone.url
    wire = connect(url, timeout=2.0)
    error = refused(HuggingFaceHub(wire, LIMITS, sleep=lambda _: None), tmp_path)
    wire.client.close()
    assert (error.state, error.exit) == (State.UNAVAILABLE, Exit.UNAVAILABLE)


@pytest.mark.parametrize(
    "listing",
    [
        {"sha": COMMIT[::-1]},
        {"sha": None},
        {"siblings": None},
        {"siblings": ["model.safetensors"]},
        {"siblings": [{"rfilename": "a.json"}]},
        {"siblings": [{"rfilename": "a.json", "size": -1, "blobId": "0" * 40}]},
        {"siblings": [{"rfilename": "a.json", "size": 1, "blobId": "main"}]},
        {"siblings": [{"rfilename": "a.bin", "size": 1, "lfs": {"sha256": "x", "size": 1}}]},
    ],
)
def test_a_listing_that_makes_no_sense_is_never_acted_on(hub, server, tmp_path, listing):
    server.listing = listing
    assert refused(hub, tmp_path).state in (State.UNAVAILABLE, State.CHANGED)
    assert server.downloads() == []


@pytest.mark.parametrize("name", ["../x.json", "/etc/x.json", "a\\..\\x.json", "a/\u202ex.json"])
def test_a_listing_that_leaves_the_folder_is_refused(hub, server, tmp_path, name):
    server.repos["org/model"][name] = b"{}"
    error = refused(hub, tmp_path)
    assert (error.state, error.exit, server.downloads()) == (State.REFUSED, Exit.BAD_INPUT, [])


def test_limits_hold_before_anything_is_downloaded(make, server, tmp_path):
    for limits in (replace(LIMITS, total_bytes=1000), replace(LIMITS, file_bytes=1000), replace(LIMITS, files=2)):
        assert refused(make(limits=limits), tmp_path).state is State.TOO_LARGE
    assert refused(make(limits=replace(LIMITS, keep_free=1 << 60)), tmp_path).state is State.DISK_FULL
    assert server.downloads() == []


@pytest.mark.parametrize(
    "header",
    [
        b"\xff" * 8,
        (50_000_000).to_bytes(8, "little"),
        (100).to_bytes(8, "little") + b"[" * 100,
        len(text := json.dumps({"w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}).encode()).to_bytes(
            8, "little"
        )
        + text,
    ],
)
def test_a_hostile_header_costs_one_small_request(hub, server, tmp_path, header):
    server.repos["org/model"] = {"model.safetensors": header + bytes(5_000_000 - len(header))}
    error = refused(hub, tmp_path)
    assert (error.state, error.exit) == (State.REFUSED, Exit.BAD_INPUT)
    assert server.sent < 1 << 18


def test_a_header_longer_than_the_first_look_is_read_to_its_end(hub, server, tmp_path):
    many = save({f"layer.{i}.{'x' * 60}": torch.zeros(400) for i in range(800)})
    server.repos["org/model"] = {"model.safetensors": many}
    hub.fetch(REFERENCE, tmp_path)
    assert [wanted.split("-")[0] for _, wanted in server.downloads()] == ["bytes=0", "bytes=65536", ""]


def test_two_who_fetch_one_commit_at_once_fetch_it_once(make, server, tmp_path):
    hubs, results = [make(), make()], []
    threads = [threading.Thread(target=lambda h=h: results.append(h.fetch(REFERENCE, tmp_path / "x"))) for h in hubs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.downloaded for result in results) == [0, results[0].bytes]
    assert there(tmp_path / "x") == FILES


def test_weights_that_came_before_are_not_fetched_again_whoever_submits_them(make, server, tmp_path):
    pool = Pool(tmp_path / "pool", max_bytes=1 << 30)
    make(pool=pool).fetch(REFERENCE, tmp_path / "first")
    server.repos["thief/copy"] = dict(FILES) | {"config.json": b"{}"}
    fetched = make(pool=pool).fetch(HubReference("thief/copy", COMMIT), tmp_path / "second")
    assert fetched.downloaded < 1000
    assert there(tmp_path / "second") == server.repos["thief/copy"]
    (held,) = (tmp_path / "pool").glob("*/*")
    held.unlink()
    held.write_bytes(bytes(len(WEIGHTS)))
    assert make(pool=pool).fetch(REFERENCE, tmp_path / "third").downloaded > len(WEIGHTS)
    assert there(tmp_path / "third") == FILES


def test_a_pool_keeps_what_was_asked_for_last(tmp_path):
    import hashlib
    import os

    pool = Pool(tmp_path / "pool", max_bytes=250)
    digests = []
    for turn in range(3):
        path = tmp_path / f"f{turn}"
        path.write_bytes(bytes([turn]) * 100)
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        os.utime(path, (turn + 1, turn + 1))
        pool.keep(digests[-1], path)
    assert [pool.take(d, tmp_path / "out", size=100) for d in digests] == [False, True, True]
    assert not pool.take(digests[1], tmp_path / "out", size=99)


def test_equal_weights_have_an_equal_key_before_they_are_fetched(hub, server):
    server.repos["thief/copy"] = dict(FILES) | {"README.md": b"mine"}
    key = hub.list(REFERENCE).key()
    assert key is not None
    assert hub.list(HubReference("thief/copy", COMMIT)).key() == key
    server.repos["thief/copy"]["config.json"] = b"{}"
    assert hub.list(HubReference("thief/copy", COMMIT)).key() != key


def test_the_setting_reaches_the_hub(server, tmp_path):
    server.token = SECRET
    settings = load(hub=server.url, hub_token=SECRET, hub_keep_free=0)
    hub = open_hub(settings)
    hub.fetch(REFERENCE, tmp_path / "here")
    hub.close()
    assert SECRET not in repr(settings)
