"""A request whose client goes away."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from forensics.api.problems import Problem
from forensics.api.request import raw


def test_a_client_that_goes_away_in_a_body_is_no_error_of_ours():
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    with pytest.raises(Problem, match="closed"):
        asyncio.run(raw(Request(scope, receive)))
