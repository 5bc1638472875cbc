"""A subnet kept in a file and played again gives the same rows; a damaged file is refused."""

from __future__ import annotations

import json

import jsonschema
import pytest

from attest import canonical
from forensics.chain.fake import FakeSubstrate
from forensics.chain.fake_subnet import FakeSubnet
from forensics.chain.node import NodeReader
from forensics.chain.recorded_subnet import RecordedSubnet, Recorder, SubnetRecording, encode
from forensics.chain.subnet import Subnet
from forensics.chain.sync import Syncer
from forensics.errors import BadInput, ChainPruned
from forensics.store.engine import connect
from forensics.store.migrate import ensure

from .subnets import NETUID, model, who


@pytest.fixture
def new_engine(tmp_path):
    made = []

    def one(name):
        made.append(connect(f"sqlite:///{tmp_path / name}"))
        ensure(made[-1])
        return made[-1]

    yield one
    for engine in made:
        engine.dispose()


@pytest.fixture
def played(new_engine, tmp_path, connect):
    """A subnet that lived through everything, its recording, and the database that read it from the chain."""
    substrate = FakeSubstrate()
    fake = FakeSubnet(substrate, NETUID, size=3)
    for name in ("ann", "ben", "cat"):
        fake.register(who(name), who(f"{name} cold"))
        substrate.produce()
    recorder = Recorder(NodeReader(connect(to=substrate)))
    genesis = "0x" + recorder.genesis().hex()
    engine = new_engine("read.db")
    syncer = Syncer(engine, recorder, genesis, NETUID)

    def look() -> None:
        substrate.produce(substrate.lag)
        syncer.step()

    look()
    fake.commit(who("ann"), model("a"))
    fake.commit(who("ann"), b"\xff\x00 hostile")
    fake.seal_and_reveal(who("ben"), model("b"), b"\x80" * 300)
    look()
    fake.swap(who("ann"), who("new"))
    substrate.produce(20)
    fake.register(who("dan"), who("dan cold"))
    fake.commit_digest(who("dan"), bytes(range(32)))
    look()
    return Subnet(engine, genesis, NETUID), recorder.recording()


def tables(subnet: Subnet):
    hotkeys = {neuron.hotkey for neuron in subnet.neurons()} | {who("ann"), who("ben")}
    times = {hotkey: subnet.times(hotkey) for hotkey in hotkeys}
    return subnet.block(), subnet.neurons(), subnet.commits(), subnet.swaps(), subnet.gaps(), times


def test_a_recording_plays_into_the_same_rows(played, new_engine):
    original, recording = played
    reader = RecordedSubnet.parse(encode(recording))
    engine = new_engine("played.db")
    syncer = Syncer(engine, reader, original.genesis, NETUID)
    blocks = [syncer.step().block]
    while reader.advance():
        blocks.append(syncer.step().block)
    assert blocks == [moment.number for moment in recording.moments]
    assert tables(Subnet(engine, original.genesis, NETUID)) == tables(original)


def test_starting_over_changes_nothing(played, new_engine):
    original, recording = played
    engine = new_engine("played.db")
    for _ in range(2):
        reader = RecordedSubnet.parse(encode(recording))
        syncer = Syncer(engine, reader, original.genesis, NETUID)
        syncer.step()
        while reader.advance():
            syncer.step()
    assert tables(Subnet(engine, original.genesis, NETUID)) == tables(original)


def test_the_file_is_what_its_schema_says(played):
    from docs.schemas.generate import FOLDER

    schema = json.loads((FOLDER / "subnet-recording-v1.schema.json").read_bytes())
    jsonschema.validate(json.loads(encode(played[1])), schema)


def test_the_future_is_not_told_before_its_time(played):
    reader = RecordedSubnet(played[1])
    assert reader.finalized() == played[1].moments[0].number
    assert reader.block(played[1].moments[1].number) is None
    with pytest.raises(ChainPruned):
        reader.happened(NETUID, played[1].moments[1].number)


def test_what_was_not_recorded_is_gone_not_absent(played):
    reader = RecordedSubnet(played[1])
    for ask in (lambda: reader.state(NETUID, 5), lambda: reader.state(NETUID + 1, 105), lambda: reader.block(5)):
        with pytest.raises(ChainPruned, match="does not hold"):
            ask()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema="forensics/subnet-recording/v2"),
        lambda d: d["moments"].reverse(),
        lambda d: d["moments"].clear(),
        lambda d: d["moments"][1]["happened"].append(d["moments"][1]["happened"][0]),
        lambda d: d["moments"][0]["neurons"][0].update(hotkey="5nobody"),
        lambda d: d["moments"][0]["neurons"][0].update(more=1),
        lambda d: d["moments"][0].pop("hash"),
        lambda d: d["moments"][1]["commits"][0].update(data="0g"),
    ],
)
def test_a_damaged_recording_is_refused(played, change):
    document = json.loads(encode(played[1]))
    change(document)
    with pytest.raises(BadInput):
        RecordedSubnet.parse(canonical.write(document, where="test"))


@pytest.mark.parametrize("raw", [b"", b"{}", b"[" * 9999, b"\xff", b'{"schema":NaN}'])
def test_what_is_no_recording_is_refused(raw):
    with pytest.raises(BadInput):
        RecordedSubnet.parse(raw)


def test_a_recording_reads_back_as_it_was_written(played):
    assert SubnetRecording.read(json.loads(encode(played[1]))) == played[1]
