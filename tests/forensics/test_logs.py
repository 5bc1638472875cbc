"""Logs hold no secrets, wherever these stand: settings, headers, URLs, messages, tracebacks."""

from __future__ import annotations

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics import logs
from forensics.settings import load

PASSWORD, SEED, DATABASE = "correct-horse-battery", "ab" * 32, "hunter2hunter2"


@pytest.fixture
def lines(tmp_path):
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    settings = load(
        home=tmp_path,
        key_password=PASSWORD,
        seed_key=SEED,
        database=f"postgresql://forensics:{DATABASE}@db.example/forensics",
        log_level="debug",
    )
    logs.configure(settings, stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for handler in [h for h in root.handlers if h not in before]:
        root.removeHandler(handler)
    root.setLevel(level)


def test_one_json_object_a_line_with_when_and_how_bad(lines):
    logs.logger("forensics.x").info("hello", answer=42, text="two\nlines")
    (line,) = lines()
    assert (line["event"], line["answer"], line["level"], line["logger"]) == ("hello", 42, "info", "forensics.x")
    assert line["timestamp"].endswith("Z")
    assert line["text"] == "two\nlines"


@pytest.mark.parametrize("secret", [PASSWORD, SEED, DATABASE])
def test_secrets_of_the_settings_do_not_get_through_anywhere(lines, secret):
    log = logs.logger("forensics.x")
    log.info(f"said {secret} aloud", path=f"/x/{secret}", nested={"a": [secret, {"b": secret}]}, odd=(1, secret))
    log.warning("url", url=f"postgresql://forensics:{secret}@db.example/x")
    logging.getLogger("some.library").error("library said %s", secret)
    try:
        raise ValueError(f"cannot open {secret}")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("failed")
    found = lines()
    assert len(found) == 4
    assert secret not in json.dumps(found)
    assert "Traceback" in found[-1]["exception"]


def test_a_server_that_set_up_its_own_logs_is_heard_through_ours(tmp_path):
    own = logging.getLogger("uvicorn")
    before = (list(own.handlers), own.propagate)
    own.handlers, own.propagate = [logging.NullHandler()], False
    stream = io.StringIO()
    try:
        logs.configure(load(home=tmp_path, key_password=PASSWORD), stream=stream)
        logging.getLogger("uvicorn.error").error("cannot open %s", PASSWORD)
    finally:
        own.handlers, own.propagate = before
        root = logging.getLogger()
        for handler in [h for h in root.handlers if getattr(h, "ours", False)]:
            root.removeHandler(handler)
    assert json.loads(stream.getvalue())["event"] == "cannot open [hidden]"


def test_fields_and_headers_with_telling_names_are_hidden(lines):
    logs.logger("forensics.x").info(
        "request",
        headers={"Authorization": "Bearer abcdef", "Cookie": "a=b", "Accept": "text/html"},
        pairs=[(b"x-bittensor-signature", b"0xdeadbeef"), ("host", "example")],
        token="t0ken",  # noqa: S106 - it is to be hidden
        webhook_secret=b"whsec",
        seed_key="s",
    )
    text = json.dumps(lines())
    for secret in ("abcdef", "a=b", "deadbeef", "t0ken", "whsec"):
        assert secret not in text
    assert "text/html" in text


@pytest.mark.parametrize(
    ("shown", "hidden"),
    [
        ("https://user:pa55word@example.com/x", "pa55word"),
        ("redis://:onlypass@example.com", "onlypass"),
        ("https://example.com/x?api_key=K123456&a=1", "K123456"),
        ("https://example.com/x?a=1&X-Amz-Signature=S987654", "S987654"),
        ("failed for s3://AKIAXX:deep@bucket/a, retrying", "deep@"),
    ],
)
def test_urls_lose_what_is_nobodys_business(shown, hidden):
    found = logs.Redactor().text(shown)
    assert hidden not in found
    assert "example" in found or "bucket" in found


@given(st.recursive(st.text() | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_nothing_that_is_logged_breaks_the_log(value):
    redact = logs.Redactor(["secret-value"])
    event = redact(None, "info", {"event": "x", "value": value, "more": ["secret-value"]})
    assert "secret-value" not in json.dumps(event)


def test_without_a_configuration_nothing_reaches_stdout(capsys):
    logs.logger("forensics.y").warning("not configured")
    assert capsys.readouterr().out == ""
