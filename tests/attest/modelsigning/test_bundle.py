from __future__ import annotations

import base64
import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from attest import envelope
from attest.errors import AttestError, BundleError, ContentMismatch, InvalidSignature, MalformedInput, UnsupportedInput
from attest.keys.p256 import P256Signer
from attest.modelsigning import hash_folder, open_bundle, sign, verify_folder
from attest.modelsigning.bundle import MEDIA_TYPE, key_hint
from attest.modelsigning.manifest import Manifest, Resource, read_statement

SIGNER, OTHER = P256Signer.from_scalar(7), P256Signer.from_scalar(8)
KEY = SIGNER.verifier
VECTORS = Path(__file__).parents[2] / "data/attest/oms"
SHARDS = [None, 5]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    for name, body in {"config.json": b"{}", "a/weights.bin": b"0123456789", "a.txt": b"x", "empty": b""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    return folder


def bundle(payload, signer=SIGNER, **changes):
    """A bundle whose statement is ``payload``, honestly signed."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    signed = json.loads(envelope.sign(raw, [signer]).to_json())
    material = {"publicKey": {"hint": key_hint(signer.verifier)}, "tlogEntries": []}
    return json.dumps(
        {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": signed, **changes}
    ).encode()


def statement(folder, shard_size=None, ignore=()):
    hashed = hash_folder(folder, shard_size=shard_size, ignore=(".git", *ignore))
    return json.loads(Manifest("model", hashed.resources, shard_size, tuple(ignore)).statement())


def rerooted(whole):
    """The statement with the root that its resources now have: what a dishonest signer would sign."""
    joined = b"".join(bytes.fromhex(r["digest"]) for r in whole["predicate"]["resources"])
    whole["subject"][0]["digest"]["sha256"] = sha256(joined).hexdigest()
    return whole


@pytest.mark.parametrize("shard_size", SHARDS)
def test_what_is_signed_is_accepted_and_what_changed_is_named(model, shard_size):
    raw = sign(hash_folder(model, shard_size=shard_size), SIGNER, name="model")
    checked = verify_folder(raw, model, KEY)
    assert checked.in_order
    assert checked.hidden == ()
    assert checked.unsigned_empty == (() if shard_size is None else ("empty",))
    (model / "a/weights.bin").write_bytes(b"0123456788")
    with pytest.raises(ContentMismatch, match=r"a/weights\.bin"):
        verify_folder(raw, model, KEY)


@pytest.mark.parametrize("shard_size", SHARDS)
def test_a_file_too_many_or_too_few_is_named(model, shard_size):
    raw = sign(hash_folder(model, shard_size=shard_size), SIGNER, name="model")
    (model / "extra.py").write_text("import os")
    with pytest.raises(ContentMismatch, match=r"not signed.*extra\.py"):
        verify_folder(raw, model, KEY)
    (model / "extra.py").unlink()
    (model / "a.txt").unlink()
    with pytest.raises(ContentMismatch, match=r"missing.*a\.txt"):
        verify_folder(raw, model, KEY)


def test_a_piece_left_out_is_noticed(model):
    whole = statement(model, 5)
    whole["predicate"]["resources"] = [r for r in whole["predicate"]["resources"] if not r["name"].endswith(":5:10")]
    with pytest.raises(ContentMismatch, match=r"a/weights\.bin:5:10"):
        verify_folder(bundle(rerooted(whole)), model, KEY)


def test_the_bundle_may_lie_in_the_folder_but_nothing_else_may_pose_as_it(model):
    raw = sign(hash_folder(model), SIGNER, name="model")
    (model / "model.sig").write_bytes(raw)
    assert verify_folder(raw, model, KEY).hidden == ()
    (model / "model.sig").write_bytes(raw[:-1] + b" ")
    with pytest.raises(ContentMismatch, match=r"model\.sig"):
        verify_folder(raw, model, KEY)


def test_every_changed_byte_of_a_bundle_is_refused(model):
    raw = sign(hash_folder(model), SIGNER, name="model")
    open_bundle(raw, KEY)
    unsigned = raw.index(b'"keyid"'), raw.index(b'"sig"')
    tlog = raw.index(b'"tlogEntries"')
    for at in range(0, len(raw)):
        if unsigned[0] <= at < unsigned[1] or at >= tlog or at % 7:
            continue  # hints that decide nothing; every seventh of the rest
        with pytest.raises(AttestError):
            open_bundle(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :], KEY)


def test_another_key_is_refused_by_name_and_a_forged_hint_does_not_help(model):
    raw = sign(hash_folder(model), SIGNER, name="model")
    with pytest.raises(BundleError) as caught:
        open_bundle(raw, OTHER.verifier)
    assert caught.value.code == "wrong_key"
    with pytest.raises(InvalidSignature):
        open_bundle(raw.replace(key_hint(KEY).encode(), key_hint(OTHER.verifier).encode()), OTHER.verifier)


def duplicate(whole):
    resources = whole["predicate"]["resources"]
    resources.append(dict(resources[0]))


def outside(whole):
    whole["predicate"]["resources"][0]["name"] = "../secret"


def nothing(whole):
    whole["predicate"]["resources"] = []


def follows_links(whole):
    whole["predicate"]["serialization"]["allow_symlinks"] = True


def nameless(whole):
    whole["predicate"]["resources"][0]["name"] = ""


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (duplicate, "duplicate_resource"),
        (outside, "unsafe_name"),
        (nothing, "empty_resources"),
        (follows_links, "symlinks_allowed"),
        (nameless, "bundle_refused"),
    ],
)
def test_what_the_reference_tool_lets_pass_is_refused_by_name(model, change, code):
    whole = statement(model)
    change(whole)
    with pytest.raises(BundleError) as caught:
        verify_folder(bundle(rerooted(whole)), model, KEY)
    assert caught.value.code == code


@pytest.mark.parametrize("hiding", ["evil.py", "evil", "evil/"])
def test_files_hidden_by_the_signer_are_refused_and_reported(model, hiding):
    hidden = "evil/run.py" if "." not in hiding else hiding
    (model / hidden).parent.mkdir(exist_ok=True)
    (model / hidden).write_text("import os")
    raw = bundle(statement(model, ignore=(hiding.rstrip("/"), ".git", "not-there")))
    with pytest.raises(BundleError, match=hidden) as caught:
        verify_folder(raw, model, KEY)
    assert caught.value.code == "hidden_files"
    assert verify_folder(raw, model, KEY, allow_hidden=True).hidden == (hidden,)


def test_another_order_is_recomputed_as_listed_and_flagged(model):
    whole = statement(model)
    whole["predicate"]["resources"].reverse()
    with pytest.raises(BundleError) as caught:
        open_bundle(bundle(whole), KEY)
    assert caught.value.code == "root_mismatch"
    checked = verify_folder(bundle(rerooted(whole)), model, KEY)
    assert not checked.in_order
    assert checked.root == whole["subject"][0]["digest"]["sha256"]


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "broken link", "pipe"])
def test_links_and_pipes_are_refused(model, kind, tmp_path):
    if kind == "pipe":
        os.mkfifo(model / "odd")
    else:
        target = {"link to a file": "a.txt", "link to a folder": "a", "broken link": "nowhere"}[kind]
        (model / "odd").symlink_to(target)
    with pytest.raises(BundleError, match="odd") as caught:
        hash_folder(model)
    assert caught.value.code == ("special_file" if kind == "pipe" else "symlink")
    (tmp_path / "link").symlink_to(model)
    with pytest.raises(BundleError):
        hash_folder(tmp_path / "link")


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "..", "a/../b", "./a", "a//b", "a/", "a\\b", "C:\\x", "a\x00b", "a\nb", "a" * 5000, ".", "~/../x"],
)
def test_names_that_could_leave_the_folder_are_refused(name):
    manifest = Manifest("m", (Resource(name, bytes(32)),))
    with pytest.raises(AttestError) as caught:
        read_statement(manifest.statement())
    assert caught.value.code == "unsafe_name"


@pytest.mark.parametrize("name", ["w:0", "w:0:5:9", "w:5:5", "w:0:6", "w:3:5", "w:05:10", "w:-5:0", "w:a:b", ":0:5"])
def test_pieces_that_are_none_are_refused(name):
    whole = json.loads(Manifest("m", (Resource("w", bytes(32), 0, 5),), 5).statement())
    whole["predicate"]["resources"][0]["name"] = name
    with pytest.raises(BundleError):
        read_statement(json.dumps(whole).encode())


def test_duplicate_keys_and_odd_numbers_in_a_statement_are_refused(model):
    text = json.dumps(statement(model, 5))
    assert read_statement(text.replace('"shard_size": 5', '"shard_size": 5.0').encode()).shard_size == 5
    for wrong in ("5.5", "5e0", "NaN", "-5", "0", "5.00", "true", '"5"', "9007199254740993"):
        with pytest.raises(AttestError):
            read_statement(text.replace('"shard_size": 5', f'"shard_size": {wrong}').encode())
    with pytest.raises(MalformedInput, match="duplicate"):
        read_statement(text.replace('"method"', '"method": "files", "method"').encode())


@pytest.mark.parametrize("size", [0, 1, 4, 5, 6, 10, 11])
def test_pieces_cover_every_byte(tmp_path, size):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "w").write_bytes(bytes(range(size)))
    pieces = hash_folder(folder, shard_size=5).resources
    assert [(p.start, p.end) for p in pieces] == [(s, min(s + 5, size)) for s in range(0, size, 5)]


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.bundle.json")), ids=lambda p: p.name)
def test_published_bundles(path):
    """Their keys were not published: a valid one is refused only for its key or its kind, an invalid one before."""
    raw = path.read_bytes()
    with pytest.raises(AttestError) as caught:
        open_bundle(raw, KEY)
    if path.name == "valid-key.bundle.json":
        assert caught.value.code == "wrong_key"
    elif path.name.startswith("valid"):
        assert isinstance(caught.value, UnsupportedInput)
        assert "certificate" in caught.value.what
    if path.name.startswith("valid"):
        payload = base64.b64decode(json.loads(raw)["dsseEnvelope"]["payload"])
        assert [r.path for r in read_statement(payload).resources] == ["signme-1", "signme-2"]


def test_the_published_wrong_predicate_is_refused_even_when_honestly_signed():
    whole = json.loads((VECTORS / "invalid-payload-wrong-predicate.bundle.json").read_bytes())
    payload = base64.b64decode(whole["dsseEnvelope"]["payload"])
    with pytest.raises(UnsupportedInput, match="wrong-predicate"):
        open_bundle(bundle(payload), KEY)


def test_invalid_bundles_are_refused_for_what_is_wrong_with_them():
    def refused(name):
        raw = (VECTORS / f"invalid-{name}.bundle.json").read_bytes()
        hint = b"e8450dec4eb99dae995da9af1bc2cc9f76ed669ee2e744f57abba763df3e3f8e"
        with pytest.raises(AttestError) as caught:
            open_bundle(raw.replace(hint, key_hint(KEY).encode()), KEY)
        return str(caught.value)

    assert "not JSON" in refused("empty") or "not a model-signing bundle" in refused("empty")
    assert "no envelope" in refused("missing-envelope")
    assert "certificate" in refused("missing-tlog-entries")
    assert "no verification material" in refused("missing-verification-material")


@pytest.mark.parametrize("null", [None, ""])
def test_a_key_id_decides_nothing(model, null):
    whole = json.loads(sign(hash_folder(model), SIGNER, name="model"))
    whole["dsseEnvelope"]["signatures"][0]["keyid"] = null
    assert verify_folder(json.dumps(whole).encode(), model, KEY).in_order


def test_there_must_be_something_to_sign(tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(BundleError) as caught:
        sign(hash_folder(tmp_path / "m"), SIGNER, name="m")
    assert caught.value.code == "empty_resources"
