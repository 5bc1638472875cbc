"""Both ways against the reference tool's command line, and the five things it accepts that we refuse by name.

A tiny checkpoint here; the same on weights that nobody here made is in ``tests/models/test_model_signing.py``.
"""

from __future__ import annotations

from hashlib import sha256

import pytest
import torch
from safetensors.torch import save_file

from attest.errors import BundleError, ContentMismatch
from attest.keys.p256 import P256Signer
from attest.modelsigning import hash_folder, sign, verify_folder
from attest.modelsigning.manifest import GIT_PATHS

from . import reference
from .test_bundle import bundle, duplicate, follows_links, nothing, rerooted, statement

SIGNER = P256Signer.from_scalar(7)
LENIENT = "--ignore_unsigned_files"


@pytest.fixture
def model(tmp_path):
    """A checkpoint folder as a hub serves it: weights, configuration, git's leftovers, an empty file."""
    folder = tmp_path / "model"
    (folder / "onnx").mkdir(parents=True)
    generator = torch.Generator().manual_seed(1)
    save_file({"embed": torch.randn(32, 8, generator=generator)}, folder / "model.safetensors")
    for name, body in {"config.json": b"{}", "onnx/notes.txt": b"x", ".gitattributes": b"* lfs", "empty": b""}.items():
        (folder / name).write_bytes(body)
    (tmp_path / "key.pem").write_bytes(SIGNER.pem())
    (tmp_path / "pub.pem").write_bytes(SIGNER.verifier.pem())
    return folder


def their_verdict(model, raw, *options):
    signature = model.parent / "bundle.sig"
    signature.write_bytes(raw)
    return reference.verify(model, signature, model.parent / "pub.pem", *options)


def test_they_accept_ours_until_a_byte_changes(model):
    raw = sign(hash_folder(model), SIGNER, name="model")
    assert their_verdict(model, raw).returncode == 0
    (model / "config.json").write_bytes(b"[]")
    assert their_verdict(model, raw).returncode != 0
    with pytest.raises(ContentMismatch, match=r"config\.json"):
        verify_folder(raw, model, SIGNER.verifier)


def test_we_accept_theirs_until_a_byte_changes(model):
    signature = model / "model.sig"
    reference.sign(model, signature, model.parent / "key.pem")
    raw = signature.read_bytes()
    assert verify_folder(raw, model, SIGNER.verifier).in_order
    (model / "config.json").write_bytes(b"[]")
    with pytest.raises(ContentMismatch, match=r"config\.json"):
        verify_folder(raw, model, SIGNER.verifier)


def outside(whole, model):
    (model.parent / "secret").write_bytes(b"s")
    entry = {"name": "../secret", "algorithm": "sha256", "digest": sha256(b"s").hexdigest()}
    whole["predicate"]["resources"].append(entry)


def hidden(whole, model):
    (model / "evil.py").write_text("import os")
    whole["predicate"]["serialization"]["ignore_paths"].append("evil.py")


FIVE = {
    "a name twice": (lambda whole, model: duplicate(whole), "duplicate_resource", ()),
    "a name outside the folder": (outside, "unsafe_name", (LENIENT,)),
    "files hidden by the signer": (hidden, "hidden_files", ()),
    "a signature over nothing": (lambda whole, model: nothing(whole), "empty_resources", (LENIENT,)),
    "symbolic links": (lambda whole, model: follows_links(whole), "symlinks_allowed", ()),
}


@pytest.mark.parametrize("what", FIVE)
def test_what_they_accept_and_we_refuse_by_name(model, what):
    """If their verdict fails here, the tool has become stricter: say so in the design, and keep our refusal."""
    change, code, options = FIVE[what]
    whole = statement(model, ignore=GIT_PATHS)
    change(whole, model)
    raw = bundle(rerooted(whole), SIGNER)
    assert their_verdict(model, raw, *options).returncode == 0
    with pytest.raises(BundleError) as caught:
        verify_folder(raw, model, SIGNER.verifier)
    assert caught.value.code == code


def test_another_order_is_accepted_by_both_and_flagged_by_us(model):
    whole = statement(model, ignore=GIT_PATHS)
    whole["predicate"]["resources"].reverse()
    raw = bundle(rerooted(whole), SIGNER)
    assert their_verdict(model, raw).returncode == 0
    assert not verify_folder(raw, model, SIGNER.verifier).in_order


def test_another_key_is_accepted_by_nobody(model):
    raw = sign(hash_folder(model), P256Signer.from_scalar(8), name="model")
    assert their_verdict(model, raw).returncode != 0
    with pytest.raises(BundleError) as caught:
        verify_folder(raw, model, SIGNER.verifier)
    assert caught.value.code == "wrong_key"
