"""What a log refuses, as a branch of the package's tree.

LogError
├── ProofInvalid       an inclusion or consistency proof that proves nothing
├── NoteInvalid        a signed note or checkpoint that is malformed, or not signed by whom it must be
├── ReceiptInvalid     a receipt file that is malformed, or does not hold together
├── LogTampered        stored leaves, tiles or checkpoints contradict each other: nothing more is signed
├── LogForked          a checkpoint of this log's own key contradicts its tree: kept as evidence, nothing more is signed
│   └── SplitView      two signed checkpoints of one size and different roots, seen by somebody else (witness.py)
└── LogFrozen          the log holds such evidence: it can be read and proven from, not written
"""

from __future__ import annotations

from ..errors import AttestError


class LogError(AttestError):
    """Anything a transparency log refuses."""

    code = "log"


class ProofInvalid(LogError):
    """An inclusion or consistency proof that proves nothing."""

    code = "proof_invalid"


class NoteInvalid(LogError):
    """A signed note or checkpoint that is malformed, or not signed by whom it must be."""

    code = "note_invalid"


class ReceiptInvalid(LogError):
    """A receipt file that is malformed, or does not hold together."""

    code = "receipt_invalid"


class LogTampered(LogError):
    """Stored leaves, tiles or checkpoints contradict each other."""

    code = "log_tampered"


class LogForked(LogError):
    """A checkpoint signed by this log's own key contradicts its tree."""

    code = "log_forked"


class LogFrozen(LogError):
    """The log holds evidence of two histories and signs nothing more."""

    code = "log_frozen"
