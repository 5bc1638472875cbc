"""Whole lives of epochs with kill -9, late and lying beacons, silent chains and clocks that jump."""

from __future__ import annotations

import json
import multiprocessing
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select

from attest.seeds.beacon import QUICKNET
from forensics.epochs.committing import Schedule, commit
from forensics.epochs.machine import MISSED, State
from forensics.epochs.public import epoch_file
from forensics.store.engine import reading
from forensics.store.epochs import EpochStatementRow

from . import worker
from .simulated import GENERATOR, PLAN, START, SimulatedChain, round_in, service, world_of

ROOT = Path(__file__).parents[3]
FORK = multiprocessing.get_context("fork")
EVERY, WINDOW, LEAD = 60, 40, 700
PATIENCE = 60


class Driver:
    """Turns the time, disturbs the world, kills and restarts the workers."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.url, self.folder, self.rng = url, folder, random.Random(seed)  # noqa: S311
        self.chain = SimulatedChain(folder)
        self.workers: list[tuple[multiprocessing.process.BaseProcess, Path]] = []
        self.files: list[Path] = []
        self.kills = 0

    def keep(self, count: int) -> None:
        """Start workers until there are so many."""
        while len(self.workers) < count:
            said = self.folder / f"worker-{len(self.files)}"
            process = FORK.Process(target=worker.main, args=(self.url, self.folder, said, len(self.files)))
            process.start()
            self.files.append(said)
            self.workers.append((process, said))

    def kill(self) -> None:
        """Kill one worker in whatever it does."""
        process, _ = self.workers.pop(self.rng.randrange(len(self.workers)))
        process.kill()
        process.join()
        self.kills += 1

    def stop(self) -> None:
        while self.workers:
            self.kill()

    def disturb(self, rounds: list[int]) -> None:
        """Late rounds, lies, silence and skewed clocks, for a while."""
        chance = self.rng.random
        self.chain.write("late", [r for r in rounds if chance() < 0.3])
        self.chain.write("lies", [r for r in rounds if chance() < 0.2])
        self.chain.write("silent", chance() < 0.1)
        self.chain.write("skew", self.rng.choice([0, 0, -(10**7), 10**7, -86_400, 86_400]))
        self.chain.write("chain_skew", self.rng.choice([0, 0, 0, -7200, 7200]))

    def calm(self) -> None:
        for name, value in (("late", []), ("lies", []), ("silent", False), ("skew", 0), ("chain_skew", 0)):
            self.chain.write(name, value)

    def step(self) -> None:
        """Turn the time on; then kill somebody, or wait until one has seen it."""
        self.chain.time = self.chain.time + self.rng.randrange(3, 60)
        if self.rng.random() < 0.25:
            time.sleep(self.rng.uniform(0, 0.05))
            self.kill()
            self.keep(2)
        else:
            self.seen()

    def seen(self) -> None:
        """Wait until a worker has acted on the present time."""
        deadline = time.monotonic() + PATIENCE
        while not any(["at", self.chain.time] in self.said(said, tail=True) for _, said in self.workers):
            assert time.monotonic() < deadline, "no worker acts"
            assert all(process.is_alive() for process, _ in self.workers)
            time.sleep(0.005)

    def said(self, path: Path, *, tail: bool = False) -> list[list]:
        if not path.exists():
            return []
        with path.open("rb") as file:
            if tail and path.stat().st_size > 4096:
                file.seek(-4096, 2)
                file.readline()
            lines = file.read().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]


def live(url: str, folder: Path, epochs: int, seed: int) -> Driver:
    driver = Driver(url, folder, seed)
    rotation = service(url, driver.chain)
    schedule = Schedule(round_in(LEAD), EVERY, WINDOW)
    commit(
        rotation.shelf,
        rotation.world,
        driver.chain.moment(),
        plan=PLAN,
        generator=GENERATOR,
        schedule=schedule,
        count=epochs,
    )
    rotation.shelf.engine.dispose()
    rounds = [r for place in range(epochs) for r in schedule.rounds(place)]
    driver.keep(2)
    driver.seen()
    driver.chain.time = QUICKNET.time_of(rounds[0]) - 30
    end = QUICKNET.time_of(rounds[-1]) + 60
    while driver.chain.time < end:
        if driver.rng.random() < 0.2:
            driver.disturb(rounds) if driver.rng.random() < 0.5 else driver.calm()
        driver.step()
    driver.calm()
    driver.chain.time = driver.chain.time + 100
    driver.seen()
    driver.stop()
    return driver


def check(driver: Driver, epochs: int, public: Path) -> dict[str, int]:
    """No epoch opened twice, early or on other seeds; every file verifies where nothing else is."""
    rotation = service(driver.url, driver.chain)
    rotation.advance()
    shelf = rotation.shelf
    found = shelf.epochs()
    assert [epoch.number for epoch in found] == list(range(epochs))
    assert {epoch.state for epoch in found} <= {State.REVEALED, State.VOID}
    assert {epoch.void_reason for epoch in found if epoch.state is State.VOID} <= {MISSED}
    with reading(shelf.engine) as session:
        twice = select(EpochStatementRow.digest).group_by(EpochStatementRow.digest).having(func.count() > 1)
        assert session.scalars(twice).all() == []
        leaves = list(session.scalars(select(EpochStatementRow.leaf)))
    assert sorted(leaves) == list(range(shelf.log.size()))
    fetched = [entry for said in driver.files for entry in driver.said(said) if entry[0] == "fetched"]
    for _, number, _, at, _ in fetched:
        assert at >= QUICKNET.time_of(found[number].mix_round)
    for epoch in found:
        (public / f"epoch-{epoch.number}.json").write_bytes(epoch_file(shelf, epoch.number).encode())
    (public / "vkey").write_text(str(shelf.log.key))
    reports = verified_elsewhere(public, epochs, driver)
    for epoch, report in zip(found, reports, strict=True):
        assert report["verdict"] == ("void" if epoch.state is State.VOID else "verified"), report
        same_items(report, [entry for entry in fetched if entry[1] == epoch.number])
    shelf.engine.dispose()
    voids = sum(epoch.state is State.VOID for epoch in found)
    return {"epochs": epochs, "void": voids, "fetched": len(fetched), "kills": driver.kills}


def same_items(report: dict, fetched: list[list]) -> None:
    """What was handed out is what the public seed gives, to each validator its own."""
    common = {item["id"] for item in report["items"] if item["validator"] is None}
    for _, _, hotkey, _, ids in fetched:
        own = {item["id"] for item in report["items"] if item["validator"] == hotkey}
        assert set(ids) == common | own


def verified_elsewhere(public: Path, epochs: int, driver: Driver) -> list[dict]:
    """Every file through ``seeds verify`` in one process that has the public files and nothing else."""
    key = world_of(driver.chain).network.public_key.hex()
    script = (
        "import sys\nfrom forensics.cli.main import main\n"
        "for number in range(int(sys.argv[1])):\n"
        "    code = main(['seeds', 'verify', f'epoch-{number}.json', '--trust', 'vkey', '--items', '--json',"
        " '--rehearsal-key', sys.argv[2]])\n"
        "    assert code == 0, (number, code)\n"
        "    print('\\x1e')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(epochs), key],
        cwd=public,
        env={"PYTHONPATH": str(ROOT), "FORENSICS_HOME": str(public / "nothing"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert not (public / "nothing").exists()
    return [json.loads(text) for text in done.stdout.split("\x1e")[:-1]]


@pytest.mark.parametrize("epochs", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_full_life_survives_everything_and_verifies_from_public_files(database_url, tmp_path, epochs):
    world, public = tmp_path / "world", tmp_path / "public"
    world.mkdir()
    public.mkdir()
    driver = live(database_url, world, epochs, seed=20_261_130 + epochs)
    try:
        figures = check(driver, epochs, public)
    finally:
        driver.stop()
    print(figures)
    assert figures["kills"] >= epochs // 2
    assert figures["fetched"] > 0
    assert figures["void"] < epochs
    assert driver.chain.time > START
