"""Boolean satisfiability: find an assignment for clauses of three literals.

Clauses are drawn so that an assignment and its opposite both satisfy them: each has one or two true literals under
the hidden assignment, never three. A formula with one hidden assignment gives itself away, for its literals lean toward
the hidden values; with two opposite ones the lean cancels (Achlioptas, Jia and Moore, JAIR 2005).
"""

from __future__ import annotations

from typing import Final

from attest.seeds.draw import Draw

from . import answers
from .reasoning import ENDING
from .task import Task, Verdict

SIZES: Final = {1: (6, 16), 2: (10, 34), 3: (16, 60), 4: (26, 104), 5: (40, 166)}
"""Variables and clauses of each level; the ratio rises toward 4.2, where formulas are hardest."""


class Sat:
    """Given clauses, find a satisfying assignment."""

    name = "sat"

    def make(self, draw: Draw, level: int) -> Task:
        """The task of this stream."""
        variables, number = SIZES[level]
        hidden = [draw.below(2) == 1 for _ in range(variables)]
        clauses: list[list[int]] = []
        while len(clauses) < number:
            clause = sorted(draw.sample(range(1, variables + 1), 3))
            signed = [v if draw.below(2) else -v for v in clause]
            true = sum((literal > 0) == hidden[abs(literal) - 1] for literal in signed)
            if true in (1, 2) and signed not in clauses:
                clauses.append(signed)
        solution = [place + 1 if value else -place - 1 for place, value in enumerate(hidden)]
        listed = "\n".join(" or ".join(_literal(literal) for literal in clause) for clause in clauses)
        prompt = (
            f"Find truth values of x1 to x{variables} such that each of these {number} lines is true.\n\n{listed}\n"
            f"{ENDING}followed by a list with k for every true xk and -k for every false one, like [1, -2, 3]"
        )
        facts = {"variables": variables, "clauses": clauses}
        return Task(self.name, level, prompt, facts, "ANSWER: [" + ", ".join(map(str, solution)) + "]")

    def check(self, task: Task, answer: str) -> Verdict:
        """Every variable once, every clause true."""
        found = answers.integers(answer)
        if found is None:
            return Verdict.UNREADABLE
        if sorted(abs(v) for v in found) != list(range(1, task.facts["variables"] + 1)):
            return Verdict.WRONG
        true = [False] * (2 * task.facts["variables"] + 1)
        for value in found:
            true[value] = True  # a negative literal counts from the end
        return Verdict.RIGHT if all(any(true[x] for x in clause) for clause in task.facts["clauses"]) else Verdict.WRONG


def _literal(literal: int) -> str:
    return f"x{literal}" if literal > 0 else f"not x{-literal}"
