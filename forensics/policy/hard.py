"""The hard rules: judgement rules of the design that hold whatever a policy file says.

They are used twice. The reader refuses a file that asks for less, so that nobody believes a rule is in force that is
not; and the judge obeys them by itself, so that a policy made in any other way cannot get around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from detectors.evidence import Finding

FALSE_ACCUSATION: Final = 1e-6
"""Rule 1: largest false-accusation probability at which a copy-class relation may cost everything."""
STATISTICAL: Final = 1e-3
"""Largest p-value at which a finding counts as evidence at all; beyond it, something like it is met every day."""
FAMILIES_NEEDED: Final = 2
"""Rule 2: statistical evidence costs something only where so many independent families agree."""
LEAST_GRADED: Final = 0.1
"""Rule 2: what statistical evidence leaves at least; only rule 1 takes everything."""
PROOFS: Final[Mapping[str, tuple[str, ...]]] = {
    "equal_content": ("copy.identical",),
    "hotkey_swap": ("commit.swapped",),
    "commitment": ("commit.",),
    "same_coldkey": ("operator.",),
}
"""Rule 1: deterministic evidence by name, and the codes (or families, ending in a dot) that it can prove."""
SHARED_EVIDENCE: Final[Mapping[str, str]] = {
    "copy": "artefact",
    "lineage": "artefact",
    "priority": "artefact",
    "package": "artefact",
    "commit": "artefact",
}
"""Families of codes that look at the same thing, the model's files, and so never corroborate each other."""
NEVER_COSTS: Final = ("lineage", "priority")
"""Rules 3 and 4: descending from a rival's model is allowed, and who came first or could not be ordered is no copy."""
REJECTS: Final = ("commit", "operator")
"""Families that may reject: rules of the competition about commitments and owners, which anybody can check on chain."""
SPARES: Final = frozenset({"reference_later", "own_model", "tie", "no_order", "reference_withdrawn"})
"""Rule 3: exculpatory facts with which a copy accuses nobody, whatever its code says."""


def evidence_family(code: str) -> str:
    """The family of evidence behind a code."""
    family = code.partition(".")[0]
    return SHARED_EVIDENCE.get(family, family)


def proven(finding: Finding) -> bool:
    """Whether a finding rests on deterministic evidence that its code can rest on."""
    codes = PROOFS.get(str(finding.measured.get("proof", "")), ())
    return any(finding.code == code or (code.endswith(".") and finding.code.startswith(code)) for code in codes)


def decisive(finding: Finding, threshold: float) -> bool:
    """Whether a finding may cost everything without a person (rule 1).

    Args:
        finding: Any finding.
        threshold: The policy's, if that is stricter than ``FALSE_ACCUSATION``.
    """
    if spared(finding):
        return False
    return proven(finding) or (finding.family == "copy" and finding.p_value <= min(threshold, FALSE_ACCUSATION))


def spared(finding: Finding) -> bool:
    """Whether an exculpatory fact takes the accusation out of a finding (rule 3)."""
    return finding.family in NEVER_COSTS or any(fact.code in SPARES for fact in finding.exculpatory)
