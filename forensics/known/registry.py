"""The registry of known models: content once, claims many, nothing ever erased.

The blob is written before the transaction, whole or not at all, and the transaction adds content, index entries and
claim together. So whatever kills a writer, the registry holds all of a model or nothing; a blob that nothing speaks
of is harmless, and found again when the same content is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Engine, case, func, select
from sqlalchemy.orm import Session, selectinload

from ..errors import BadInput, NotKnown, UsageError
from ..store.blobs import Blobs
from ..store.engine import reading, writing
from ..store.tables import ModelRow, SubmissionRow
from .claim import EXTRINSIC_LIMIT, Claim, KnownModel, Role, Submission
from .index import Entries, Index

if TYPE_CHECKING:
    from fingerprint.fingerprint import Fingerprint

Clock = Callable[[], datetime]
PREFIX_LEAST = 8  # hex digits; fewer name too many models by accident
_DIGEST_PREFIX = "sha256:"


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Added:
    """What adding did.

    Attributes:
        model: The model as it is now known.
        submission: The claim.
        new_model: Whether the content was not known before.
        new_claim: Whether the claim was not known before.
    """

    model: KnownModel
    submission: Submission
    new_model: bool
    new_claim: bool


class Registry:
    """Known models in a database and a blob store.

    Args:
        engine: The database, at the newest schema.
        blobs: Where fingerprint files go.
        clock: The time, for the record only; priority comes from blocks.
    """

    def __init__(self, engine: Engine, blobs: Blobs, *, clock: Clock = now) -> None:
        self._engine, self._blobs, self._clock = engine, blobs, clock

    def add(self, fingerprint: Fingerprint, claim: Claim) -> Added:
        """Register a claim to the content of ``fingerprint``; the same claim twice is one claim.

        Raises:
            UsageError: A field of the claim is out of range.
            BadInput: The same extrinsic already claims other content.
            StoreUnavailable: Nothing was changed.
        """
        from fingerprint.file import dumps  # here, for it imports torch, which listing does without

        claim = claim.checked()
        data = dumps(fingerprint)
        entries = Entries.of(fingerprint)
        blob = self._blobs.put(data)
        with writing(self._engine) as session:
            row, new_model = self._model(session, fingerprint, blob, len(data), entries)
            submission, new_claim = self._claim(session, row, claim)
            session.flush()
            session.refresh(row, ["submissions"])
            return Added(_model(row), _submission(submission), new_model, new_claim)

    def models(self, *, withdrawn: bool = False, role: Role | None = None) -> list[KnownModel]:
        """All known models in the order they were added; those nobody claims any more only with ``withdrawn``."""
        with reading(self._engine) as session:
            rows = session.scalars(
                select(ModelRow).options(selectinload(ModelRow.submissions)).order_by(ModelRow.id)
            ).all()
        found = [_model(row) for row in rows]
        found = [m for m in found if withdrawn or m.earliest is not None]
        return [m for m in found if role is None or any(s.claim.role is role for s in m.submissions)]

    def count(self) -> int:
        """How many models somebody claims."""
        with reading(self._engine) as session:
            query = select(func.count(SubmissionRow.model_id.distinct())).where(SubmissionRow.withdrawn_at.is_(None))
            return session.execute(query).scalar_one()

    def get(self, ids: Iterable[int]) -> list[KnownModel]:
        """Models by id, in the order asked for."""
        wanted = list(ids)
        with reading(self._engine) as session:
            query = select(ModelRow).where(ModelRow.id.in_(wanted)).options(selectinload(ModelRow.submissions))
            rows = {row.id: _model(row) for row in session.scalars(query)}
        return [rows[i] for i in wanted if i in rows]

    def earliest_of(self, ids: Iterable[int], count: int) -> list[int]:
        """The ``count`` of these models that were claimed first (``claim.precedence``, in the database)."""
        first = (
            case((SubmissionRow.role == Role.BASE.value, 0), (SubmissionRow.block.is_not(None), 1), else_=2),
            func.coalesce(SubmissionRow.block, 0),
            func.coalesce(SubmissionRow.extrinsic, EXTRINSIC_LIMIT),
            SubmissionRow.id,
        )
        listed = SubmissionRow.model_id.in_(list(ids))
        query = select(SubmissionRow.model_id).where(listed, SubmissionRow.withdrawn_at.is_(None)).order_by(*first)
        with reading(self._engine) as session:
            return list(dict.fromkeys(session.scalars(query)))[:count]

    def by_root(self, roots: Iterable[str]) -> list[KnownModel]:
        """Models with one of these content roots."""
        with reading(self._engine) as session:
            query = select(ModelRow).where(ModelRow.content_root.in_(list(roots)))
            rows = session.scalars(query.options(selectinload(ModelRow.submissions)).order_by(ModelRow.id)).all()
        return [_model(row) for row in rows]

    def find(self, digest: str) -> KnownModel:
        """The one model whose content root starts with ``digest``.

        Raises:
            UsageError: Too short, or not hexadecimal.
            NotKnown: None or several do.
        """
        prefix = digest.removeprefix(_DIGEST_PREFIX)
        if len(prefix) < PREFIX_LEAST or set(prefix) - set("0123456789abcdef"):
            raise UsageError(
                "not a content root", got=digest[:80], expected=f"sha256: and at least {PREFIX_LEAST} hex digits"
            )
        with reading(self._engine) as session:
            query = select(ModelRow).where(ModelRow.content_root.startswith(_DIGEST_PREFIX + prefix))
            rows = session.scalars(query.options(selectinload(ModelRow.submissions)).limit(2)).all()
        if len(rows) != 1:
            what = "several known models start with this" if rows else "no such known model"
            raise NotKnown(what, got=digest[:80], remedy="`forensics known list` shows them.")
        return _model(rows[0])

    def remove(self, model: KnownModel, *, hotkey: str | None = None, reason: str = "") -> list[Submission]:
        """Withdraw the claims to a model (or those of one hotkey); they stay on record.

        Raises:
            NotKnown: No claim stands.
        """
        with writing(self._engine) as session:
            query = select(SubmissionRow).where(
                SubmissionRow.model_id == model.id, SubmissionRow.withdrawn_at.is_(None)
            )
            if hotkey is not None:
                query = query.where(SubmissionRow.hotkey == hotkey)
            rows = session.scalars(query.order_by(SubmissionRow.id)).all()
            if not rows:
                raise NotKnown("no claim stands to withdraw", where=model.content_root, got=hotkey or "")
            for row in rows:
                row.withdrawn_at, row.withdrawn_reason = self._clock(), reason[:400] or None
            session.flush()
            return [_submission(row) for row in rows]

    def fingerprint(self, model: KnownModel) -> Fingerprint:
        """The stored fingerprint of a model.

        Raises:
            StoreUnavailable, StoreCorrupt: Its blob is missing or damaged.
        """
        from fingerprint.file import loads

        return loads(self._blobs.get(model.blob), where=model.blob)

    def _model(
        self, session: Session, fingerprint: Fingerprint, blob: str, size: int, entries: Entries
    ) -> tuple[ModelRow, bool]:
        self._serialise(session)
        query = select(ModelRow).where(ModelRow.content_root == fingerprint.content_root)
        row = session.scalars(query).one_or_none()
        if row is not None:
            if row.algorithm != _algorithm(fingerprint):
                Index.write(session, row.id, entries, again=True)
            row.algorithm = _algorithm(fingerprint)
            row.blob, row.blob_size = blob, size  # also heals a blob that was lost or damaged
            return row, False
        row = ModelRow(
            content_root=fingerprint.content_root,
            nameless_root=fingerprint.nameless_root,
            value_root=fingerprint.value_root,
            algorithm=_algorithm(fingerprint),
            family=fingerprint.meta.family[:80],
            parameters=fingerprint.parameters,
            blob=blob,
            blob_size=size,
            added_at=self._clock(),
        )
        session.add(row)
        session.flush()
        Index.write(session, row.id, entries)
        return row, True

    def _claim(self, session: Session, model: ModelRow, claim: Claim) -> tuple[SubmissionRow, bool]:
        self._refuse_contradiction(session, model, claim)
        for row in model.submissions:
            if row.withdrawn_at is None and replace(_claim(row), path=None, label="") == replace(
                claim, path=None, label=""
            ):
                row.path, row.label = claim.path or row.path, claim.label or row.label
                return row, False
        row = SubmissionRow(
            model_id=model.id,
            role=claim.role.value,
            label=claim.label,
            hotkey=claim.hotkey,
            block=claim.block,
            extrinsic=claim.extrinsic,
            repo=claim.repo,
            revision=claim.revision,
            path=claim.path,
            added_at=self._clock(),
        )
        session.add(row)
        return row, True

    @staticmethod
    def _refuse_contradiction(session: Session, model: ModelRow, claim: Claim) -> None:
        """One extrinsic of one hotkey commits to one content."""
        if claim.hotkey is None or claim.extrinsic is None:
            return
        query = (
            select(ModelRow.content_root)
            .join(SubmissionRow)
            .where(
                SubmissionRow.hotkey == claim.hotkey,
                SubmissionRow.block == claim.block,
                SubmissionRow.extrinsic == claim.extrinsic,
                SubmissionRow.withdrawn_at.is_(None),
                ModelRow.content_root != model.content_root,
            )
        )
        other = session.scalars(query.limit(1)).first()
        if other is not None:
            raise BadInput(
                "this extrinsic already claims other content",
                where=f"{claim.hotkey} at block {claim.block}, extrinsic {claim.extrinsic}",
                got=model.content_root,
                expected=other,
                remedy="Withdraw the wrong claim with `forensics known remove`.",
            )

    @staticmethod
    def _serialise(session: Session) -> None:
        """Let one writer add at a time; SQLite's write lock is already held, PostgreSQL is asked for one."""
        if session.get_bind().dialect.name == "postgresql":
            session.execute(select(func.pg_advisory_xact_lock(0x6B6E6F776E)))


def _algorithm(fingerprint: Fingerprint) -> str:
    """Algorithm and key: fingerprints under another key do not compare."""
    return f"{fingerprint.algorithm};key={fingerprint.meta.key_id}"


def _model(row: ModelRow) -> KnownModel:
    return KnownModel(
        id=row.id,
        content_root=row.content_root,
        nameless_root=row.nameless_root,
        value_root=row.value_root,
        algorithm=row.algorithm,
        family=row.family,
        parameters=row.parameters,
        blob=row.blob,
        blob_size=row.blob_size,
        submissions=_submissions(row.submissions),
    )


def _submissions(rows: Sequence[SubmissionRow]) -> tuple[Submission, ...]:
    return tuple(_submission(row) for row in rows)


def _submission(row: SubmissionRow) -> Submission:
    return Submission(row.id, _claim(row), row.added_at, row.withdrawn_at, row.withdrawn_reason)


def _claim(row: SubmissionRow) -> Claim:
    return Claim(
        role=Role(row.role),
        label=row.label,
        hotkey=row.hotkey,
        block=row.block,
        extrinsic=row.extrinsic,
        repo=row.repo,
        revision=row.revision,
        path=row.path,
    )
