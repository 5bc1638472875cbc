"""From what the chain shows to entries: every commitment ever seen becomes one, also of hotkeys that left.

Who left the subnet still was first, so old commitments are known models too. What the competition's rules make of a
hotkey's commitment (``chain.claims``) is kept as the reason why it was refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Engine

from ..chain.claims import Claim, Standing, claims
from ..chain.grammar import Named, Rules, parse
from ..chain.observed import Commit, Kind
from ..chain.subnet import Subnet
from ..entries.claimed import Claimed
from ..entries.entries import Entries
from ..errors import CommitMalformed

SOURCE = "chain"


class Ingest:
    """Makes entries of a subnet's commitments.

    Args:
        engine: The database.
        entries: Where they go.
        genesis: The chain.
        netuid: The subnet.
        rules: Of its competition.
    """

    def __init__(self, engine: Engine, entries: Entries, *, genesis: str, netuid: int, rules: Rules) -> None:
        self._subnet = Subnet(engine, genesis, netuid)
        self._entries, self._rules = entries, rules
        self._seen: tuple[int, int] | None = None

    def run(self) -> int:
        """Accept what is new, earliest first, all of it or nothing; how many entries were made."""
        commits, swaps = self._subnet.commits(), self._subnet.swaps()
        if (len(commits), len(swaps)) == self._seen:
            return 0
        standing = claims(self._subnet.neurons(), commits, swaps, self._rules)
        wanted = {claimed.digest: (claimed, refused) for claimed, refused in self._wanted(commits, standing)}
        made = self._entries.accept_all(list(wanted.values()), SOURCE)
        self._seen = (len(commits), len(swaps))
        return made

    def _wanted(self, commits: tuple[Commit, ...], standing: tuple[Claim, ...]) -> Iterator[tuple[Claimed, str | None]]:
        refused = {
            _key(claim.commit): claim.reason
            for claim in standing
            if claim.commit is not None and claim.standing is Standing.BROKEN
        }
        for commit in commits:
            if commit.kind is not Kind.SEALED:
                yield from self._of(commit, refused.get(_key(commit)))
        for claim in standing:
            inherited = claim.commit is not None and claim.commit.hotkey != claim.hotkey
            if inherited and claim.commit is not None and claim.named is not None:
                yield self._claimed(claim.hotkey, claim.commit, claim.named), claim.reason or None

    def _of(self, commit: Commit, refused: str | None) -> Iterator[tuple[Claimed, str | None]]:
        try:
            said = parse(commit.data, self._rules)
        except CommitMalformed as error:
            nothing = Claimed(
                self._subnet.genesis, self._subnet.netuid, commit.hotkey, "", "", commit.block, commit.extrinsic
            )
            yield nothing, f"malformed_commitment: {error.kind}"
            return
        if isinstance(said, Named):
            yield self._claimed(commit.hotkey, commit, said), refused

    def _claimed(self, hotkey: str, commit: Commit, named: Named) -> Claimed:
        return Claimed(
            self._subnet.genesis,
            self._subnet.netuid,
            hotkey,
            named.repo,
            named.revision,
            commit.block,
            commit.extrinsic,
        )


def _key(commit: Commit) -> tuple[str, int, int, bytes]:
    return commit.hotkey, commit.block, commit.extrinsic, commit.data
