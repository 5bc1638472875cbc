"""Two servers on one home, killed in the middle of claims: what was answered stays, under its number."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from bittensor import http_auth

from forensics.cli.main import main
from forensics.place import GENESIS, Place
from tests.forensics.attesting import claim_of, pair, signed, signer

ROOT = Path(__file__).parents[3]
HERE = Place(GENESIS["finney"], 1)
WORKERS, CLAIMS = 4, 12


class Server:
    """``forensics serve`` in a process of its own."""

    def __init__(self, home):
        environment = os.environ | {"FORENSICS_HOME": str(home), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", "from forensics.cli.main import run; run()", "serve", "--port", "0"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.url = next(line.split()[1] for line in self.process.stderr if line.startswith("serving"))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.mark.slow
def test_no_claim_that_was_answered_is_lost_when_servers_are_killed(own_home, capsys):
    with ThreadPoolExecutor(2) as pool:  # both start on the same empty home
        servers = list(pool.map(lambda _: Server(own_home), range(2)))
    identity = httpx2.get(f"{servers[0].url}/v1/service").json()
    assert identity == httpx2.get(f"{servers[1].url}/v1/service").json()
    answered: dict[str, int] = {}
    halfway = threading.Event()

    def hand_in(worker: int) -> None:
        key = pair(f"worker {worker}")
        for number in range(CLAIMS):
            body = signed(claim_of(key, f"{worker}-{number}", place=HERE), signer(key)).to_json()
            path = "/v1/attestations"
            headers = http_auth.sign(key, method="POST", path=path, body=body, receiver_ss58=identity["hotkey"])
            try:
                url = servers[number % 2].url
                answer = httpx2.post(url + path, content=body, headers=headers, timeout=60)
            except httpx2.HTTPError:
                continue
            assert answer.status_code == 201, answer.text
            answered[answer.json()["digest"]] = answer.json()["log_index"]
            if len(answered) > WORKERS * CLAIMS // 3:
                halfway.set()

    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(hand_in, worker) for worker in range(WORKERS)]
        halfway.wait(60)
        servers[0].kill()
        for future in running:
            future.result()
    servers[1].kill()
    again = Server(own_home)
    try:
        assert len(answered) > WORKERS * CLAIMS // 3
        assert len(set(answered.values())) == len(answered)
        for digest, index in answered.items():
            found = httpx2.get(f"{again.url}/v1/attestations/{digest}", timeout=60).json()
            assert found["log_index"] == index
    finally:
        again.kill()
    assert main(["log", "audit"]) == 0
    capsys.readouterr()
