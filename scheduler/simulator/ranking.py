"""The order of a tree's leaves by what they have used, ties shown (scenario-format.md, `rank`).

By section 3 of semantics.md with nothing committed: level by level, the least used by shares first. Where two inner
nodes tie, their children are ranked together, each by its part of what its own parent has; a leaf that ties with an
inner node stands beside the best below it. So do Slurm's Fair Tree and its manual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .fields import Fields, ScenarioError, count, parse_json


@dataclass(frozen=True, slots=True)
class Ranked:
    """A node of the tree. `used` is its own for a leaf, the sum of its leaves' for an inner node, in GPU-seconds."""

    name: str
    shares: int
    used: int
    children: tuple[Ranked, ...] | None = None


def parse_ranking(content: str) -> tuple[Ranked, ...]:
    """The children of the root of {"tree": {...}}.

    Raises:
        ScenarioError: names the key path and what is wrong with it.
    """
    file = Fields(parse_json(content), "")
    seen: set[str] = set()
    tree = file.need("tree", lambda value, path: _children(value, path, seen))
    file.finish()
    if not tree:
        raise ScenarioError("tree", "must name at least one budget node")
    return tree


def _children(value: object, path: str, seen: set[str]) -> tuple[Ranked, ...]:
    return tuple(_node(name, each, f"{path}.{name}", seen) for name, each in Fields(value, path).items())


def _node(name: str, value: object, path: str, seen: set[str]) -> Ranked:
    if name in seen:
        raise ScenarioError(path, "this name is in the tree twice")
    seen.add(name)
    row = Fields(value, path)
    shares = row.need("shares", count)
    if row.has("children"):
        children = row.need("children", lambda below, where: _children(below, where, seen))
        row.finish()
        return Ranked(name, shares, sum(child.used for child in children), children)
    used = row.take("used_gpu_s", count, 0)
    row.finish()
    return Ranked(name, shares, used)


def rank(children: Sequence[Ranked]) -> list[list[str]]:
    """Leaves, best first; those in one inner list are tied. Inner nodes without a leaf below them have no place."""
    return _rank(_entitled(children, Fraction(1)))


def _entitled(children: Sequence[Ranked], whole: Fraction) -> list[tuple[Fraction, Ranked]]:
    """Each child with its part of what its parent is entitled to."""
    total = sum(child.shares for child in children) or 1
    return [(whole * Fraction(child.shares, total), child) for child in children]


def _rank(nodes: Sequence[tuple[Fraction, Ranked]]) -> list[list[str]]:
    ties: dict[tuple[bool, Fraction], list[tuple[Fraction, Ranked]]] = {}
    for part, node in nodes:
        served = (False, node.used / part) if part else (True, Fraction(0))  # without shares: last, whatever was used
        ties.setdefault(served, []).append((part, node))
    found: list[list[str]] = []
    for _, tied in sorted(ties.items(), key=lambda each: each[0]):
        below = [pair for part, node in tied if node.children for pair in _entitled(node.children, part or Fraction(1))]
        groups = _rank(below) if below else []
        leaves = [node.name for _, node in tied if node.children is None]
        if leaves:
            groups = [sorted([*leaves, *(groups[0] if groups else [])]), *groups[1:]]
        found += groups
    return found
