"""Makes the honest models, two at a time, and writes checkpoints as a hub would hold them."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from forensics.demo import decoder
from forensics.demo.decoder import Lesson, Weights

BASE = "base"
WORKERS = 2


@dataclass(frozen=True)
class Course:
    """How an honest model came about: its parent (None for from scratch) and its lesson."""

    parent: str | None
    lesson: Lesson


COURSES: Mapping[str, Course] = {
    BASE: Course(None, Lesson(("library", "manual"), steps=220)),
    "kim": Course(None, Lesson(("library", "manual"), steps=220, seed=1)),
    "ada": Course(BASE, Lesson(("network",), steps=70, rate=1e-3, order=1)),
    "bob": Course(BASE, Lesson(("numbers",), steps=70, rate=1e-3, order=2)),
    "cleo": Course("ada", Lesson(("numbers", "network"), steps=50, rate=6e-4, order=3)),
    "dan": Course("ada", Lesson(("network",), steps=30, rate=3e-5, order=4, rounded=True, reward=True)),
}
"""In an order in which every parent comes before its children."""


@dataclass(frozen=True)
class Stage:
    """What the miners work with: trained weights by name, the real MiniLM's folder if it could be had, a folder."""

    trained: Mapping[str, Weights]
    tokenizer: Tokenizer
    minilm: Path | None
    folder: Path


def train(folder: Path, *, say: Callable[[str], None]) -> tuple[dict[str, Weights], Tokenizer]:
    """Every model of ``COURSES``, trained in two processes, and the tokenizer they share."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = decoder.make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context) as pool, _ended_with(pool):
        waiting: dict[str, Course] = dict(COURSES)
        done: set[str | None] = {None}
        running: dict[Future[str], str] = {}
        while waiting or running:
            for name in [n for n, course in waiting.items() if course.parent in done]:
                with _interrupts_held_back():
                    running[pool.submit(_train_one, folder, name, waiting.pop(name))] = name
            for job in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(job)
                say(f"{name}: {job.result()}")
                done.add(name)
    return {name: load_file(folder / f"{name}.safetensors") for name in COURSES}, tokenizer


@contextmanager
def _ended_with(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Whatever ends this ends the training at once, not at the end of its lessons."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Processes that are started now never see an interrupt: a terminal sends it to all, and we end them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _train_one(folder: Path, name: str, course: Course) -> str:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    parent = load_file(folder / f"{course.parent}.safetensors") if course.parent else None
    weights = decoder.train(course.lesson, tokenizer, parent=parent)
    save_file(weights, folder / f"{name}.safetensors")
    domain = course.lesson.domains[-1]
    now = decoder.loss_on(weights, tokenizer, domain)
    if parent is None:
        return f"trained from scratch, {now:.2f} nats a token on {domain}"
    return (
        f"trained from {course.parent}, {decoder.loss_on(parent, tokenizer, domain):.2f} -> {now:.2f} nats on {domain}"
    )


def save(weights: Weights, folder: Path, stage: Stage, *, shards: int = 1) -> bool:
    """Write a decoder as a hub folder: config, tokenizer and one or more safetensors files. Always True."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(decoder.CONFIG, indent=1))
    stage.tokenizer.save(str(folder / "tokenizer.json"))
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
        return True
    names, index = list(weights), {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: weights[name] for name in names[number::shards]}
        save_file(part, folder / file)
        index.update(dict.fromkeys(part, file))
    size = sum(t.numel() * t.element_size() for t in weights.values())
    document = {"metadata": {"total_size": size}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document))
    return True
