"""Both ways against ``model_signing``, the reference implementation (it needs pyOpenSSL beside it)."""

from __future__ import annotations

import json

import pytest

from attest.keys.p256 import P256Signer
from attest.modelsigning import hash_folder, sign, verify_folder
from attest.modelsigning.manifest import GIT_PATHS

from .test_bundle import bundle, duplicate, nothing, rerooted, statement

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
]
SIGNER = P256Signer.from_scalar(7)


@pytest.fixture(scope="module")
def tool():
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import model_signing.hashing
            import model_signing.signing
            import model_signing.verifying
    except ImportError as error:
        pytest.skip(f"model_signing is not installed ({error}): nothing was tested against the reference tool")
    return model_signing


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    for name, body in {"config.json": b"{}", "a/weights.bin": b"0123456789" * 9, "a.txt": b"x", "empty": b""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    (folder / ".gitattributes").write_text("*.bin lfs")
    (tmp_path / "key.pem").write_bytes(SIGNER.pem())
    (tmp_path / "pub.pem").write_bytes(SIGNER.verifier.pem())
    return folder


def their_verdict(tool, model, raw):
    signature = model.parent / "ours.sig"
    signature.write_bytes(raw)
    config = tool.verifying.Config().use_elliptic_key_verifier(public_key=model.parent / "pub.pem")
    config.verify(model, signature)


@pytest.mark.parametrize("shard_size", [None, 7, 1000])
def test_they_accept_ours(tool, model, shard_size):
    their_verdict(tool, model, sign(hash_folder(model, shard_size=shard_size), SIGNER, name="model"))


@pytest.mark.parametrize("shard_size", [None, 7, 1000])
def test_we_accept_theirs(tool, model, shard_size):
    config = tool.hashing.Config()
    if shard_size:
        config.use_shard_serialization(shard_size=shard_size)
    signature = model / "model.sig"
    config.set_ignored_paths(paths=[signature.name])
    signer = tool.signing.Config().use_elliptic_key_signer(private_key=model.parent / "key.pem")
    signer.set_hashing_config(config).sign(model, signature)
    checked = verify_folder(signature.read_bytes(), model, SIGNER.verifier)
    assert checked.in_order
    assert checked.manifest.shard_size == shard_size
    assert set(GIT_PATHS) <= set(checked.manifest.ignore_paths)
    ours = hash_folder(model, shard_size=shard_size, ignore=(*GIT_PATHS, signature.name))
    assert ours.resources == checked.manifest.resources


@pytest.mark.parametrize("change", [duplicate, nothing])
def test_what_they_accept_and_we_refuse_is_still_so(tool, model, change):
    """If this fails the tool has become stricter: rewrite what section 1 of the design says of it."""
    whole = json.loads(json.dumps(statement(model, ignore=GIT_PATHS)))
    change(whole)
    if change is nothing:
        for path in sorted(model.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    their_verdict(tool, model, bundle(rerooted(whole), SIGNER))
