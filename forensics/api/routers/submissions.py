"""``/v1/submissions``: hand in a commitment to be looked at, and see how far it is.

The chain is read anyway; whoever hands in a commitment only hurries it along. So a miner names its own commitment and
the chain says where that stands. An operator may hand in others' and says the block itself, for chains that are not
read here.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from starlette.responses import JSONResponse, Response

from attest import canonical
from attest.errors import AttestError
from attest.keys import ss58

from ...entries.claimed import ENDED, Claimed, Entry, State
from ...entries.entries import entry_of
from ...known.claim import BLOCK_LIMIT, EXTRINSIC_LIMIT
from ...store.engine import reading
from ...store.entries import EntryRow
from .. import openapi
from ..idempotency import Answer
from ..problems import Problem
from ..request import Raw, parsed, raw
from ..roles import Role
from ..services import Services

PREFIX: Final = "/v1/submissions"
PAGE, LARGEST_PAGE = 50, 200
EXAMPLE: Final = {
    "id": openapi.DIGEST,
    "netuid": 120,
    "hotkey": openapi.ADA,
    "repo": "ada/affine-qwen3",
    "revision": openapi.REVISION,
    "block": 8512301,
    "extrinsic": 7,
    "state": "identifying",
    "ended": False,
    "reason": None,
    "content_root": openapi.DIGEST,
    "attempts": 0,
    "source": "chain",
    "found_at": "2026-11-30T12:00:04+00:00",
    "changed_at": "2026-11-30T12:00:31+00:00",
    "verdict": f"/v1/netuids/120/verdicts/{openapi.ADA}",
}


class Commitment(BaseModel):
    """A model that somebody committed to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    netuid: int = Field(ge=0, le=0xFFFF, description="Subnet.", examples=[120])
    hotkey: str = Field(min_length=1, max_length=64, description="Whose it is (ss58).", examples=[openapi.ADA])
    repo: str = Field(
        pattern=r"^[A-Za-z0-9_.-]{1,96}/[A-Za-z0-9_.-]{1,96}$",
        description="Hub repository.",
        examples=["ada/affine-qwen3"],
    )
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="Full commit.", examples=[openapi.REVISION])
    block: int | None = Field(
        default=None, ge=0, lt=BLOCK_LIMIT, description="Block of the commitment; operators only.", examples=[None]
    )
    extrinsic: int = Field(default=0, ge=0, lt=EXTRINSIC_LIMIT, description="Index of its extrinsic.", examples=[0])


Id = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$", description="Its id.", examples=[openapi.DIGEST])]


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix=PREFIX, tags=["submissions"])

    @routes.post(
        "",
        status_code=202,
        summary="Hand in a commitment; a signed request of its hotkey or of an operator",
        responses=openapi.answer(202, "Taken; `Location` says where it is watched.", EXAMPLE)
        | openapi.answer(200, "It was there already.", EXAMPLE)
        | openapi.problems(
            *openapi.SIGNED,
            *openapi.KEYED,
            "role_missing",
            "commitment_unknown",
            "netuid_not_served",
            "invalid_request",
        ),
        openapi_extra=openapi.signed(body={"application/json": {"schema": Commitment.model_json_schema()}}),
    )
    def hand_in(request: Annotated[Raw, Depends(raw)]) -> Response:
        caller = request.caller(services).hotkey.address

        def act() -> Answer:
            entry = services.entries.accept(_claimed(services, parsed(request.body, Commitment), caller), "api")
            return Answer(202 if entry.new else 200, canonical.write(document(entry)))

        answer = services.answers.once(request.idempotency_key, hotkey=caller, request=request.identity, act=act)
        return Response(
            answer.body, status_code=answer.status, headers=_location(answer.body), media_type="application/json"
        )

    @routes.get(
        "/{id}",
        summary="How far a submission is",
        responses=openapi.answer(200, "The submission.", EXAMPLE) | openapi.problems("invalid_request"),
    )
    def show(id: Id) -> Response:
        return JSONResponse(document(services.entries.get(id)))

    @routes.get(
        "",
        summary="Submissions of a subnet, oldest claim first; a page at a time",
        responses=openapi.answer(200, "A page; `next` is null on the last.", {"submissions": [EXAMPLE], "next": None})
        | openapi.problems("invalid_request"),
    )
    def page(
        netuid: Annotated[int, Query(ge=0, le=0xFFFF, description="Subnet.", examples=[120])],
        hotkey: Annotated[str | None, Query(max_length=64, description="Only this hotkey's.")] = None,
        state: Annotated[State | None, Query(description="Only those in this state.")] = None,
        limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Submissions a page.")] = PAGE,
        after: Annotated[int, Query(ge=0, lt=1 << 31, description="`next` of the page before.")] = 0,
    ) -> Response:
        entries = _page(services, netuid, hotkey and _address(hotkey), state, after, limit + 1)
        shown = entries[:limit]
        following = shown[-1].id if len(entries) > limit else None
        return JSONResponse({"submissions": [document(entry) for entry in shown], "next": following})

    return routes


def document(entry: Entry) -> dict[str, Any]:
    """A submission, as everybody may see it."""
    claimed = entry.claimed
    return {
        "id": entry.digest,
        "netuid": claimed.netuid,
        "hotkey": claimed.hotkey,
        "repo": claimed.repo,
        "revision": claimed.revision,
        "block": claimed.block,
        "extrinsic": claimed.extrinsic,
        "state": str(entry.state),
        "ended": entry.state in ENDED,
        "reason": _public(entry.reason),
        "content_root": entry.content_root,
        "attempts": entry.attempts,
        "source": entry.source,
        "found_at": entry.found_at.isoformat(),
        "changed_at": entry.changed_at.isoformat(),
        "verdict": f"/v1/netuids/{claimed.netuid}/verdicts/{claimed.hotkey}",
    }


def _public(reason: str | None) -> str | None:
    """The reason's word; the text behind it is for the operator, for it names files of this machine."""
    return reason.partition(":")[0] if reason else None


def _claimed(services: Services, said: Commitment, caller: str) -> Claimed:
    """What is handed in, with the position that counts.

    Raises:
        Problem: Another subnet, somebody else's, or a commitment that the chain does not have.
    """
    if services.netuid is not None and said.netuid != services.netuid:
        raise Problem(422, "netuid_not_served", f"this service works for subnet {services.netuid}")
    hotkey = _address(said.hotkey)
    operator = services.roles.of_hotkey(caller) >= Role.OPERATOR
    if hotkey != caller and not operator:
        raise Problem(403, "role_missing", "only operators hand in what others committed")
    if operator and said.block is not None:
        block, extrinsic = said.block, said.extrinsic
    else:
        found = services.commitments.find(said.netuid, hotkey, repo=said.repo, revision=said.revision)
        if found is None:
            raise Problem(409, "commitment_unknown", "no such commitment of this hotkey was seen on chain")
        block, extrinsic = found.block, found.extrinsic
    return Claimed(services.genesis, said.netuid, hotkey, said.repo, said.revision, block, extrinsic)


def _address(hotkey: str) -> str:
    try:
        return ss58.normalise(hotkey)
    except AttestError as error:
        raise Problem(400, "hotkey_malformed", error.what) from None


def _location(body: bytes) -> dict[str, str]:
    found = canonical.read_object(body)
    return {"Location": f"{PREFIX}/{found['id']}"}


def _page(
    services: Services, netuid: int, hotkey: str | None, state: State | None, after: int, limit: int
) -> list[Entry]:
    query = select(EntryRow).where(EntryRow.genesis == services.genesis, EntryRow.netuid == netuid, EntryRow.id > after)
    query = query if hotkey is None else query.where(EntryRow.hotkey == hotkey)
    query = query if state is None else query.where(EntryRow.state == state)
    with reading(services.engine) as session:
        return [entry_of(row) for row in session.scalars(query.order_by(EntryRow.id).limit(limit))]
