"""The examiner of a service: everything that its database knows about owners, attestations and declared lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .attested import Attested
from .identified import Examiner
from .owners import ChainOwners
from .places import ChainPlaces

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ..attestations.service import Attestations
    from ..known.registry import Registry


def examiner(
    engine: Engine, registry: Registry, *, genesis: str, netuid: int | None, attestations: Attestations | None = None
) -> Examiner:
    """The examiner of one chain.

    Args:
        engine: The database.
        registry: Known models.
        genesis: The chain.
        netuid: The only subnet served; with None, hand-overs between keys are not looked up.
        attestations: What was attested; commitments alone order claims when None.
    """
    bound = ChainPlaces(engine, genesis).bound
    if attestations is None:
        return Examiner(registry, owners=ChainOwners(engine, genesis), bound=bound)
    said = Attested(attestations, netuid=netuid)
    owners = ChainOwners(engine, genesis, origin=said.origin)
    return Examiner(registry, owners=owners, bound=bound, attested=said.place, declared=said.declared)
