"""The ``forensics`` command: exit codes, error lines, and commands that load what they need when they run.

Contract (design/1-architecture, Command line): 0 clean, 1 finding, 2 usage, 3 bad input or failed integrity,
4 unavailable. With ``--json`` stdout holds exactly one document, an error document included. Help must be quick, so
nothing here imports torch, the database or rich.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from attest.errors import AttestError
from fingerprint.errors import FingerprintError

from .. import errors
from ..errors import Exit, ForensicsError, Unavailable, UsageError
from . import (
    attest,
    backup,
    chain,
    compare,
    demo,
    identify,
    known,
    log,
    migrate,
    overfit,
    policy,
    replay,
    scan,
    score,
    seed_tasks,
    seeds,
    serve,
    verdicts,
    verify,
    worker,
)
from .console import emit, say

DEBUG = "FORENSICS_DEBUG"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Read by numerical libraries when they are loaded. Comparing is thousands of small products, for which a second thread
gains little and whose barriers cost minutes on a busy machine; scanning has threads of its own."""
# Typer carries its own copy of click in recent versions; its error classes are reached through what it exports.
_CLICK_ERROR = cast("type[Exception]", typer.BadParameter.__mro__[2])

app = typer.Typer(
    name="forensics",
    help="Whose weights are these? Says what a model is to the models that are known, and shows why.",
    epilog="Exit codes: 0 clean, 1 finding, 2 usage, 3 bad input or failed integrity, 4 unavailable.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="Folder that holds all state (database, blobs).", envvar="FORENSICS_HOME")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL of the database; SQLite in the home when absent.")
    ] = None,
    blobs: Annotated[str | None, typer.Option(help="fsspec URL of the blob store; a folder in the home.")] = None,
) -> None:
    """Whose weights are these? Says what a model is to the models that are known, and shows why."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    context.obj = {"home": home, "database": database, "blobs": blobs}


app.command("scan")(scan.scan)
app.command("compare")(compare.compare)
app.add_typer(known.app, name="known")
app.command("identify")(identify.identify)
app.command("overfit")(overfit.overfit)
app.add_typer(policy.app, name="policy")
app.command("replay")(replay.replay)
app.add_typer(attest.app, name="attest")
app.command("verify")(verify.verify)
app.add_typer(log.app, name="log")
app.add_typer(chain.app, name="chain")
app.add_typer(seeds.app, name="seeds")
seeds.app.command("tasks")(seed_tasks.tasks)
app.command("score")(score.score)
app.command("verdicts")(verdicts.verdicts)
app.command("serve")(serve.serve)
app.command("worker")(worker.worker)
app.command("migrate")(migrate.migrate)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("demo")(demo.demo)


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; no traceback for anything a user can cause."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except typer.Exit as done:  # --help
        return done.exit_code
    except (ForensicsError, FingerprintError, AttestError) as error:
        return _report(error, as_json=as_json)
    except _CLICK_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(str(error), file=sys.stderr)
            return Exit.USAGE
        return _report(_usage(error), as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return Exit.BROKEN_PIPE
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        return _report(_unforeseen(error), as_json=as_json)


def _invoke(arguments: list[str]) -> int:
    """The command's own exit code. Not through click's ``main``, which exits 1 (a finding) when a pipe breaks."""
    command = typer.main.get_command(app)
    with command.make_context("forensics", list(arguments)) as context:
        code = command.invoke(context)
    return code if isinstance(code, int) else Exit.CLEAN


def run() -> None:
    """Entry point of the installed command."""
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding lacks is no error
    sys.exit(main())


def _report(error: ForensicsError | FingerprintError | AttestError, *, as_json: bool) -> int:
    try:
        say(f"error: {error}")
        if as_json:
            emit(errors.document(error))
    except BrokenPipeError:
        _silence_stdout()
    return errors.exit_code(error)


def _usage(error: Exception) -> ForensicsError:
    """A click error as ours; click's text is kept, for it names the option."""
    text = str(getattr(error, "format_message", lambda: error)())
    command = getattr(getattr(error, "ctx", None), "command_path", "forensics")
    return UsageError(" ".join(text.split()).rstrip("."), remedy=f"See `{command} --help`.")


def _unforeseen(error: Exception) -> ForensicsError:
    """An error nobody foresaw: a bug, full memory or a failing disk. It proves nothing about the model."""
    if isinstance(error, OSError):
        where = str(error.filename or "")
        return Unavailable(error.strerror or str(error), where=where, remedy="Check the disk and its permissions.")
    if isinstance(error, MemoryError):
        return Unavailable("not enough memory", remedy="Run it where more memory is free.")
    return Unavailable(
        f"internal error: {type(error).__name__}: {str(error)[:200]}",
        remedy=f"Please report it; {DEBUG}=1 shows where.",
    )


def _silence_stdout() -> None:
    """Keep the interpreter from complaining at exit about a pipe that nobody reads."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
