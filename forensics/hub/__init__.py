"""Where checkpoints come from: a folder of this machine, or a Hugging Face repository at a commit.

``interface`` says what is asked of a hub and how it may fail; ``local`` serves folders, ``huggingface`` the real hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .interface import Fetched, Hub, Refusal, RemoteFile
from .local import LocalHub
from .reference import HubReference

if TYPE_CHECKING:
    from ..settings import Settings

__all__ = ["Fetched", "Hub", "HubReference", "LocalHub", "Refusal", "RemoteFile", "open_hub"]


def open_hub(settings: Settings, *, tries: int = 4) -> Hub:
    """The hub that the settings name: a folder where ``hub`` is a ``file:`` URL, else the Hugging Face hub there.

    Args:
        settings: Of the service.
        tries: How often a hub that is away is asked before it is called so.

    Raises:
        UsageError: The setting is neither.
    """
    from .opening import open_hub as opened

    return opened(settings, tries=tries)
