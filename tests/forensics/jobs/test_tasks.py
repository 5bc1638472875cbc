from __future__ import annotations

import threading
import time

import pytest

from forensics.errors import Unavailable
from forensics.jobs.tasks import Board, Schedule, Task
from forensics.jobs.workers import DEAD, Workers, slot

SECONDS = 20


def test_a_task_of_one_is_done_by_one_worker_a_period(engine, clock):
    task = Task("look", 60, lambda: None, alone=True)
    one, other = Board(engine, "one", clock=clock), Board(engine, "other", clock=clock)
    assert [one.claim(task), other.claim(task), one.claim(task)] == [True, False, False]
    clock.forward(61)
    assert [other.claim(task), one.claim(task)] == [True, False]


def test_a_failing_task_is_noted_comes_again_and_stops_no_other(engine, clock):
    told, runs = [], {"bad": 0, "good": 0}
    enough = threading.Event()

    def bad():
        runs["bad"] += 1
        raise Unavailable("node is away") if runs["bad"] % 2 else ZeroDivisionError("bug")

    def good():
        runs["good"] += 1
        if runs["good"] > 3 and runs["bad"] > 3:
            enough.set()

    board = Board(engine, "one")
    schedule = Schedule([Task("bad", 0.01, bad), Task("good", 0.01, good)], board, say=told.append, draw=lambda: 0.5)
    schedule.start()
    assert enough.wait(SECONDS)
    schedule.stop()
    assert "bad: node is away" in told
    assert "bad: ZeroDivisionError: bug" in told


def test_what_failed_is_on_record_until_it_works_again(engine, clock):
    fails = [True]

    def look():
        if fails[0]:
            raise Unavailable("node is away")

    board = Board(engine, "one", clock=clock)
    schedule, task = Schedule([], board, say=lambda text: None), Task("look", 60, look, alone=True)
    assert not schedule.once(task)
    assert board.problems() == {"look": "node is away"}
    fails[0] = False
    clock.forward(61)
    assert schedule.once(task)
    assert board.problems() == {}


def test_a_task_that_is_woken_does_not_wait_for_its_time(engine):
    wake, ran = threading.Event(), []
    schedule = Schedule([Task("press", 3600, lambda: ran.append(1), wake=wake)], Board(engine, "one"), say=print)
    schedule.start()
    deadline = time.monotonic() + SECONDS
    while len(ran) < 3:
        wake.set()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    schedule.stop()


def test_names_of_workers_last_and_are_never_shared(tmp_path):
    with slot(tmp_path) as first, slot(tmp_path) as second:
        assert first != second
    with slot(tmp_path, most=1) as again:
        assert again == first
        with pytest.raises(Unavailable, match="another worker"), slot(tmp_path, most=1):
            pass


def test_a_silent_worker_is_taken_for_dead_and_one_that_speaks_is_not(engine, clock):
    workers = Workers(engine, clock=clock)
    workers.beat("one")
    workers.beat("two")
    clock.forward(DEAD.total_seconds() + 1)
    workers.beat("two")
    assert workers.silent(but="two") == ["one"]
    workers.bury(["one"])
    assert workers.silent(but="two") == []
    workers.beat("one")
    clock.forward(1)
    assert workers.silent(but="two") == []
