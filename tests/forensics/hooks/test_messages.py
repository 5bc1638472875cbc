"""From a changed verdict to a message that was received: once written, sent until it is received."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import select
from standardwebhooks import Webhook

from attest.keys.ed25519 import Ed25519Signer
from attest.predicates.verdict import Status
from benchmarks.load.world import hotkey_of
from forensics.errors import BadInput, StoreCorrupt, Unavailable
from forensics.hooks import signing
from forensics.hooks.changes import MOST, Change, message
from forensics.hooks.delivering import GIVEN_UP, LEASE, SCHEDULE
from forensics.hooks.sealing import Sealer
from forensics.hooks.subscriptions import MOST as HOOKS
from forensics.hooks.subscriptions import HookUnknown, TooManyHooks
from forensics.store.engine import reading
from forensics.store.hooks import HookRow, MessageRow
from tests.forensics.attesting import NETUID
from tests.forensics.hooks.conftest import SIGNER, URL

CLEAR, PENALISED, UNKNOWN = Status.CLEAR, Status.PENALISED, Status.UNKNOWN
ME = hotkey_of(0)


def messages(world):
    with reading(world.engine) as session:
        return list(session.scalars(select(MessageRow).order_by(MessageRow.id)))


def test_who_subscribed_is_told_what_changed_and_nothing_else(world):
    world.publish(1, CLEAR, CLEAR, UNKNOWN)
    world.announcer.step()
    world.hooks.add(ME, netuid=NETUID, url=URL)
    world.publish(2, CLEAR, PENALISED, None, CLEAR)
    assert world.announcer.step() == 1
    assert world.deliverer().step().received == 1
    (said,) = world.receiver.said
    assert (said["type"], said["data"]["sequence"], said["data"]["netuid"]) == ("verdicts.changed", 2, NETUID)
    changes = {change["hotkey"]: change for change in said["data"]["changes"]}
    assert changes == {
        hotkey_of(1): {
            "hotkey": hotkey_of(1),
            "revision": "a" * 40,
            "status": "penalised",
            "multiplier": "0.0",
            "reasons": [],
            "before": "clear",
        },
        hotkey_of(2): {
            "hotkey": hotkey_of(2),
            "revision": "a" * 40,
            "status": None,
            "multiplier": None,
            "reasons": [],
            "before": "unknown",
        },
        hotkey_of(3): changes[hotkey_of(3)],
    }
    assert (world.announcer.step(), world.deliverer().step().received) == (0, 0)


def test_a_snapshot_without_changes_or_not_in_the_log_sends_nothing(world):
    world.hooks.add(ME, netuid=NETUID, url=URL)
    world.publish(1, CLEAR)
    assert world.announcer.step() == 1
    world.publish(2, CLEAR)
    world.publish(3, PENALISED, leaf=None)
    assert world.announcer.step() == 0


def test_a_webhook_for_some_hotkeys_hears_of_these_alone(world):
    world.hooks.add(ME, netuid=NETUID, url=URL, only=[hotkey_of(1)])
    world.publish(1, CLEAR, CLEAR)
    world.publish(2, PENALISED, CLEAR)
    world.publish(3, PENALISED, PENALISED)
    world.announcer.step()
    world.deliverer().step()
    assert [[c["hotkey"] for c in said["data"]["changes"]] for said in world.receiver.said] == [[hotkey_of(1)]] * 2


def test_the_reference_library_verifies_what_is_sent(world):
    hook = world.hooks.add(ME, netuid=NETUID, url=URL)
    world.clock.now = datetime.now(UTC)  # the library has a clock of its own
    world.publish(1, CLEAR)
    world.announcer.step()
    world.deliverer().step()
    target, headers, body = world.receiver.got[0]
    secret = signing.spelled(world.hooks.secret(ME, hook.name))
    assert Webhook(secret).verify(body, headers) == json.loads(body)
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(secret).verify(body + b" ", headers)
    assert target.url == URL


def test_a_secret_of_the_specification_gives_its_signature():
    """The example of the specification's libraries."""
    secret = signing.read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    headers = signing.headers(secret, name="msg_p5jXN8AQM9LWM0D4loKWxJek", seconds=1614265330, body=body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_***", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_QQ=="])
def test_what_is_no_secret_is_refused(text):
    with pytest.raises(BadInput):
        signing.read(text)


def test_a_receiver_that_fails_is_tried_again_on_the_schedule_under_the_same_id(world):
    world.hooks.add(ME, netuid=NETUID, url=URL)
    world.publish(1, CLEAR)
    world.announcer.step()
    world.receiver.answers = [500, Unavailable("no answer"), 302, 200]
    deliverer = world.deliverer()
    assert deliverer.step().failed == 1
    for pause in SCHEDULE[:3]:
        world.clock.forward(pause.total_seconds() - 1)
        assert deliverer.step() == type(deliverer.step())(0, 0)
        world.clock.forward(1)
        deliverer.step()
    (row,) = messages(world)
    assert (row.attempts, row.due_at, row.outcome) == (4, None, "HTTP 200")
    assert len({headers["webhook-id"] for _, headers, _ in world.receiver.got}) == 1
    assert len({headers["webhook-timestamp"] for _, headers, _ in world.receiver.got}) == 4


def test_a_worker_that_is_killed_while_it_sends_leaves_the_message_to_the_next(world):
    world.hooks.add(ME, netuid=NETUID, url=URL)
    world.publish(1, CLEAR)
    world.announcer.step()
    world.receiver.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        world.deliverer().step()
    assert world.deliverer().step().received == 0
    world.clock.forward(LEASE.total_seconds())
    assert world.deliverer().step().received == 1
    assert len({headers["webhook-id"] for _, headers, _ in world.receiver.got}) == 1


def test_two_workers_do_not_send_the_same_message(world):
    world.hooks.add(ME, netuid=NETUID, url=URL)
    world.publish(1, CLEAR)
    world.announcer.step()
    one, other = world.deliverer(), world.deliverer()
    seen = one._due()
    assert [message.name for message in seen] == [message.name for message in other._due()]
    assert [other._take(message) for message in seen] == [True]
    assert [one._take(message) for message in seen] == [False]


def test_messages_are_written_once_whoever_announces(world):
    world.hooks.add(ME, netuid=NETUID, url=URL)
    for sequence, status in enumerate((CLEAR, PENALISED, CLEAR, PENALISED), 1):
        world.publish(sequence, status)
    assert world.announcer.step() == 4
    assert type(world.announcer)(world.engine, world.announcer._genesis, clock=world.clock).step() == 0
    assert [row.sequence for row in messages(world)] == [1, 2, 3, 4]


def test_what_is_never_received_is_given_up_on_and_in_the_end_the_webhook_is(world):
    world.hooks.add(ME, netuid=NETUID, url=URL)
    for sequence in range(1, GIVEN_UP + 2):
        world.publish(sequence, CLEAR if sequence % 2 else PENALISED)
    world.announcer.step()
    world.receiver.answers = [500] * 1000
    for pause in (*SCHEDULE, SCHEDULE[-1], SCHEDULE[-1]):
        world.deliverer().step()
        world.clock.forward(pause.total_seconds())
    (hook,) = world.hooks.of(ME)
    assert "in a row" in hook.ended_why
    assert all(row.due_at is None for row in messages(world))
    assert max(row.attempts for row in messages(world)) == len(SCHEDULE) + 1
    assert world.deliverer().waiting() == 0


def test_a_receiver_that_is_gone_is_not_asked_again(world):
    world.hooks.add(ME, netuid=NETUID, url=URL)
    world.publish(1, CLEAR)
    world.publish(2, PENALISED)
    world.announcer.step()
    world.receiver.answers = [410]
    world.deliverer().step()
    assert len(world.receiver.got) == 1
    assert "410" in world.hooks.of(ME)[0].ended_why


def test_secrets_are_not_in_the_database_and_open_for_their_own_row_alone(world):
    hook = world.hooks.add(ME, netuid=NETUID, url=URL)
    secret = world.hooks.secret(ME, hook.name)
    with reading(world.engine) as session:
        row = session.scalars(select(HookRow)).one()
        sealed = row.sealed
    for form in (secret, base64.b64encode(secret), secret.hex().encode()):
        assert form not in sealed
    assert Sealer(SIGNER).open(sealed, hook.name) == secret
    for sealer, name, data in [
        (Sealer(Ed25519Signer(b"\1" * 32)), hook.name, sealed),
        (Sealer(SIGNER), "hook_" + "0" * 32, sealed),
        (Sealer(SIGNER), hook.name, sealed[:-1] + bytes([sealed[-1] ^ 1])),
        (Sealer(SIGNER), hook.name, b""),
    ]:
        with pytest.raises(StoreCorrupt):
            sealer.open(data, name)


def test_one_hotkey_has_few_webhooks_and_sees_no_others(world):
    made = [world.hooks.add(ME, netuid=NETUID, url=URL) for _ in range(HOOKS)]
    with pytest.raises(TooManyHooks):
        world.hooks.add(ME, netuid=NETUID, url=URL)
    with pytest.raises(HookUnknown):
        world.hooks.secret(hotkey_of(1), made[0].name)
    with pytest.raises(HookUnknown):
        world.hooks.remove(hotkey_of(1), made[0].name)
    world.hooks.remove(ME, made[0].name)
    assert made[0].name not in [hook.name for hook in world.hooks.of(ME)]
    with pytest.raises(HookUnknown):
        world.hooks.remove(ME, made[0].name)
    world.hooks.add(ME, netuid=NETUID, url=URL)


def test_a_message_is_bounded(world):
    after = {"issued_at": "x", "genesis": "g", "netuid": 1, "sequence": 1, "block": 1}
    changes = [Change(str(n), None, "clear", "1.0", (), None) for n in range(MOST + 7)]
    said = json.loads(message(after, changes))["data"]
    assert (len(said["changes"]), said["more"]) == (MOST, 7)
