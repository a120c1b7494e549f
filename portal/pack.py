"""The pack of a review: what its pages, its PDF and its CSV say, all from the one frozen snapshot.

What the meeting made of it (marks, reasons, voices) stands beside it; once the review is closed nothing of that
changes either. Amounts are thousandths of the cluster's unit times seconds, shares basis points of the review's node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

from django.utils.translation import gettext_lazy

from budgets.models import Person, Reallocation, Review, ReviewItem, Voice
from portal import formats
from portal.csv_files import Cell, percent

BOOKS_BAR = (
    ("within", "", gettext_lazy("delivered within it")),
    ("not_delivered", "short", gettext_lazy("asked for, not delivered")),
    ("not_asked", "unasked", gettext_lazy("not asked for")),
    ("in_repair", "repair", gettext_lazy("lost to unhealthy nodes")),
)
"""The parts of an entitlement, in the order of the bar, with the class of their swatch and their words."""


@dataclass(frozen=True, slots=True)
class Name:
    """A node or a cluster as it was called when the snapshot was frozen."""

    pk: int
    code: str
    name: str
    colour: int = 0
    unit: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The five facts of a line, its books, and its pace."""

    entitled: int
    within: int
    not_asked: int
    not_delivered: int
    in_repair: int
    moved_in: int
    moved_out: int
    borrowed: int
    owed: int
    useful: int
    planned: int
    hours: int

    @property
    def delivered(self) -> int:
        """All that was delivered, borrowed included."""
        return self.within + self.borrowed

    @property
    def got(self) -> Fraction | None:
        """Delivered over entitled."""
        return _ratio(self.delivered, self.entitled)

    @property
    def delivery(self) -> Fraction | None:
        """How much of what was owed was given."""
        return _ratio(min(self.delivered, self.owed), self.owed)

    @property
    def useful_part(self) -> Fraction | None:
        """Usefully busy over delivered."""
        return _ratio(self.useful, self.delivered)

    @property
    def pace(self) -> Fraction | None:
        """Delivered over what the share of the period's first day would have given in the hours that are over."""
        return _ratio(self.delivered, self.planned)

    @property
    def bar(self) -> list[tuple[str, str, int, str]]:
        """The books as parts of a bar: class, words, amount, width in per cent of the entitled."""
        parts = [(css, str(words), getattr(self, name)) for name, css, words in BOOKS_BAR]
        return [
            (css, words, amount, f"{100 * amount / self.entitled:.2f}" if self.entitled else "0")
            for css, words, amount in parts
        ]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it was when the snapshot was frozen."""

    pk: int
    author: Person | None
    more: int
    starts_on: date
    ends_on: date | None
    useless_on: date | None
    why: str
    otherwise: str

    @property
    def number(self) -> str:
        """R12."""
        return f"R{self.pk}"


@dataclass(frozen=True, slots=True)
class PackLine:
    """A child on a cluster: what is frozen about it, and its item with the voices if it is on the agenda."""

    node: Name
    cluster: Name
    facts: Facts
    now: int
    proposed: int
    rule: str
    asked: Asked | None
    item: ReviewItem | None
    voices: Sequence[Voice]
    decision: Reallocation | None

    @property
    def after(self) -> int | None:
        """The mark, or None where there is none."""
        return self.item.pencil if self.item is not None else None

    @property
    def change(self) -> int | None:
        """What the mark changes."""
        return None if self.item is None or self.item.pencil is None else self.item.pencil - self.item.now

    @property
    def abstained(self) -> list[Voice]:
        """Who abstained."""
        return [voice for voice in self.voices if voice.kind == Voice.Kind.ABSTAINS]

    @property
    def dissents(self) -> list[Voice]:
        """Who dissented, and why."""
        return [voice for voice in self.voices if voice.kind == Voice.Kind.DISSENTS]

    @property
    def outcome(self) -> str:
        """What became of it, in a word."""
        if self.item is None:
            return "as it is"
        if self.change is None:
            return "undecided" if self.asked is not None else "as it is"
        if self.asked is not None:
            return "approved" if self.change > 0 else "denied"
        return "changed" if self.change else "as it is"


@dataclass(frozen=True, slots=True)
class PackCluster:
    """All lines on one cluster."""

    cluster: Name
    lines: Sequence[PackLine]
    given: int

    @property
    def unassigned(self) -> int:
        """What the node had not given to its children."""
        return 10_000 - self.given

    @property
    def given_after(self) -> int:
        """With the marks."""
        return self.given + sum(line.change or 0 for line in self.lines)

    @property
    def unassigned_after(self) -> int:
        """What is left with the marks."""
        return 10_000 - self.given_after


@dataclass(frozen=True, slots=True)
class Pack:
    """The whole of it."""

    review: Review
    snapshot_id: str
    frozen_at: datetime
    node: Name
    first_day: date
    until: date
    shares_on: date
    below_percent: int
    hands_back_percent: int
    clusters: Sequence[PackCluster]

    @property
    def lines(self) -> list[PackLine]:
        """All lines, cluster by cluster."""
        return [line for cluster in self.clusters for line in cluster.lines]

    @property
    def agenda(self) -> list[PackLine]:
        """The lines with an item, in the order of the meeting."""
        found = [line for line in self.lines if line.item is not None]
        return sorted(found, key=lambda line: line.item.position if line.item else 0)

    @property
    def others(self) -> list[PackLine]:
        """The lines without."""
        return [line for line in self.lines if line.item is None]

    def at(self, position: int) -> PackLine | None:
        """The line of the item at that place."""
        return next((line for line in self.agenda if line.item and line.item.position == position), None)

    @property
    def is_over(self) -> bool:
        """Whether the whole period was over when it was frozen."""
        return formats.local(self.frozen_at).date() >= self.until


def pack_of(review: Review) -> Pack:
    """The pack of a review that was opened. Five queries."""
    snapshot: Mapping[str, Any] = review.snapshot or {}
    items = {
        (item.node_id, item.cluster_id): item
        for item in review.items.select_related("node", "cluster", "request", "marked_by")
    }
    voices: dict[int, list[Voice]] = {}
    for voice in Voice.objects.filter(item__review=review).select_related("person"):
        voices.setdefault(voice.item_id, []).append(voice)
    decisions = {
        (line.node_id, decided.cluster_id): decided
        for decided in review.reallocations.prefetch_related("lines")
        for line in decided.lines.all()
    }
    people = Person.objects.in_bulk({request["author"] for request in snapshot["requests"]})
    asked = {request["id"]: _asked(request, people) for request in snapshot["requests"]}
    clusters = {
        each["id"]: (Name(each["id"], each["name"], each["name"], unit=each["unit"], model=each["model"]), each)
        for each in snapshot["clusters"]
    }
    lines: dict[int, list[PackLine]] = {pk: [] for pk in clusters}
    for line in snapshot["lines"]:
        item = items.get((line["node"], line["cluster"]))
        lines[line["cluster"]].append(
            PackLine(
                node=Name(line["node"], line["code"], line["name"], line["colour"]),
                cluster=clusters[line["cluster"]][0],
                facts=Facts(**line["totals"]),
                now=line["basis_points"],
                proposed=line["proposed"],
                rule=line["rule"],
                asked=asked.get(line["request"]),
                item=item,
                voices=voices.get(item.pk, []) if item else [],
                decision=decisions.get((line["node"], line["cluster"])),
            )
        )
    node = snapshot["node"]
    return Pack(
        review=review,
        snapshot_id=review.snapshot_id,
        frozen_at=datetime.fromisoformat(snapshot["frozen_at"]),
        node=Name(node["id"], node["code"], node["name"]),
        first_day=date.fromisoformat(snapshot["period"]["from"]),
        until=date.fromisoformat(snapshot["period"]["until"]),
        shares_on=date.fromisoformat(snapshot["shares_on"]),
        below_percent=snapshot["rules"]["below_percent"],
        hands_back_percent=snapshot["rules"]["hands_back_percent"],
        clusters=[PackCluster(name, lines[pk], each["given"]) for pk, (name, each) in clusters.items()],
    )


# --- as files -----------------------------------------------------------------------------------------------------

AMOUNTS = (
    "entitled", "delivered", "within", "borrowed", "owed", "useful", "not_asked", "not_delivered", "in_repair",
    "moved_in", "moved_out", "planned",
)  # fmt: skip
"""In hours of the cluster's unit."""

HEADER = (
    "snapshot", "item", "node", "name", "cluster", "unit", "from", "until", "hours",
    *(f"{name}_hours" for name in AMOUNTS),
    "share_percent", "proposed_percent", "marked_percent", "change_percent", "outcome", "request", "asks_more_percent",
    "rule", "reason", "not_funded", "dissent", "abstained", "look_again_on", "decision",
)  # fmt: skip

HOURS_HEADER = (
    "snapshot", "node", "cluster", "hour", "entitled_hours", "within_hours", "not_asked_hours", "not_delivered_hours",
    "in_repair_hours", "moved_in_hours", "moved_out_hours", "borrowed_hours",
)  # fmt: skip


def rows(pack: Pack) -> Iterator[list[Cell]]:
    """A row for each line, as HEADER names its cells."""
    for line in pack.lines:
        item = line.item
        yield [
            pack.snapshot_id, item.position if item else None, line.node.code, line.node.name, line.cluster.code,
            line.cluster.unit, pack.first_day, pack.until, line.facts.hours,
            *(hours(getattr(line.facts, name)) for name in AMOUNTS),
            percent(line.now), percent(line.proposed),
            None if line.after is None else percent(line.after), None if line.change is None else percent(line.change),
            line.outcome, line.asked.number if line.asked else None, percent(line.asked.more) if line.asked else None,
            line.rule, item.reason if item else "", item.not_funded if item else "", spoken(line.dissents),
            spoken(line.abstained), item.look_again_on if item else None, str(line.decision) if line.decision else None,
        ]  # fmt: skip


def hour_rows(review: Review) -> Iterator[list[Cell]]:
    """A row for each line and hour, as HOURS_HEADER names its cells."""
    snapshot: Mapping[str, Any] = review.snapshot or {}
    names = {each["id"]: each["name"] for each in snapshot["clusters"]}
    for line in snapshot["lines"]:
        for second, *books in line["hours"]:
            at = datetime.fromtimestamp(second, UTC)
            yield [review.snapshot_id, line["code"], names[line["cluster"]], at, *(hours(each) for each in books)]


def hours(milli_s: int) -> Fraction:
    """Hours of the unit, exactly."""
    return Fraction(milli_s, formats.MILLI_S_PER_HOUR)


def spoken(voices: Iterable[Voice]) -> str:
    """Who spoke, and what they said."""
    return "; ".join(f"{voice.person}: {voice.text}" if voice.text else str(voice.person) for voice in voices)


def _asked(request: Mapping[str, Any], people: Mapping[int, Person]) -> Asked:
    return Asked(
        pk=request["id"],
        author=people.get(request["author"]),
        more=request["more_basis_points"],
        starts_on=date.fromisoformat(request["from"]),
        ends_on=date.fromisoformat(request["until"]) if request["until"] else None,
        useless_on=date.fromisoformat(request["useless_on"]) if request["useless_on"] else None,
        why=request["why"],
        otherwise=request["otherwise"],
    )


def _ratio(part: int, whole: int) -> Fraction | None:
    return Fraction(part, whole) if whole else None
