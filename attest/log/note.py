"""Signed notes (C2SP signed-note) and checkpoints (C2SP tlog-checkpoint), with witness cosignatures (tlog-cosignature).

A note is text and signature lines. A signature counts only if both name and key id belong to a key the caller trusts;
others are ignored, as the format demands, so that keys can rotate and witnesses can be added. A signature of a trusted
key that does not verify condemns the whole note. A checkpoint is a note that says: this log, at this size, has this
root. Parsing is strict: one byte sequence for one meaning (canonical base64, no leading zeros).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ..errors import InvalidSignature
from ..keys.ed25519 import Ed25519Verifier
from ..keys.interface import Scheme, Signer
from .errors import NoteInvalid
from .merkle import HASH_SIZE, MAX_SIZE

ED25519 = 0x01
COSIGNATURE = 0x04  # timestamped Ed25519 (tlog-cosignature)
MAX_NOTE = 64 * 1024  # a checkpoint is 200 bytes and each witness adds 120
MAX_SIGNATURES = 64  # the format demands at least 16
MAX_TIME = 2**63 - 1
_DASH = "— "
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_KEY_ID_SIZE, _TIME_SIZE, _SIGNATURE_SIZE = 4, 8, 64


@dataclass(frozen=True)
class NoteKey:
    """A key whose signatures count: name, 32-byte Ed25519 public key, and kind (``ED25519`` or ``COSIGNATURE``).

    Raises:
        NoteInvalid: The name or kind cannot stand in a note.
        InvalidKey: No honest key looks like this.
    """

    name: str
    public: bytes
    kind: int = ED25519

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.kind not in (ED25519, COSIGNATURE):
            raise NoteInvalid("kind of key not supported", where=self.name, got=self.kind, expected="1 or 4")
        Ed25519Verifier(self.public)

    @property
    def id(self) -> bytes:
        """The 4-byte key id that signature lines carry."""
        return sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:_KEY_ID_SIZE]

    def __str__(self) -> str:
        material = base64.b64encode(bytes([self.kind]) + self.public).decode()
        return f"{self.name}+{self.id.hex()}+{material}"

    @classmethod
    def parse(cls, text: str) -> NoteKey:
        """Read the text form ``name+id+base64`` (a "vkey").

        Raises:
            NoteInvalid: It is malformed, or the id is not that of the key.
        """
        parts = text.strip().split("+", 2)
        if len(parts) != 3:
            raise NoteInvalid("not a note key", got=text, expected="name+id+base64")
        name, key_id, material = parts
        raw = decode_base64(material, where="note key")
        if len(raw) != 1 + HASH_SIZE:
            raise NoteInvalid("note key has the wrong length", got=len(raw), expected=1 + HASH_SIZE)
        key = cls(name, raw[1:], raw[0])
        if key.id.hex() != key_id:
            raise NoteInvalid("key id is not that of the key", where=name, got=key_id, expected=key.id.hex())
        return key


@dataclass(frozen=True)
class NoteSignature:
    """One signature line; ``signature`` is without the key id."""

    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        """The line of the note, with its newline."""
        return f"{_DASH}{self.name} {base64.b64encode(self.key_id + self.signature).decode()}\n"


@dataclass(frozen=True)
class Note:
    """Text (ends in a newline) and the signature lines under it, none verified."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def encode(self) -> bytes:
        """The bytes of the note."""
        return (self.text + "\n" + "".join(s.line() for s in self.signatures)).encode()


@dataclass(frozen=True)
class Checkpoint:
    """What a log says about itself: identity, number of leaves, 32-byte root, and lines nobody audits."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def body(self) -> bytes:
        """The text that is signed, and whose SHA-256 is anchored."""
        root = base64.b64encode(self.root).decode()
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), root, *self.extensions)).encode()

    def digest(self) -> bytes:
        """SHA-256 of the body: what a chain anchors."""
        return sha256(self.body()).digest()


@dataclass(frozen=True)
class Cosignature:
    """A witness saw this checkpoint and no smaller or other one after it; ``time`` is the witness's own clock."""

    name: str
    time: int


@dataclass(frozen=True)
class SignedCheckpoint:
    """A checkpoint whose log signature is verified, and the trusted witnesses that cosigned it."""

    checkpoint: Checkpoint
    note: Note
    witnesses: tuple[Cosignature, ...] = ()


def parse_note(raw: bytes) -> Note:
    """Read a note without believing it.

    Raises:
        NoteInvalid: It is too long, not UTF-8, has control characters, or is not text, blank line, signatures.
    """
    if len(raw) > MAX_NOTE:
        raise NoteInvalid("note is too long", got=len(raw), expected=f"at most {MAX_NOTE} bytes")
    try:
        whole = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoteInvalid("note is not UTF-8", got=f"byte {error.start}") from None
    if any(c < " " and c != "\n" for c in whole):
        raise NoteInvalid("note has control characters", expected="newlines only")
    text, gap, lines = whole.rpartition("\n\n")
    if not gap or not text or not lines.endswith("\n"):
        raise NoteInvalid("not a signed note", expected="text, a blank line, signature lines")
    signatures = lines[:-1].split("\n")
    if len(signatures) > MAX_SIGNATURES:
        raise NoteInvalid("too many signatures", got=len(signatures), expected=f"at most {MAX_SIGNATURES}")
    return Note(text + "\n", tuple(_parse_signature(line) for line in signatures))


def verify_note(note: Note, keys: Collection[NoteKey]) -> tuple[tuple[NoteKey, NoteSignature], ...]:
    """The signatures by ``keys``, all of them valid; one key is counted once.

    Raises:
        NoteInvalid: A signature of a trusted key does not verify, or no trusted key signed.
    """
    trusted = {(key.name, key.id): key for key in keys}
    found: dict[NoteKey, NoteSignature] = {}
    for signature in note.signatures:
        key = trusted.get((signature.name, signature.key_id))
        if key is None:
            continue
        message, bare = _signed(key, signature, note.text)
        try:
            Ed25519Verifier(key.public).verify(bare, message)
        except InvalidSignature as error:
            raise NoteInvalid(f"signature does not verify: {error.what}", where=signature.name) from None
        found.setdefault(key, signature)
    if not found:
        names = sorted({s.name for s in note.signatures})
        raise NoteInvalid("no trusted key signed", got=", ".join(names), expected=", ".join(k.name for k in keys))
    return tuple(found.items())


def sign_note(text: str, name: str, signer: Signer) -> Note:
    """Sign ``text``, which must end in a newline."""
    key = NoteKey(name, _public(signer))
    return Note(text, (NoteSignature(name, key.id, signer.sign(text.encode())),))


def cosign(note: Note, name: str, signer: Signer, *, time: int) -> Note:
    """Add a witness's cosignature, made at ``time`` (POSIX seconds)."""
    key = NoteKey(name, _public(signer), COSIGNATURE)
    signature = signer.sign(_cosigned(note.text, time))
    return add_signature(note, NoteSignature(name, key.id, time.to_bytes(_TIME_SIZE, "big") + signature))


def add_signature(note: Note, signature: NoteSignature) -> Note:
    """The note with one more signature line; a line it has already is not repeated."""
    if signature in note.signatures:
        return note
    return Note(note.text, (*note.signatures, signature))


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the text of a checkpoint.

    Raises:
        NoteInvalid: A line is missing, empty or not in its one canonical form.
    """
    lines = text.split("\n")
    if len(lines) < 4 or lines.pop() != "" or not all(lines):
        raise NoteInvalid("not a checkpoint", expected="origin, size and root, each on its line, none empty")
    origin, size, root, *extensions = lines
    if not _DECIMAL.fullmatch(size) or int(size) > MAX_SIZE:
        raise NoteInvalid("not a tree size", where=origin, got=size, expected="a decimal number below 2^63")
    digest = decode_base64(root, where=f"{origin}: root")
    if len(digest) != HASH_SIZE:
        raise NoteInvalid("root has the wrong length", where=origin, got=len(digest), expected=HASH_SIZE)
    return Checkpoint(origin, int(size), digest, tuple(extensions))


def sign_checkpoint(checkpoint: Checkpoint, signer: Signer) -> Note:
    """Sign as the log: the key's name is the origin."""
    return sign_note(checkpoint.body().decode(), checkpoint.origin, signer)


def open_checkpoint(
    raw: bytes, *, log: NoteKey, witnesses: Sequence[NoteKey] = (), quorum: int = 0
) -> SignedCheckpoint:
    """Read a checkpoint and verify that the log signed it and that enough trusted witnesses cosigned it.

    Args:
        raw: The signed note.
        log: The log's key; its name must be the checkpoint's origin.
        witnesses: Keys of the witnesses the caller trusts.
        quorum: How many different ones of them must have cosigned.

    Raises:
        NoteInvalid: Malformed, of another log, not signed by the log, or cosigned by too few.
    """
    note = parse_note(raw)
    checkpoint = parse_checkpoint(note.text)
    if not hmac.compare_digest(checkpoint.origin.encode(), log.name.encode()):
        raise NoteInvalid("checkpoint of another log", got=checkpoint.origin, expected=log.name)
    verified = verify_note(note, [log, *witnesses])
    if all(key != log for key, _ in verified):
        raise NoteInvalid("the log itself did not sign", where=log.name)
    seen = {
        key.public: Cosignature(key.name, int.from_bytes(signature.signature[:_TIME_SIZE], "big"))
        for key, signature in verified
        if key != log and key.kind == COSIGNATURE and key.public != log.public
    }
    if len(seen) < quorum:
        raise NoteInvalid("too few witnesses cosigned", where=log.name, got=len(seen), expected=f"at least {quorum}")
    return SignedCheckpoint(checkpoint, note, tuple(seen.values()))


def decode_base64(text: str, *, where: str) -> bytes:
    """Standard base64 in its one canonical form.

    Raises:
        NoteInvalid: Anything else.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NoteInvalid("not base64", where=where, got=text) from None
    if base64.b64encode(raw).decode() != text:
        raise NoteInvalid("base64 is not canonical", where=where, got=text)
    return raw


def _parse_signature(line: str) -> NoteSignature:
    parts = line.removeprefix(_DASH).split(" ")
    if not line.startswith(_DASH) or len(parts) != 2:
        raise NoteInvalid("not a signature line", got=line, expected="— name base64")
    _check_name(parts[0])
    raw = decode_base64(parts[1], where=parts[0])
    if len(raw) <= _KEY_ID_SIZE:
        raise NoteInvalid("signature is too short", where=parts[0], got=len(raw))
    return NoteSignature(parts[0], raw[:_KEY_ID_SIZE], raw[_KEY_ID_SIZE:])


def _public(signer: Signer) -> bytes:
    if signer.verifier.scheme != Scheme.ED25519:
        raise NoteInvalid("a note is signed with Ed25519", got=signer.verifier.scheme, expected=Scheme.ED25519)
    return signer.verifier.public_bytes


def _signed(key: NoteKey, signature: NoteSignature, text: str) -> tuple[bytes, bytes]:
    """The message a signature line covers and the bare signature."""
    if key.kind == ED25519:
        return text.encode(), signature.signature
    time = int.from_bytes(signature.signature[:_TIME_SIZE], "big")
    if len(signature.signature) != _TIME_SIZE + _SIGNATURE_SIZE or time > MAX_TIME:
        raise NoteInvalid("malformed cosignature", where=key.name)
    return _cosigned(text, time), signature.signature[_TIME_SIZE:]


def _cosigned(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def _check_name(name: str) -> None:
    if not name or "+" in name or any(c.isspace() for c in name) or not name.isprintable():
        raise NoteInvalid("not a key name", got=name, expected="no spaces, no plus sign, not empty")
