"""The lineage graph: models by content root, declared and measured edges from parent to child.

Statements cannot cite each other in a circle, because each names its parent's digest; models can be claimed to, so
the graph is kept over content roots and refuses an edge that closes a cycle. A parent must have been bound before its
child where the chain knows both. An edge to a parent nobody has seen stays, as ``unverifiable``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from attest.errors import LineageCycle, ParentLaterThanChild
from attest.lineage import Judgement
from attest.priority import Position


@dataclass(frozen=True, slots=True)
class Edge:
    """One parent of one child.

    Args:
        parent: Content root.
        child: Content root.
        declared: Digest of the lineage statement that says so; None for an edge that was only measured.
        judgement: What measuring said about it.
        relation: The measured relation, where there is one.
    """

    parent: str
    child: str
    declared: str | None
    judgement: Judgement
    relation: str | None = None


class LineageGraph:
    """Ancestry and descendants over accepted edges; a refused edge leaves no trace.

    Edges that measuring contradicted are kept and shown, but never walked: a false claim can neither adopt a model nor
    block a true edge by closing a cycle.

    Args:
        edges: Accepted before; checked again in the order given.
        bound: Effective position of content roots, where the chain knows them.
    """

    def __init__(self, edges: Iterable[Edge] = (), *, bound: Mapping[str, Position] | None = None) -> None:
        self._bound = dict(bound or {})
        self._parents: dict[str, list[Edge]] = {}
        self._children: dict[str, list[Edge]] = {}
        self._contradicted: list[Edge] = []
        for edge in edges:
            self.add(edge)

    @property
    def contradicted(self) -> tuple[Edge, ...]:
        """Declared edges that measuring ruled out."""
        return tuple(self._contradicted)

    def bind(self, root: str, position: Position) -> None:
        """Learn where the chain bound a content root; the earliest counts."""
        self._bound[root] = min(position, self._bound.get(root, position))

    def add(self, edge: Edge) -> None:
        """Take one more edge.

        Raises:
            LineageCycle: The child is an ancestor of the parent, or the parent itself.
            ParentLaterThanChild: The chain bound the declared parent after the child.
        """
        if edge.parent == edge.child or any(up.parent == edge.child for up in self.ancestry(edge.parent)):
            raise LineageCycle("a model cannot descend from itself", where=edge.declared or "measured", got=edge.parent)
        parent, child = self._bound.get(edge.parent), self._bound.get(edge.child)
        if edge.declared is not None and parent is not None and child is not None and parent > child:
            raise ParentLaterThanChild(
                "the parent was not there before the child",
                where=edge.declared,
                got=str(parent),
                expected=f"up to {child}",
            )
        if edge.judgement is Judgement.CONTRADICTED:
            self._contradicted.append(edge)
            return
        self._parents.setdefault(edge.child, []).append(edge)
        self._children.setdefault(edge.parent, []).append(edge)

    def ancestry(self, root: str) -> tuple[Edge, ...]:
        """Edges from a model up to everything it descends from, nearest first, each once."""
        return tuple(_reach(root, self._parents, lambda edge: edge.parent))

    def descendants(self, root: str) -> tuple[Edge, ...]:
        """Edges from a model down to everything made from it, nearest first, each once."""
        return tuple(_reach(root, self._children, lambda edge: edge.child))

    def undeclared(self, root: str) -> tuple[Edge, ...]:
        """Parents of a model that were measured but that its miner did not declare."""
        edges = self._parents.get(root, [])
        declared = {edge.parent for edge in edges if edge.declared is not None}
        return tuple(edge for edge in edges if edge.declared is None and edge.parent not in declared)


def _reach(root: str, edges_of: Mapping[str, list[Edge]], end: Callable[[Edge], str]) -> Iterator[Edge]:
    """Breadth first; without recursion, so that a long chain of claims cannot exhaust the stack."""
    seen, queue = {root}, deque([root])
    while queue:
        for edge in edges_of.get(queue.popleft(), ()):
            yield edge
            if end(edge) not in seen:
                seen.add(end(edge))
                queue.append(end(edge))
