"""``forensics score``: results and verdicts in, weights and why out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import BadInput, Exit, Unavailable, UsageError
from .console import emit, say

if TYPE_CHECKING:
    from ..client import Reading
    from ..scoring.field import Field
    from ..scoring.policy import Policy
    from ..scoring.run import Scoring
    from ..scoring.seats import Seated

MAX_SNAPSHOT = 16 << 20


def score(
    context: typer.Context,
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            help="CSV or Parquet: hotkey,revision,block,extrinsic,environment,item,score[,uid]; or Affine's scores "
            "response (JSON).",
        ),
    ],
    verdicts: Annotated[Path | None, typer.Option(metavar="SNAPSHOT", help="Verdicts: a signed snapshot file.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Verdicts: ask this service, as the client does, and remember its last word.")
    ] = None,
    service_key: Annotated[
        str | None, typer.Option(help="Key of the service that signs verdicts: name+id+base64, or a file with it.")
    ] = None,
    netuid: Annotated[int | None, typer.Option(min=0, max=65_535, help="Subnet.")] = None,
    network: Annotated[str, typer.Option(help="Chain, by name.")] = "finney",
    genesis: Annotated[str, typer.Option(help="Its genesis hash, when not built in.")] = "",
    policy: Annotated[Path | None, typer.Option(help="Policy of weights, TOML; the built-in one when absent.")] = None,
    affine: Annotated[
        bool | None, typer.Option("--affine/--table", help="What SCORES is; told by its first byte when absent.")
    ] = None,
    set_weights: Annotated[
        str | None, typer.Option(metavar="WALLET/HOTKEY", help="Send the weights to the chain with this wallet.")
    ] = None,
    wallet_path: Annotated[Path | None, typer.Option(help="Folder of wallets, for --set-weights.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Penalised Pareto weights: who is paid, how much, and why.

    A later model must beat every earlier one that entered by more than chance, on the tasks both did; copies share
    one chance. Verdicts multiply; what they withhold is burned or shared.
    Exits 1 when an alarm is raised: weight that is lost, or scores that lead to nothing.
    """
    from ..scoring import report
    from ..scoring.policy import load
    from ..scoring.run import score as run
    from ..scoring.seats import seat

    rules = load(policy)
    block, field = _field(scores, rules, affine)
    reading = _reading(context, verdicts, url, service_key, netuid, network, genesis)
    scoring = run(field, rules, reading)
    seated = seat(scoring, block=block)
    alarms = (*scoring.alarms, *seated.alarms)
    if set_weights is not None:
        _send(scoring, seated, netuid=netuid, network=network, wallet=set_weights, path=wallet_path)
    if json:
        emit(report.document(scoring, seated, block=block))
    else:
        from rich.console import Console

        from ..report import print_lines

        print_lines(report.render(scoring, seated), Console(highlight=False))
    for alarm in alarms:
        say(f"alarm: {alarm.code}: {alarm.detail}")
    return Exit.FINDING if alarms else Exit.CLEAN


def _field(path: Path, policy: Policy, affine: bool | None) -> tuple[int | None, Field]:
    if _is_json(path) if affine is None else affine:
        from ..scoring.affine import read_response

        response = read_response(path, policy)
        return response.block, response.field
    from ..scoring.table import read_table

    return None, read_table(path, policy)


def _is_json(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError as error:
        raise Unavailable("cannot read the scores", where=str(path), got=error.strerror or str(error)) from None


def _reading(
    context: typer.Context,
    verdicts: Path | None,
    url: str | None,
    service_key: str | None,
    netuid: int | None,
    network: str,
    genesis: str,
) -> Reading | None:
    if verdicts is None and url is None:
        if service_key is not None:
            raise UsageError("a key and nothing it signed", where="--service-key", remedy="Give --verdicts or --url.")
        return None
    if verdicts is not None and url is not None:
        raise UsageError("verdicts from a file or from a service, not both", where="--verdicts")
    if service_key is None:
        raise UsageError(
            "whose verdicts?",
            where="--service-key",
            expected="name+id+base64",
            remedy="`GET /v1/service` shows log_key; get it from somebody you believe.",
        )
    key = _key(service_key)
    if url is not None:
        return _from_service(context, url, key, netuid, network, genesis)
    assert verdicts is not None  # noqa: S101  # one of both is there
    return _from_file(verdicts, key, netuid, network, genesis)


def _from_service(
    context: typer.Context, url: str, key: str, netuid: int | None, network: str, genesis: str
) -> Reading:
    from ..client import VerdictClient
    from .home import Home

    if netuid is None:
        raise UsageError("which subnet?", where="--netuid", expected="0..65535")
    cache = Home(context.obj).settings.home / "verdicts"
    client = VerdictClient(url, key, netuid=netuid, network=network, genesis=genesis, cache=cache)
    reading = client.read()
    if reading.loud:
        say(f"verdicts: {reading.why}")
    return reading


def _from_file(path: Path, key: str, netuid: int | None, network: str, genesis: str) -> Reading:
    """A snapshot file: damaged, foreign or expired, it is refused, for somebody chose it."""
    from attest import envelope as dsse
    from attest.statement import parse

    from ..client import Refused, Trust, verify
    from ..client.core import Held, reading
    from ..place import now

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SNAPSHOT + 1)
    except OSError as error:
        raise Unavailable("cannot read the verdicts", where=str(path), got=error.strerror or str(error)) from None
    if netuid is None:  # what the file says it is about; signed like the rest
        netuid = parse(dsse.read(raw, where=str(path)).payload, where=str(path)).context.netuid
    try:
        snapshot = verify(raw, Trust.of(key, netuid=netuid, network=network, genesis=genesis), where=str(path))
    except Refused as refusal:
        raise BadInput(
            "the verdicts are not believed", where=str(path), got=str(refusal), remedy="Get them again; check the key."
        ) from None
    found = reading(Held(snapshot), now(), confirmed=False)
    if found.snapshot is None:
        raise BadInput("the verdicts have expired", where=str(path), got=snapshot.verdicts.expires_at)
    return found


def _key(text: str) -> str:
    path = Path(text).expanduser()
    try:
        return path.read_text()[:4096] if len(text) < 1024 and path.is_file() else text
    except (OSError, UnicodeDecodeError):
        return text


def _send(
    scoring: Scoring, seated: Seated, *, netuid: int | None, network: str, wallet: str, path: Path | None
) -> None:
    from ..claims.wallets import keypair
    from ..scoring.setting import described, send

    reading = scoring.reading
    if netuid is None and reading is not None and reading.snapshot is not None:
        netuid = reading.snapshot.verdicts.netuid
    if netuid is None:
        raise UsageError("which subnet?", where="--netuid", expected="0..65535")
    pair = keypair(wallet, folder=path)
    sent = send(seated.by_hotkey, burn_uid=scoring.policy.burn_uid, netuid=netuid, network=network, pair=pair)
    say(described(sent))
