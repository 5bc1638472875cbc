"""What a hostile checkpoint could make its reader do; run in a child process only."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

Answer = tuple[dict[str, Any], bytes]


def fine(word: str) -> Answer:
    return {"word": word, "pid": os.getpid()}, b"\x00body"


def dies() -> Answer:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}, b""


def hangs() -> Answer:
    time.sleep(600)
    return {}, b""


def grows() -> Answer:
    held = []
    while True:
        held.append(bytearray(256 << 20))


def refuses() -> Answer:
    raise KeyError("no such tensor")


def outlives(note: str) -> Answer:
    Path(note).write_text(str(os.getpid()))
    time.sleep(600)
    return {}, b""
