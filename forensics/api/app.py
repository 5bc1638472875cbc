"""The application: routers over services, with limits around them and problems for every refusal."""

from __future__ import annotations

from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse

from . import docs, openapi, problems
from .limits import MAX_BODY, BodyLimit, Door
from .logs import Access
from .metrics import Measured
from .routers import attestations, epochs, evidence, hooks, identify, log, models, service, submissions, verdicts
from .services import Services

ROUTERS = (
    service.router,
    verdicts.router,
    submissions.router,
    identify.router,
    evidence.router,
    hooks.router,
    attestations.router,
    models.router,
    log.router,
    epochs.router,
)
TITLE = "Forensics"
SUMMARY = "Whose weights are these? Signed verdicts for validators, claims for miners, and the log that holds both."


def create_app(services: Services, *, max_body: int = MAX_BODY) -> FastAPI:
    """The HTTP application over these services; a further resource is a further router in ``ROUTERS``."""
    app = FastAPI(
        title=TITLE,
        summary=SUMMARY,
        version="1",
        docs_url=None,  # FastAPI's page loads scripts from elsewhere; ours is below
        redoc_url=None,
        redirect_slashes=False,
    )
    problems.install(app)
    app.add_middleware(BodyLimit, limit=max_body)
    app.add_middleware(Door, addresses=services.addresses)
    app.add_middleware(Measured, counts=services.counts, access=Access())
    for make in ROUTERS:
        app.include_router(make(services))
    app.add_api_route("/docs", lambda: HTMLResponse(docs.page(app.openapi())), include_in_schema=False)
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]
    return app


def describe() -> dict[str, Any]:
    """The OpenAPI description; no service is needed for it."""
    return create_app(cast("Services", _Anything())).openapi()


def _description(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        found = get_openapi(title=TITLE, summary=SUMMARY, version="1", routes=app.routes)
        app.openapi_schema = openapi.complete(found)
    return app.openapi_schema


class _Anything:
    """Stands for services where only the routes' shapes are wanted."""

    def __getattr__(self, name: str) -> _Anything:
        return self
