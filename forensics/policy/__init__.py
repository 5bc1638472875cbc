"""The policy: what findings cost, as a file that anybody can read, within rules that no file can loosen."""

from __future__ import annotations

from .file import default, load, parse
from .policy import Detector, Mode, Policy, Status

__all__ = ["Detector", "Mode", "Policy", "Status", "default", "load", "parse"]
