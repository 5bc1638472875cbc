"""Publishing: signed under the next number, stored, and only then brought into the log and served.

The number is drawn, the payload signed and the row stored in one transaction that keeps other publishers of the subnet
out, so a kill at any moment leaves no gap and no two snapshots of one number. A row that is not in the log yet is an
outbox: the next call, of whichever process, appends the same bytes, and the log knows them.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from attest import envelope as dsse
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.service import account
from attest.log import Log
from attest.log.note import open_checkpoint
from attest.predicates.fields import Context
from attest.predicates.verdict import SNAPSHOT_SCHEMA, LogRef, PolicyRef, UidVerdict
from attest.predicates.verdict import Verdicts as Predicate
from attest.statement import state

from ..attestations.record import leaf_of
from ..place import DEFAULT_COMPETITION, Clock, now
from ..policy.policy import Policy
from ..store.engine import reading, writing
from ..store.verdicts import SnapshotRow
from .contents import Registered, assemble, content_digest
from .shelf import Stored, stored_of

if TYPE_CHECKING:
    from ..verdicts.store import Verdicts

PAGE: Final = 64


class Publisher:
    """Publishes snapshots of one chain.

    Args:
        engine: The database.
        log: The transparency log.
        signer: The service's key.
        verdicts: Where verdicts are.
        policy: In force; its expiry and digest go into what is signed.
        network: Name of the chain.
        genesis: Genesis hash of the chain.
        competition: Name of the competition.
        clock: The time.
    """

    def __init__(
        self,
        engine: Engine,
        log: Log,
        signer: Ed25519Signer,
        *,
        verdicts: Verdicts,
        policy: Policy,
        network: str,
        genesis: str,
        competition: str = DEFAULT_COMPETITION,
        clock: Clock = now,
    ) -> None:
        self._engine, self._log, self._signer = engine, log, signer
        self._verdicts, self._policy, self._clock = verdicts, policy, clock
        self._network, self._genesis, self._competition = network, genesis, competition

    def publish(self, netuid: int, block: int, neurons: Iterable[Registered]) -> Stored:
        """Publish what is known now; the newest snapshot again while nothing changed and it is not about to expire.

        Args:
            netuid: Subnet.
            block: The block at which ``neurons`` were registered.
            neurons: Everybody registered.

        Returns:
            The snapshot, which is in the log.

        Raises:
            LogFrozen: The log holds evidence of two histories.
            StoreUnavailable: Try again.
        """
        self.flush()
        seats = tuple(neurons)
        owners = {seat.hotkey: seat.coldkey for seat in seats}
        self._verdicts.examine_owners(self._genesis, netuid, owners)
        self._verdicts.catch_up(self._genesis, netuid)  # else verdicts of an older policy would go out under this one
        head = open_checkpoint(self._log.checkpoint(), log=self._log.key).checkpoint
        ref = LogRef(origin=head.origin, size=head.size, root=_base64(head.root))
        with writing(self._engine) as session:
            _keep_others_out(session, self._genesis, netuid)
            # Read under the lock: else a slow publisher would put older verdicts under a newer number.
            said = assemble(seats, self._verdicts.current(self._genesis, netuid))
            last = self._last(session, netuid)
            if last is not None and self._still_holds(last, said, block):
                stored = stored_of(last)
            else:
                row = self._signed(netuid, block, said, ref, sequence=1 if last is None else last.sequence + 1)
                session.add(row)
                session.flush()
                stored = stored_of(row)
        if stored.leaf is None:
            self.flush()
        return self._again(stored)

    def flush(self) -> int:
        """Bring into the log what is not in it yet; how many snapshots that were."""
        done = 0
        while waiting := self._outbox():
            leaves = self._log.append([leaf_of(dsse.read(envelope, where="snapshot")) for _, envelope in waiting])
            with writing(self._engine) as session:
                for (number, _), leaf in zip(waiting, leaves, strict=True):
                    there = (SnapshotRow.id == number, SnapshotRow.leaf.is_(None))
                    session.execute(update(SnapshotRow).where(*there).values(leaf=leaf))
            done += len(waiting)
        return done

    def _still_holds(self, last: SnapshotRow, said: tuple[UidVerdict, ...], block: int) -> bool:
        renew = timedelta(seconds=self._policy.snapshots.renew)
        fresh = self._clock() < last.expires_at - renew
        return block < last.block or (fresh and last.content == content_digest(self._policy_ref, said))

    def _signed(
        self, netuid: int, block: int, said: tuple[UidVerdict, ...], ref: LogRef, *, sequence: int
    ) -> SnapshotRow:
        issued = self._clock().astimezone(UTC).replace(microsecond=0)
        expires = issued + timedelta(seconds=self._policy.snapshots.expires)
        statement = state(
            Predicate(
                context=self._context(netuid, issued),
                schema=SNAPSHOT_SCHEMA,
                network=self._network,
                genesis=self._genesis,
                netuid=netuid,
                block=block,
                sequence=sequence,
                issued_at=_spelled(issued),
                expires_at=_spelled(expires),
                policy=self._policy_ref,
                log=ref,
                verdicts=said,
            )
        )
        return SnapshotRow(
            genesis=self._genesis,
            netuid=netuid,
            sequence=sequence,
            block=block,
            digest=statement.digest,
            content=content_digest(self._policy_ref, said),
            envelope=dsse.sign(statement.payload(), [self._signer]).to_json(),
            leaf=None,
            issued_at=issued,
            expires_at=expires,
        )

    def _context(self, netuid: int, issued: datetime) -> Context:
        return Context.of(
            account(self._signer),
            genesis=self._genesis,
            netuid=netuid,
            competition=self._competition,
            claimed_at=_spelled(issued),
        )

    @property
    def _policy_ref(self) -> PolicyRef:
        return PolicyRef(name=self._policy.name, version=self._policy.version, digest=self._policy.digest)

    def _last(self, session: Session, netuid: int) -> SnapshotRow | None:
        query = select(SnapshotRow).where(SnapshotRow.genesis == self._genesis, SnapshotRow.netuid == netuid)
        return session.scalars(query.order_by(SnapshotRow.sequence.desc()).limit(1)).first()

    def _outbox(self) -> list[tuple[int, bytes]]:
        query = select(SnapshotRow.id, SnapshotRow.envelope).where(SnapshotRow.leaf.is_(None)).order_by(SnapshotRow.id)
        with reading(self._engine) as session:
            return [(number, bytes(envelope)) for number, envelope in session.execute(query.limit(PAGE))]

    def _again(self, stored: Stored) -> Stored:
        query = select(SnapshotRow).where(
            SnapshotRow.genesis == self._genesis,
            SnapshotRow.netuid == stored.netuid,
            SnapshotRow.sequence == stored.sequence,
        )
        with reading(self._engine) as session:
            return stored_of(session.scalars(query).one())


def _keep_others_out(session: Session, genesis: str, netuid: int) -> None:
    """One publisher of a subnet at a time; SQLite's write lock is held already, PostgreSQL is asked for one."""
    if session.get_bind().dialect.name == "postgresql":
        name = hashlib.sha256(f"snapshot {genesis} {netuid}".encode()).digest()
        session.execute(select(func.pg_advisory_xact_lock(int.from_bytes(name[:8], signed=True))))


def _spelled(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
