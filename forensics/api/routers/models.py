"""``/v1/models``: what is claimed and measured about a model, by its content root."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter

from attest.graph import Edge

from ..problems import Problem
from ..services import Services
from .attestations import record_document

_ROOT: Final = re.compile(r"sha256:[0-9a-f]{64}")


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])
    attestations = services.attestations

    @routes.get("/{digest}/lineage", summary="Claims to a model, its ancestry and its descendants")
    def lineage(digest: str) -> dict[str, Any]:
        if not _ROOT.fullmatch(digest):
            raise Problem(400, "malformed_digest", "a content root is sha256: and 64 hex digits")
        graph = attestations.lineages.graph()
        claims = attestations.claims(digest)
        ancestry, descendants = graph.ancestry(digest), graph.descendants(digest)
        contradicted = [edge for edge in graph.contradicted if digest in (edge.child, edge.parent)]
        if not (claims or ancestry or descendants or contradicted):
            raise Problem(404, "not_known", "nothing was claimed or measured about this model here")
        standings = {n: attestations.standings(digest, netuid=n) for n in {claim.netuid for claim in claims}}
        return {
            "model": digest,
            "claims": [record_document(services, record, standings[record.netuid]) for record in claims],
            "ancestry": [edge_document(edge) for edge in ancestry],
            "descendants": [edge_document(edge) for edge in descendants],
            "undeclared": [edge_document(edge) for edge in graph.undeclared(digest)],
            "contradicted": [edge_document(edge) for edge in contradicted],
        }

    return routes


def edge_document(edge: Edge) -> dict[str, Any]:
    """A parent of a child, as declared and as measured."""
    return {
        "parent": edge.parent,
        "child": edge.child,
        "declared": edge.declared,
        "judgement": str(edge.judgement),
        "relation": edge.relation,
    }
