"""Attestations as a service: what is handed in is verified, logged, stored, and answered with a receipt.

The order is: envelope, signatures and context (``attest.checking``), then what the kind demands (a seal that is known,
a lineage without cycles), and only then is anything written: the blob, the leaf, a checkpoint, the row. A crash between
two of them leaves a leaf or blob that nothing speaks of; the statement can be handed in again. The same statement
signed again is the same statement, and gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from attest import claims, lineage
from attest import envelope as dsse
from attest.checking import Checked, Expected, check
from attest.envelope import Envelope
from attest.errors import AttestError, CommitmentMismatch, RotationRefused, UnsupportedInput
from attest.graph import Edge
from attest.keys.rotation import KeyHistory, Swap, hand_over
from attest.log import Log
from attest.predicates import KeyRotation, Lineage, Ownership, Predicate
from attest.predicates.lineage import Made
from attest.predicates.ownership import Form
from attest.priority import Binding, Position
from attest.statement import NAMESPACE, parse

from ..known.claim import Submission
from ..known.registry import Registry
from ..store.blobs import Blobs
from ..store.engine import writing
from .anchors import Anchors
from .lineages import Lineages
from .record import Record, leaf_of, stripped
from .records import Records
from .relations import Measured, Relations
from .standing import Standings, standings

ROTATION = NAMESPACE + "key-rotation/v1"


@dataclass(frozen=True)
class Received:
    """What handing in a statement did.

    Args:
        record: As stored.
        new: Whether it was not known before.
        receipt: ``tlog-proof`` of its leaf under the newest checkpoint.
        edge: The judged lineage edge of a lineage claim.
    """

    record: Record
    new: bool
    receipt: bytes
    edge: Edge | None = None


class Attestations:
    """Everything that was attested here.

    Args:
        engine: The database.
        blobs: Where envelopes and evidence go.
        log: The transparency log.
        registry: Known models, and the commitments to them.
        relations: Measures lineage.
        genesis: The chain.
        netuid: The only subnet served; None for any.
        clock: The time, for the record only.
        swaps: Hotkey swaps seen on chain, for rotations that cite them.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        blobs: Blobs,
        log: Log,
        registry: Registry,
        relations: Relations,
        genesis: str,
        netuid: int | None,
        clock: Callable[[], datetime],
        swaps: Sequence[Swap] = (),
    ) -> None:
        self._engine, self._blobs, self._log, self._registry = engine, blobs, log, registry
        self.genesis, self.netuid = genesis, netuid
        self._swaps = swaps
        self._histories: dict[int, tuple[tuple[int, int], KeyHistory]] = {}
        self._records = Records(engine, clock=clock)
        self.anchors = Anchors(engine, genesis=genesis, clock=clock)
        self.lineages = Lineages(engine, relations=relations, bound=self._bound, clock=clock)

    def receive(self, raw: bytes, *, submitted_by: str) -> Received:
        """Take a statement.

        Args:
            raw: DSSE envelope as received.
            submitted_by: Who sent it; the statement speaks for itself.

        Raises:
            AttestError: It is refused; nothing was stored.
            StoreUnavailable: Try again.
        """
        envelope = dsse.read(raw, where="statement")
        checked = self._check(envelope)
        known = self._records.find(checked.digest)
        if known is not None:
            self.lineages.reconsider(self._made, statement=known.digest)
            return Received(known, False, self.receipt(known), self.lineages.edge_of(known.digest))
        edge = self._admit(checked)
        clean = stripped(envelope, checked.signers)
        blob = self._blobs.put(clean.to_json())
        index = self._log.append([leaf_of(clean)])[0]
        self._log.checkpoint()
        with writing(self._engine) as session:
            record = self._records.add(
                session, clean, checked.statement, blob=blob, index=index, submitted_by=submitted_by
            )
            if edge is not None and record.log_index == index:
                self.lineages.add(session, *edge)
        return Received(record, record.log_index == index, self.receipt(record), edge[0] if edge else None)

    def find(self, digest: str) -> Record | None:
        """The statement of this digest."""
        return self._records.find(digest)

    def envelope(self, record: Record) -> Envelope:
        """The statement's envelope.

        Raises:
            StoreUnavailable: Its blob is missing.
            StoreCorrupt: Its blob is damaged.
        """
        return dsse.read(self._blobs.get(record.blob), where=record.digest)

    def receipt(self, record: Record) -> bytes:
        """The receipt of a stored statement, under the newest checkpoint."""
        return self._log.prove(record.log_index).encode()

    def binding(self, record: Record) -> Binding | None:
        """The earliest anchor that binds a statement."""
        return self.anchors.binding(record.log_index)

    def standings(self, root: str, *, netuid: int | None = None) -> Standings:
        """Who was first with this content, on one subnet or, for want of one, on all of the chain."""
        here = netuid if netuid is not None else self.netuid
        return standings(
            self._records.claims(root, genesis=self.genesis, netuid=here),
            self._submissions(root),
            root=root,
            genesis=self.genesis,
            bind=self.anchors.binding,
            find=self._records.find,
            history=self.history,
            netuid=here,
        )

    def claims(self, root: str) -> list[Record]:
        """Ownership claims of this content, in the order received."""
        return self._records.claims(root, genesis=self.genesis, netuid=self.netuid)

    def history(self, netuid: int) -> KeyHistory:
        """Hand-overs between keys that count on a subnet by now; worked out again only when there is something new."""
        version = (self._records.version(ROTATION), self.anchors.version())
        known = self._histories.get(netuid)
        if known is None or known[0] != version:
            known = self._histories[netuid] = (version, self._worked_out(netuid))
        return known[1]

    def _worked_out(self, netuid: int) -> KeyHistory:
        steps = []
        for record in self._records.of_kind(ROTATION, genesis=self.genesis, netuid=netuid):
            rotation = check(self.envelope(record), KeyRotation, expected=Expected(self.genesis, netuid))
            binding = self.anchors.binding(record.log_index)
            try:
                steps.append(hand_over(rotation, anchor=binding.position if binding else None, swaps=self._swaps))
            except RotationRefused:
                continue  # not anchored yet, or a swap the chain does not show
        return KeyHistory(steps)

    def reconsider(self) -> list[Edge]:
        """Judge again the lineages that could not be judged when they were declared."""
        return self.lineages.reconsider(self._made)

    def _check(self, envelope: Envelope) -> Checked[Predicate]:
        here = Expected(self.genesis, self.netuid)
        predicate = parse(envelope.payload).predicate
        if isinstance(predicate, Ownership):
            return _any(claims.check_ownership(envelope, expected=here))
        if isinstance(predicate, Lineage):
            return _any(lineage.check_lineage(envelope, expected=here))
        if isinstance(predicate, KeyRotation):
            return _any(check(envelope, KeyRotation, expected=here, where="rotation"))
        raise UnsupportedInput(
            "the service says this itself and takes it from nobody",
            where="statement",
            got=type(predicate).__name__,
            expected="ownership/v1, lineage/v1 or key-rotation/v1",
        )

    def _admit(self, checked: Checked[Predicate]) -> tuple[Edge, Measured] | None:
        """What the kind demands beyond signatures and context."""
        said = checked.predicate
        if isinstance(said, Ownership) and said.form is Form.OPENING and said.opening is not None:
            self._check_opening(checked, said.opening.statement)
        if isinstance(said, Lineage):
            child = checked.statement.digest_of("content-root") or ""
            return self.lineages.weigh(said, child, statement=checked.digest)
        return None

    def _check_opening(self, checked: Checked[Predicate], seal: str) -> None:
        record = self._records.find(seal)
        if record is None:
            raise CommitmentMismatch(
                "the sealed statement is not known here",
                where="opening",
                got=seal,
                remedy="Submit the sealed claim first.",
            )
        sealed = claims.check_ownership(self.envelope(record), expected=Expected(self.genesis, self.netuid))
        opening = Checked(checked.statement, _ownership(checked), checked.digest, checked.signers)
        claims.check_opening(opening, sealed)

    def _made(self, statement: str) -> Made:
        record = self._records.find(statement)
        predicate = parse(self.envelope(record).payload).predicate if record is not None else None
        return predicate.made if isinstance(predicate, Lineage) else Made.DERIVED

    def _bound(self, root: str) -> Position | None:
        return self.standings(root).position

    def _submissions(self, root: str) -> list[Submission]:
        return [s for model in self._registry.by_root([root]) for s in model.submissions if s.active]


def _any(checked: Checked[Ownership] | Checked[Lineage] | Checked[KeyRotation]) -> Checked[Predicate]:
    return Checked(checked.statement, checked.predicate, checked.digest, checked.signers)


def _ownership(checked: Checked[Predicate]) -> Ownership:
    if not isinstance(checked.predicate, Ownership):
        raise AttestError("not an ownership claim", where=checked.digest)
    return checked.predicate
