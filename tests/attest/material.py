"""Keys, contexts and one example of every statement, for the tests of attest."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from attest import claims
from attest.checking import Expected
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Signer
from attest.keys.p256 import P256Signer
from attest.keys.sr25519 import Sr25519Signer
from attest.lineage import Tensors, descend
from attest.predicates import Account, Context, Decision, EpochStep, KeyRotation, SeedCommitment, SeedReveal, Verdicts
from attest.predicates.decision import Outcome
from attest.predicates.ownership import Release
from attest.predicates.rotation import Why
from attest.predicates.seeds import QUICKNET, Step
from attest.predicates.verdict import LogRef, Of, ParentModel, PolicyRef, Reason, Status, UidVerdict
from attest.statement import Statement, state

DATA = Path(__file__).parents[1] / "data" / "attest"
GENESIS = "0x" + sha256(b"a chain").hexdigest()
NETUID = 120
COMPETITION = "demo"
NOW = "2026-11-30T12:00:00Z"
HERE = Expected(genesis=GENESIS, netuid=NETUID, competition=COMPETITION)
NONCE = bytes(range(32))

MINER = Sr25519Signer(sha256(b"miner").digest())
RIVAL = Sr25519Signer(sha256(b"rival").digest())
COLD = Ed25519Signer(sha256(b"cold machine").digest())
SERVICE = Ed25519Signer(sha256(b"service").digest())
BUNDLE_KEY = P256Signer.from_scalar(int.from_bytes(sha256(b"bundle").digest()) >> 1)


def digest(text: str) -> str:
    """``sha256:`` of a word."""
    return "sha256:" + sha256(text.encode()).hexdigest()


ROOTS = claims.Roots(digest("content"), digest("nameless"), digest("oms"))


@cache
def vectors() -> dict[str, Any]:
    """The shared test vectors."""
    loaded: dict[str, Any] = json.loads((DATA / "vectors.json").read_text())
    return loaded


def hotkey(signer: Signer) -> Hotkey:
    """The account of a signer."""
    return Hotkey.of(signer.verifier)


def context(signer: Signer, *, parents: tuple[str, ...] = (), **changes: Any) -> Context:
    """The context of this test's subnet."""
    place = {"genesis": GENESIS, "netuid": NETUID, "competition": COMPETITION, "claimed_at": NOW} | changes
    return Context.of(hotkey(signer), parents=parents, **place)


def account(signer: Signer) -> Account:
    """The account of a signer as a statement names it."""
    return Account(scheme=str(signer.verifier.scheme), hotkey=hotkey(signer).address)


def ownership(signer: Signer = MINER, **changes: Any) -> Statement:
    """An open claim with everything in it."""
    release = Release(repo="miner/model", revision="a" * 40)
    return claims.own(
        context(signer, **changes), ROOTS, release=release, signing_key=BUNDLE_KEY.verifier, fingerprint=digest("print")
    )


def tensors(seed: str, *, count: int = 5, changed: tuple[int, ...] = ()) -> Tensors:
    """A model of ``count`` tensors; those in ``changed`` differ from the model without changes."""
    values = {i: f"{seed}/{i}{'/changed' if i in changed else ''}" for i in range(count)}
    return Tensors({f"layer.{i}": sha256(value.encode()).hexdigest() for i, value in values.items()})


def lineage(signer: Signer = MINER) -> Statement:
    """A child with two tensors changed."""
    parent = ownership(RIVAL).digest
    return descend(
        context(signer, parents=(parent,)),
        tensors("m"),
        tensors("m", changed=(1, 3)),
        parent_statement=parent,
        training_note="one epoch",
        evaluation=digest("report"),
    )


def rotation(old: Signer = MINER, new: Signer = COLD, **changes: Any) -> Statement:
    """A planned hand-over."""
    parts = {
        "context": context(old),
        "predecessor": account(old),
        "successor": account(new),
        "why": Why.PLANNED,
        "evidence": None,
        "note": "",
    }
    return state(KeyRotation(**(parts | changes)))


def snapshot(signer: Signer = SERVICE) -> Statement:
    """Two verdicts: one penalised with a reason, one unknown."""
    reason = Reason(
        code="copy.perturbed",
        detector="copy@1",
        of=Of(hotkey=hotkey(RIVAL).address, revision="b" * 40),
        confidence="0.9999999",
        false_accusation_probability="1e-9",
        evidence=digest("evidence"),
    )
    parent = ParentModel(digest=digest("parent"), weight="1.0", relation="derived", declared=True)
    common = {"permanent": False, "cluster": None, "case": None}
    judged = UidVerdict(
        uid=12,
        hotkey=hotkey(MINER).address,
        revision="a" * 40,
        content_root=digest("content"),
        status=Status.PENALISED,
        multiplier="0.25",
        reasons=(reason,),
        parents=(parent,),
        **common,
    )
    silent = UidVerdict(
        uid=13,
        hotkey=hotkey(COLD).address,
        revision=None,
        content_root=None,
        status=Status.UNKNOWN,
        multiplier="1.0",
        reasons=(),
        parents=(),
        **common,
    )
    return state(
        Verdicts(
            context=context(signer),
            schema="forensics/snapshot/v1",
            network="finney",
            genesis=GENESIS,
            netuid=NETUID,
            block=8512345,
            sequence=4711,
            issued_at=NOW,
            expires_at="2026-11-30T13:00:00Z",
            policy=PolicyRef(name="default", version=3, digest=digest("policy")),
            log=LogRef(origin="log.example", size=12345, root="A" * 43 + "="),
            verdicts=(judged, silent),
        )
    )


def commitment(signer: Signer = SERVICE) -> Statement:
    """The commitment of epoch 7."""
    return state(
        SeedCommitment(
            context=context(signer),
            epoch=7,
            commitment="1f" * 32,
            pool=digest("pool"),
            generator=digest("code"),
            chain=QUICKNET,
            mix_round=657413,
            open_round=657513,
            timelock="00ff",
            batch=None,
        )
    )


def reveal(signer: Signer = SERVICE) -> Statement:
    """The reveal of epoch 7."""
    statement = commitment(signer).digest
    return state(
        SeedReveal(
            context=context(signer, parents=(statement,)),
            epoch=7,
            commitment="1f" * 32,
            statement=statement,
            secret="00" * 32,
            mix_signature="b7" * 48,
            seed="c3" * 32,
            log_receipt=None,
        )
    )


def step(signer: Signer = SERVICE) -> Statement:
    """Epoch 7 opens for one validator."""
    statement = commitment(signer).digest
    return state(
        EpochStep(
            context=context(signer, parents=(statement,)),
            epoch=7,
            commitment="1f" * 32,
            statement=statement,
            step=Step.OPEN,
            block=8512345,
            block_time=1694775603,
            evidence=digest("items"),
            reason=None,
            roster=(hotkey(COLD).address,),
        )
    )


def decision(signer: Signer = SERVICE) -> Statement:
    """An amended verdict."""
    return state(
        Decision(
            context=context(signer),
            case="case-17",
            about=account(MINER),
            revision="a" * 40,
            verdict=snapshot().digest,
            outcome=Outcome.AMENDED,
            multiplier="0.5",
            permanent=False,
            reasons="The parent was declared.",
            evidence=(digest("evidence"),),
            supersedes=None,
        )
    )


def every_statement() -> dict[str, tuple[Statement, tuple[Signer, ...]]]:
    """One of each kind, with who must sign it."""
    sealed = claims.seal(context(MINER), ROOTS.content, nonce=NONCE)
    opening = claims.open_sealed(sealed, context(MINER, parents=(sealed.digest,)), ROOTS, nonce=NONCE)
    return {
        "ownership": (ownership(), (MINER,)),
        "sealed": (sealed, (MINER,)),
        "opening": (opening, (MINER,)),
        "lineage": (lineage(), (MINER,)),
        "rotation": (rotation(), (MINER, COLD)),
        "snapshot": (snapshot(), (SERVICE,)),
        "commitment": (commitment(), (SERVICE,)),
        "reveal": (reveal(), (SERVICE,)),
        "step": (step(), (SERVICE,)),
        "decision": (decision(), (SERVICE,)),
    }
