"""The lineage graph in the database: declared edges, measured edges, and what measuring says of the declared ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from attest.graph import Edge, LineageGraph
from attest.lineage import Judgement, judge
from attest.predicates import Lineage
from attest.predicates.lineage import Made
from attest.priority import Position

from ..store.attestation import LineageRow
from ..store.engine import reading, writing
from .relations import Measured, Relations

Bound = Callable[[str], Position | None]
"""Where the chain bound a content root, if it did."""


class Lineages:
    """Edges between models by content root.

    Args:
        engine: The database.
        relations: Measures.
        bound: Where the chain bound a content root.
        clock: The time, for the record only.
    """

    def __init__(self, engine: Engine, *, relations: Relations, bound: Bound, clock: Callable[[], datetime]) -> None:
        self._engine, self._relations, self._bound, self._clock = engine, relations, bound, clock

    def graph(self) -> LineageGraph:
        """All edges accepted so far; of an edge that was judged again, the newest judgement."""
        with reading(self._engine) as session:
            rows = session.scalars(select(LineageRow).order_by(LineageRow.id)).all()
        newest = {(row.declared, row.parent, row.child): _edge(row) for row in rows}
        return LineageGraph(newest.values())

    def weigh(self, said: Lineage, child: str, *, statement: str) -> tuple[Edge, Measured]:
        """Judge a declared edge before it is accepted.

        Raises:
            LineageCycle: It would make a model descend from itself.
            ParentLaterThanChild: The chain bound the parent after the child.
        """
        parent = said.parent.content_root
        graph = self.graph()
        for root in (parent, child):
            position = self._bound(root)
            if position is not None:
                graph.bind(root, position)
        graph.add(Edge(parent, child, statement, Judgement.UNVERIFIABLE))  # refuses before anything is measured
        measured = self._relations.measure(child, parent, made=said.made)
        return self._judged(parent, child, statement, measured), measured

    def add(self, session: Session, edge: Edge, measured: Measured) -> None:
        """Store an edge in the caller's transaction."""
        session.add(
            LineageRow(
                declared=edge.declared,
                parent=edge.parent,
                child=edge.child,
                judgement=str(edge.judgement),
                relation=edge.relation,
                evidence=measured.evidence,
                judged_at=self._clock(),
            )
        )

    def found(self, parent: str, child: str, measured: Measured) -> Edge:
        """Store an edge that was measured and that nobody declared.

        Raises:
            LineageCycle: It contradicts what is known.
        """
        edge = self._judged(parent, child, None, measured)
        self.graph().add(edge)
        with writing(self._engine) as session:
            self.add(session, edge, measured)
        return edge

    def reconsider(self, made: Callable[[str], Made], *, statement: str | None = None) -> list[Edge]:
        """Judge again what could not be judged, now that more models may be known; returns the edges that changed.

        Args:
            made: How a declared child was made, by the digest of the statement.
            statement: Only the edge that this statement declares.
        """
        changed = []
        for edge in self._unverifiable() if statement is None else [self.edge_of(statement)]:
            if edge is None or edge.declared is None or edge.judgement is not Judgement.UNVERIFIABLE:
                continue
            measured = self._relations.measure(edge.child, edge.parent, made=made(edge.declared))
            again = self._judged(edge.parent, edge.child, edge.declared, measured)
            if again != edge:
                with writing(self._engine) as session:
                    self.add(session, again, measured)
                changed.append(again)
        return changed

    def edge_of(self, statement: str) -> Edge | None:
        """The newest judgement of a declared edge."""
        newest = select(LineageRow).where(LineageRow.declared == statement).order_by(LineageRow.id.desc()).limit(1)
        with reading(self._engine) as session:
            row = session.scalar(newest)
        return None if row is None else _edge(row)

    def _unverifiable(self) -> list[Edge]:
        with reading(self._engine) as session:
            rows = session.scalars(select(LineageRow).order_by(LineageRow.id)).all()
        newest = {(row.declared, row.parent, row.child): _edge(row) for row in rows}
        return [edge for edge in newest.values() if edge.judgement is Judgement.UNVERIFIABLE]

    @staticmethod
    def _judged(parent: str, child: str, statement: str | None, measured: Measured) -> Edge:
        judgement = judge(measured.relation, parent_root=parent, measured_parents=measured.parents)
        return Edge(parent, child, statement, judgement, measured.relation)


def _edge(row: LineageRow) -> Edge:
    return Edge(row.parent, row.child, row.declared, Judgement(row.judgement), row.relation)
