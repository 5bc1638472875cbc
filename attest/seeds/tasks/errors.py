"""What this package refuses.

ProgramFault    program_fault   a program that stops on this input: too long, too large, or nothing to take from
"""

from __future__ import annotations

from attest.errors import AttestError


class ProgramFault(AttestError):
    """The program stops on this input; for a checker that is an ordinary wrong answer."""

    code = "program_fault"
