"""``/v1/service``, ``/healthz`` and ``/readyz``: who this is, whether it lives, whether it can answer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import text
from starlette.responses import Response

from ...store.engine import reading
from .. import metrics, openapi
from ..problems import Problem
from ..services import Services


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["service"])

    @routes.get("/v1/service", summary="Whom signed requests are bound to, and the key of the log")
    def service() -> dict[str, Any]:
        return {
            "hotkey": services.hotkey,
            "scheme": "ed25519",
            "log_key": str(services.log_key),
            "network": services.network,
            "genesis": services.genesis,
            "netuid": services.netuid,
            "authentication": "btauth/1",
        }

    @routes.get("/healthz", summary="The process lives")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get("/readyz", summary="Database and log can be used")
    def readyz() -> dict[str, Any]:
        with reading(services.engine) as session:
            session.execute(text("SELECT 1"))
        if frozen := services.log.evidence():
            raise Problem(503, "log_frozen", f"the log is frozen: {frozen[0].reason}")
        return {"status": "ready", "log_size": services.log.size()}

    @routes.get(
        "/metrics",
        summary="What the service does and how it stands, for Prometheus",
        response_class=Response,
        responses=openapi.answer(200, "Text of Prometheus.", "forensics_store_up 1.0\n", media="text/plain"),
    )
    def counted() -> Response:
        return Response(metrics.page(services), media_type=CONTENT_TYPE_LATEST)

    return routes
