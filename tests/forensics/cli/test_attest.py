"""A miner's commands against a service that listens on loopback, as they are typed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from hashlib import sha256
from pathlib import Path

import pytest
from bittensor import Wallet

from attest import envelope as dsse
from attest.keys.p256 import P256Verifier
from attest.log.note import Checkpoint, NoteKey, sign_checkpoint
from attest.statement import parse
from forensics.keys import Keys
from forensics.known.claim import Claim, Role
from forensics.known.registry import Registry
from forensics.settings import load
from tests.attest.material import SERVICE
from tests.forensics import models
from tests.forensics.attesting import ED25519, GENESIS, flipped, hotkey, make_wallet, small_model
from tests.forensics.serving import served

WHERE = ("--genesis", GENESIS, "--netuid", "120", "--competition", "demo")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service on an empty home, its URL, and the home."""
    home = tmp_path_factory.mktemp("service")
    with served(load(home=home, genesis=GENESIS)) as (services, url):
        yield services, url, home


@pytest.fixture
def url(running):
    return running[1]


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    """A folder with wallets of ada and bob, a model and its child."""
    make_wallet(tmp_path / "wallets", "ada")
    make_wallet(tmp_path / "wallets", "bob", crypto_type=ED25519)
    small_model(tmp_path / "model", seed=time.time_ns() % 2**32)
    small_model(tmp_path / "child", seed=time.time_ns() % 2**32, b=2.0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def who(name="ada"):
    return ("--wallet", f"{name}/hot", "--wallet-path", "wallets")


def test_three_commands_prove_a_model(json_of, run, url, desk):
    own = json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    assert Path(own["receipt"]) == desk / "model.attest" / "claim.tlog-proof"
    report = json_of("verify", own["receipt"], "--model", "model", *WHERE)
    assert report["verified"] is True
    assert report["digest"] == own["statement"]
    assert any("every byte of every file" in sentence for sentence in report["proven"])
    code, out, _ = run("verify", own["bundle"], "--model", "model", "--trust", "model.attest/model.sig.pub")
    assert code == 0
    assert "byte for byte" in out


def test_the_claim_names_the_key_of_the_bundle(json_of, desk):
    json_of("attest", "own", "model", *who(), *WHERE)
    claim = parse(dsse.read((desk / "model.attest" / "claim.json").read_bytes()).payload)
    key = P256Verifier.from_pem((desk / "model.attest" / "model.sig.pub").read_bytes())
    assert claim.predicate.signing_key.spki == key.spki_digest


def test_a_bundle_is_the_hotkeys_when_its_claim_names_the_key_and_the_files(run, json_of, desk):
    own = json_of("attest", "own", "model", *who(), *WHERE)
    report = json_of("verify", own["bundle"], "--model", "model", "--statement", own["claim"])
    assert report["hotkey"] == own["hotkey"]
    other = json_of("attest", "own", "child", *who("bob"), *WHERE)
    code, _, err = run("verify", own["bundle"], "--statement", other["claim"])
    assert (code, "other files" in err) == (3, True)
    sealed = json_of("attest", "own", "model", *who(), *WHERE, "--sealed")
    assert run("verify", own["bundle"], "--statement", sealed["claim"])[0] == 3


def test_a_weight_file_alone_is_claimed_without_its_folder_and_this_is_said(run, json_of, desk):
    code, out, err = run("attest", "own", "model/model.safetensors", *who(), *WHERE, "--out", desk, "--json")
    assert (code, json.loads(out)["oms_root"]) == (0, None)
    assert "config.json" in err
    assert json_of("verify", desk / "claim.json", "--model", "model/model.safetensors")["verified"]
    assert json_of("verify", desk / "claim.json", "--model", "model")["verified"]


def test_claiming_does_not_change_what_is_claimed_and_is_not_done_twice(json_of, run, url):
    first = json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    again = json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    assert (first["statement"], first["oms_root"]) == (again["statement"], again["oms_root"])
    assert first["log_index"] == again["log_index"]
    _, _, talk = run("attest", "own", "model", *who(), *WHERE)
    assert "not read again" in talk


def test_a_changed_model_gets_a_claim_of_its_own_and_the_old_one_is_kept(json_of, desk):
    first = json_of("attest", "own", "model", *who(), *WHERE)
    small_model(desk / "model", b=7.0)
    second = json_of("attest", "own", "model", *who(), *WHERE)
    assert first["content_root"] != second["content_root"]
    kept = desk / "model.attest" / f"claim-{first['statement'][7:23]}.json"
    assert dsse.read(kept.read_bytes()).digest == first["statement"]


def test_a_file_changed_behind_its_time_is_found_by_rehash(json_of, desk):
    first = json_of("attest", "own", "model", *who(), *WHERE)
    weights = desk / "model" / "model.safetensors"
    before = weights.stat()
    weights.write_bytes(flipped(weights.read_bytes(), -1 % before.st_size))
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert json_of("attest", "own", "model", *who(), *WHERE)["oms_root"] == first["oms_root"]  # hints were believed
    assert json_of("attest", "own", "model", *who(), *WHERE, "--rehash")["oms_root"] != first["oms_root"]


def test_verify_says_3_when_the_model_is_another(run, json_of, url, desk):
    own = json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    for artefact in (own["receipt"], own["claim"], own["bundle"]):
        assert run("verify", artefact, "--model", "model")[0] == 0
    config = desk / "model" / "config.json"
    config.write_bytes(config.read_bytes() + b" ")
    for artefact in (own["receipt"], own["claim"], own["bundle"]):
        code, _, err = run("verify", artefact, "--model", "model")
        assert code == 3, err
        assert run("verify", artefact)[0] == 0


def test_verify_says_3_for_a_changed_byte_anywhere_in_the_receipt(run, json_of, url, desk):
    own = json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    receipt = Path(own["receipt"]).read_bytes()
    for at in range(0, len(receipt), len(receipt) // 12):
        (desk / "changed").write_bytes(flipped(receipt, at))
        code, _, err = run("verify", "changed")
        assert code == 3, err


def test_a_receipt_from_a_log_nobody_trusts_is_refused_until_its_key_is_given(run, json_of, url, running, monkeypatch):
    own = json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    monkeypatch.setenv("FORENSICS_HOME", "stranger")
    code, _, err = run("verify", own["receipt"])
    assert (code, "--trust" in err) == (3, True)
    assert run("verify", own["receipt"], "--trust", running[0].log_key)[0] == 0


def test_a_service_whose_key_changed_is_refused(run, json_of, url, running, own_home):
    json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    (pin,) = (own_home / "trust").iterdir()
    pin.write_text(str(NoteKey(running[0].log_key.name, SERVICE.verifier.public_bytes)))
    code, _, err = run("attest", "own", "child", *who(), *WHERE, "--submit", url)
    assert (code, "another key than the one pinned" in err) == (3, True)


def test_a_service_that_shows_two_histories_is_caught_and_both_are_kept(run, json_of, url, running, desk, own_home):
    services, keys = running[0], Keys(running[2] / "keys")
    json_of("attest", "own", "model", *who(), *WHERE, "--submit", url)
    assert run("log", "checkpoint", "--url", url, "--out", "kept")[0] == 0
    assert run("log", "consistency", "kept", "--url", url)[0] == 0
    shown_to_others = Checkpoint(services.log_key.name, services.log.size(), b"\7" * 32)
    (desk / "other").write_bytes(sign_checkpoint(shown_to_others, keys.service()).encode())
    code, _, err = run("log", "consistency", "kept", "other", "--url", url)
    assert (code, "not of one history" in err) == (3, True)
    assert {file.read_bytes() for file in (own_home / "evidence").iterdir()} == {
        (desk / "kept").read_bytes(),
        (desk / "other").read_bytes(),
    }


def test_context_is_checked_where_it_is_given(run, json_of):
    own = json_of("attest", "own", "model", *who(), *WHERE)
    assert run("verify", own["claim"], *WHERE)[0] == 0
    code, out, _ = run("verify", own["claim"], "--netuid", "7", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (3, "context_mismatch")


def test_a_vanished_repository_is_unavailable_and_a_changed_one_is_refused(run, json_of, desk, monkeypatch):
    """Re-hashed at evaluation: gone is no change, and only a commit can be asked for (design, Attest, section 4)."""
    own = json_of("attest", "own", "model", *who(), *WHERE)
    repo, commit = desk / "hub" / "models--ada--model" / "snapshots", "a" * 40
    monkeypatch.setenv("HF_HUB_CACHE", str(desk / "hub"))
    repo.mkdir(parents=True)
    assert run("verify", own["claim"], "--model", f"ada/model@{commit}")[0] == 4
    shutil.copytree(desk / "model", repo / commit)
    assert run("verify", own["claim"], "--model", f"ada/model@{commit}")[0] == 0
    weights = next((repo / commit).glob("*.safetensors"))
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1
    weights.write_bytes(changed)
    code, _, err = run("verify", own["claim"], "--model", f"ada/model@{commit}")
    assert (code, "is not what the claim says" in err) == (3, True)
    assert run("verify", own["claim"], "--model", "ada/model@main")[0] == 2


def test_a_seal_is_opened_later_and_only_with_its_nonce(run, json_of, url, desk, own_home, monkeypatch):
    sealed = json_of("attest", "own", "model", *who(), *WHERE, "--sealed", "--submit", url)
    assert "content_root" not in sealed
    (nonce,) = (own_home / "sealed").iterdir()
    assert stat.S_IMODE(nonce.stat().st_mode) == 0o600
    secret = json.loads(nonce.read_text())["nonce"]
    published = b"".join(file.read_bytes() for file in (desk / "model.attest").iterdir())
    assert secret.encode() not in published
    report = json_of("verify", sealed["receipt"])
    assert any("sealed" in sentence for sentence in report["not_proven"])
    opened = json_of("attest", "open", "model", *who(), "--submit", url)
    assert opened["opens"] == sealed["statement"]
    assert json_of("verify", opened["receipt"], "--model", "model")["verified"]
    beside = json_of("verify", opened["receipt"], "--seal", sealed["receipt"])
    assert any("sealed this very model" in sentence for sentence in beside["proven"])
    assert not any("--seal" in sentence for sentence in beside["not_proven"])
    assert run("verify", sealed["receipt"], "--seal", sealed["receipt"])[0] == 3
    code, _, err = run("attest", "open", "model", *who("bob"))
    assert (code, "only the hotkey that sealed" in err) == (3, True)
    monkeypatch.setenv("FORENSICS_HOME", "stranger")
    assert run("attest", "open", "model", *who())[0] == 3
    monkeypatch.setenv("FORENSICS_HOME", str(own_home))
    other = json_of("attest", "own", "model", *who("bob"), *WHERE, "--sealed", "--out", "other")
    code, _, err = run("verify", opened["receipt"], "--seal", other["claim"])
    assert (code, "opens another statement" in err) == (3, True)


def test_a_cold_machine_signs_what_a_hot_one_measured_and_hands_in(run, json_of, url, desk, monkeypatch):
    address = hotkey(Wallet("bob", "hot", path="wallets").hotkey).address
    asked = json_of("attest", "own", "model", "--unsigned", "--account", address, "--scheme", "ed25519", *WHERE)
    assert run("attest", "sign", asked["unsigned"], *who("ada"))[0] == 2
    assert run("verify", asked["unsigned"])[0] == 3
    signed = json_of("attest", "sign", asked["unsigned"], *who("bob"))
    assert signed["content_root"] == asked["content_root"]
    done = json_of("attest", "submit", signed["claim"], url, *who("ada"))
    assert (
        json_of("verify", done["receipt"], "--model", "model")["statement"]["predicate"]["context"]["hotkey"] == address
    )


def test_a_dry_run_writes_and_signs_nothing(json_of, desk, own_home):
    told = json_of("attest", "own", "model", *who(), *WHERE, "--dry-run")
    assert told["statement"]["predicate"]["form"] == "open"
    assert not (desk / "model.attest").exists()
    assert not own_home.exists()


def test_lineage_lists_what_changed_and_verifies_with_both_models(run, json_of, url, desk):
    small_model(desk / "parent", seed=5)
    small_model(desk / "made", seed=5, b=3.0)
    said = json_of("attest", "lineage", "made", "--parent", "parent", *who(), *WHERE, "--submit", url)
    assert said["listed"] == ["b"]
    assert said["lineage"]["judgement"] == "unverifiable"
    report = json_of("verify", said["receipt"], "--model", "made", "--parent", "parent")
    assert any("nothing else changed" in sentence for sentence in report["proven"])
    assert run("verify", said["receipt"], "--model", "made", "--parent", "model")[0] == 3
    assert run("verify", said["receipt"], "--model", "parent")[0] == 3


def test_lineage_to_a_fingerprint_file_or_a_known_model(json_of, run, desk):
    models.write(models.decoder(1), desk / "ada")
    models.write(models.noisy(models.decoder(1), 0.01), desk / "noisy")
    run("scan", "ada", "--out", "ada.fp")
    known = json_of("known", "add", "ada", "--role", "base")["content_root"]
    by_file = json_of("attest", "lineage", "noisy", "--parent", "ada.fp", *who(), *WHERE, "--dry-run")
    by_name = json_of("attest", "lineage", "noisy", "--parent", f"known:{known[7:20]}", *who(), *WHERE, "--dry-run")
    assert by_file["parent"] == by_name["parent"] == known
    assert by_file["listed"] == by_name["listed"]


def test_a_service_that_knows_both_models_answers_with_what_it_measured(running, json_of, url, desk):
    services = running[0]
    registry = Registry(services.engine, services.attestations._blobs)
    tensors = {"ada": models.decoder(1), "noisy": models.noisy(models.decoder(1), 0.01), "bob": models.decoder(2)}
    for name, weights in tensors.items():
        registry.add(models.fingerprint(weights), Claim(Role.SUBMISSION, label=name))
        models.write(weights, desk / name)
    true = json_of("attest", "lineage", "noisy", "--parent", "ada", *who(), *WHERE, "--submit", url)
    assert true["lineage"]["judgement"] == "confirmed"
    false = json_of("attest", "lineage", "bob", "--parent", "ada", *who("bob"), *WHERE, "--submit", url)
    assert false["lineage"] == {"judgement": "contradicted", "relation": "independent"}


def test_a_key_is_handed_over_by_both(json_of, url):
    done = json_of("attest", "rotate-key", "--wallet", "ada/hot", "--successor", "bob/hot", "--wallet-path", "wallets",
                   *WHERE, "--submit", url)  # fmt: skip
    report = json_of("verify", done["receipt"])
    assert len(report["signed_by"]) == 2


def test_a_lost_key_is_succeeded_by_a_swap_on_chain_alone(run, json_of, url):
    lost = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
    common = ("--successor", "bob/hot", "--wallet-path", "wallets", *WHERE)
    done = json_of("attest", "rotate-key", "--lost", lost, "--block", 5, "--extrinsic", 1, *common, "--submit", url)
    assert len(json_of("verify", done["receipt"])["signed_by"]) == 1
    assert run("attest", "rotate-key", "--lost", lost, *common)[0] == 2
    assert run("attest", "rotate-key", *common)[0] == 2
    assert run("attest", "rotate-key", "--wallet", "bob/hot", *common)[0] == 3  # a key cannot succeed itself


def test_files_signed_in_pieces_are_verified_by_sample(run, json_of, desk):
    (desk / "model" / "notes.txt").write_bytes(os.urandom(64 << 10))
    own = json_of("attest", "own", "model", *who(), *WHERE, "--shard-size", 4096)
    report = json_of("verify", own["bundle"], "--model", "model", "--spot-check", 5)
    assert report["spot_checked"] == 5
    assert json_of("verify", own["claim"], "--model", "model")["verified"]
    (desk / "model" / "notes.txt").write_bytes(os.urandom(64 << 10))
    assert run("verify", own["bundle"], "--model", "model", "--spot-check", 50)[0] == 3
    assert run("verify", own["claim"], "--spot-check", 5)[0] == 2


def test_a_wallet_that_cannot_be_unlocked_is_unavailable_and_its_password_not_shown(run, desk, monkeypatch):
    phrase = "correct horse"
    Wallet("locked", "hot", path="wallets").create_new_hotkey(hotkey_password=phrase, suppress=True)
    (desk / "wallets" / "locked" / "hotkeys" / "damaged").write_text("mnemonic words that are secret")
    for name, answer in (("locked/hot", "battery staple"), ("locked/damaged", "")):
        monkeypatch.setattr("bittensor.keyfiles.masked_input", lambda _prompt, answer=answer: answer)
        code, out, err = run("attest", "own", "model", "--wallet", name, "--wallet-path", "wallets", *WHERE)
        assert (code, "cannot be used" in err) == (4, True), err
        assert not {"horse", "staple", "secret"} & set((out + err).split())


def test_keys_are_files_of_their_owner_and_others_are_refused(run, json_of, own_home):
    json_of("attest", "own", "model", *who(), *WHERE)
    key = own_home / "keys" / "bundle.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o644)
    code, _, err = run("attest", "own", "model", *who(), *WHERE, "--note", "again")
    assert (code, "others may read" in err) == (3, True)


def test_an_evidence_bundle_is_whole_or_refused(run, json_of, desk):
    models.write(models.decoder(1), desk / "ada")
    models.write(models.noisy(models.decoder(1), 0.01), desk / "noisy")
    run("compare", "noisy", "ada", "--depth", "sketch", "--evidence", "evidence")
    report = json_of("verify", "evidence")
    assert any("replay" in sentence for sentence in report["not_proven"])
    data = (desk / "evidence").read_bytes()
    (desk / "evidence").write_bytes(flipped(data, len(data) // 2))
    assert run("verify", "evidence")[0] == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("own", "model", *WHERE), 2),
        (("own", "model", "--wallet", "nobody/hot", "--wallet-path", "wallets", *WHERE), 4),
        (("own", "nothing", *who(), *WHERE), 4),
        (("own", "model", *who()), 2),
        (("own", "model", *who(), "--netuid", "1", "--network", "elsewhere"), 2),
        (("own", "model", *who(), *WHERE, "--scheme", "ed25519"), 2),
        (("own", "model", *who(), *WHERE, "--out", "model/inside"), 2),
        (("own", "model", *who(), *WHERE, "--repo", "a/b"), 2),
        (("own", "model", *who(), *WHERE, "--submit", "ftp://x"), 2),
        (("own", "model", *who(), *WHERE, "--submit", "http://127.0.0.1:9"), 4),
        (("own", "model", *who(), *WHERE, "--repo", "a/b", "--revision", "main"), 3),
        (("lineage", "model", "--parent", "model", *who(), *WHERE), 3),
    ],
)
def test_wishes_that_make_no_sense_are_named(run, arguments, code):
    found, _, err = run("attest", *arguments)
    assert found == code, err
    assert err.startswith("error: ")


def test_a_link_in_the_model_is_refused_for_it_could_lead_anywhere(run, desk):
    (desk / "model" / "link").symlink_to("/etc/hostname")
    code, _, err = run("attest", "own", "model", *who(), *WHERE)
    assert (code, "symbolic links" in err) == (3, True)


@pytest.mark.parametrize("digest", ["0" * 64, "", "AAAA"])
def test_hints_that_were_tampered_with_are_not_believed(run, json_of, desk, digest):
    first = json_of("attest", "own", "model", *who(), *WHERE)
    hints = desk / "model.attest" / "hints.json"
    right = sha256((desk / "model" / "model.safetensors").read_bytes()).hexdigest()
    changed = hints.read_text().replace(right, digest)
    assert changed != hints.read_text()
    hints.write_text(changed)
    code, out, err = run("attest", "own", "model", *who(), *WHERE, "--json")
    assert (code, json.loads(out)["oms_root"]) == (0, first["oms_root"])
    assert "all is hashed" in err
    assert "not read again" in run("attest", "own", "model", *who(), *WHERE)[2]  # its own once more


def test_a_folder_of_claims_that_somebody_else_shipped_is_worth_nothing(run, json_of, desk, monkeypatch):
    json_of("attest", "own", "model", *who(), *WHERE)
    for home in ("stranger", "stranger-with-key"):
        monkeypatch.setenv("FORENSICS_HOME", home)
        if home == "stranger-with-key":
            Keys(desk / home / "keys").hints()
        code, _, err = run("attest", "own", "model", *who(), *WHERE, "--dry-run")
        assert (code, "all is hashed" in err) == (0, True)


def test_hints_that_are_too_large_are_no_hints(run, json_of, desk):
    first = json_of("attest", "own", "model", *who(), *WHERE)
    with (desk / "model.attest" / "hints.json").open("r+b") as file:
        file.truncate(70 << 20)
    code, out, err = run("attest", "own", "model", *who(), *WHERE, "--json")
    assert (code, json.loads(out)["oms_root"]) == (0, first["oms_root"])
    assert "all is hashed" in err


def test_a_spot_check_sees_a_changed_byte_of_a_small_file(run, json_of, desk):
    notes = desk / "model" / "notes.bin"
    notes.write_bytes(os.urandom(2_500_000))
    json_of("attest", "own", "model", *who(), *WHERE)
    _, _, err = run("attest", "own", "model", *who(), *WHERE, "--spot-check", 100)
    assert "hashed whole" in err or "chunks were hashed" in err
    before = notes.stat()
    notes.write_bytes(flipped(notes.read_bytes(), 1_200_000))
    os.utime(notes, ns=(before.st_atime_ns, before.st_mtime_ns))
    code, _, err = run("attest", "own", "model", *who(), *WHERE, "--spot-check", 100)
    assert (code, "notes.bin" in err) == (3, True)
    assert "nothing of these was checked" in run("attest", "own", "model", *who(), *WHERE)[2]


def test_a_password_in_the_url_of_a_service_is_not_shown(run, json_of, desk):
    claim = json_of("attest", "own", "model", *who(), *WHERE)["claim"]
    for more in ((), ("--json",)):
        code, out, err = run("attest", "submit", claim, "http://user:hunter2@127.0.0.1:1", *who(), *more)
        assert (code, "hunter2" in out + err) == (4, False)
        assert "127.0.0.1:1" in out + err


def test_input_that_is_too_large_is_bad_input(run, desk):
    with (desk / "large").open("wb") as file:
        file.truncate(70 << 20)
    for large in ("large", "/dev/zero"):
        assert run("verify", large)[0] == 3
        assert run("attest", "submit", large, "http://127.0.0.1:1", *who())[0] == 3
