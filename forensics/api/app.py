"""The application: routers over services, with limits around them and problems for every refusal."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import HTMLResponse

from . import docs, problems
from .limits import MAX_BODY, BodyLimit
from .routers import attestations, epochs, log, models, service, verdicts
from .services import Services

ROUTERS = (service.router, verdicts.router, attestations.router, models.router, log.router, epochs.router)


def create_app(services: Services, *, max_body: int = MAX_BODY) -> FastAPI:
    """The HTTP application over these services; a further resource is a further router in ``ROUTERS``."""
    app = FastAPI(
        title="Forensics",
        summary="Whose weights are these? Statements, receipts, lineage and the log that holds them.",
        version="1",
        docs_url=None,  # FastAPI's page loads scripts from elsewhere; ours is below
        redoc_url=None,
    )
    problems.install(app)
    app.add_middleware(BodyLimit, limit=max_body)
    for make in ROUTERS:
        app.include_router(make(services))
    app.add_api_route("/docs", lambda: HTMLResponse(docs.page(app.openapi())), include_in_schema=False)
    return app
