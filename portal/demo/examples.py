"""The worked examples of the guides in docs/, with the numbers of the demo as it is defined here.

`manage.py documents` writes them into the guides; the tests compare them. Nothing in them depends on the seed: they
speak of shares, sizes and contracts, not of what the dice made of the demo's past.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext, gettext_noop

from budgets.models import WHOLE_BASIS_POINTS, Review
from budgets.split import evenly
from portal import formats
from portal.demo import organisation, past, requests, reviews
from scheduler.engine import Policy

CLUSTER = "north"
HOURS_A_WEEK = 7 * 24
HEADING = gettext_noop("A worked example")
HALL = next(hall for hall in past.HALLS if hall.cluster == CLUSTER)
UNITS = HALL.nodes * HALL.devices_per_node
HALL_WORDS = {"cluster": CLUSTER, "nodes": HALL.nodes, "devices": HALL.devices_per_node, "units": UNITS}
NAMES = {code: name for _, _, code, name, _ in organisation.TREE}


def shares_of(parent: str) -> Mapping[str, int]:
    """The shares of a node's children on the example's cluster, as they are after the demo's changes."""
    shares = dict(organisation.SHARES[CLUSTER].get(parent, {}))
    if not shares:
        children = [code for above, _, code, _, _ in organisation.TREE if above == parent]
        return dict(zip(children, evenly(WHOLE_BASIS_POINTS, len(children)), strict=True))
    for change in sorted(organisation.CHANGES, key=lambda each: -each.days_ago):
        if (change.cluster, change.parent) == (CLUSTER, parent):
            shares.update(change.shares)
    return shares


def entitlement(*path: str, **other: int) -> Fraction:
    """What the last node of a path from the root's child down is entitled to; `other` are other shares, by code."""
    found, parent = Fraction(1), "LAB"
    for code in path:
        found *= Fraction(other.get(code, shares_of(parent)[code]), WHOLE_BASIS_POINTS)
        parent = code
    return found


def percent(fraction: Fraction) -> str:
    """18.00 %."""
    return f"{formats.entitlement(fraction)}{formats.NARROW_NBSP}%"


def gpus(fraction: Fraction) -> str:
    """23.0 GPUs."""
    return f"{formats.entitled_units(fraction * UNITS)}{formats.NBSP}{formats.unit_word('gpu')}"


def hours(fraction: Fraction) -> str:
    """3,871 GPU-hours, in a week."""
    return f"{formats.count(fraction * UNITS * HOURS_A_WEEK)}{formats.NBSP}{formats.hours_word('gpu')}"


MANAGER = gettext_noop("""\
Sign in as the PI of program A (`./run` prints who that is). The laboratory gives its programs {given} of *{cluster}*,
which has {nodes} nodes with {devices} GPUs, {units} in all; {unassigned} is unassigned. Open *Budget tree*, A {name}:

| project | share of A | share of {cluster} | GPUs | a week |
|---|---|---|---|---|
{rows}

The product down the path makes each line: A1 has {a1} of {a}, which is {a1_of_all} of {units} GPUs.

1. Press *Reallocate* and type {a3_after} for A3. The page says that {moved} is missing: every plus names its minus.
2. Type {a1_after} for A1. The sheet balances again. A3 now reads {a3_of_all} of {cluster}, {a3_gpus}: {more_gpus} or
   {more_hours} a week more, and A1 as much less.
3. *What if* replays the last weeks' real submissions with both. Leave the page, or apply it with a first day and a
   reason.

Program A decided just that in the demo's review of the autumn, from the Monday after the demo was made on: look for it
in the *Decision log*. On *For you to decide* lies a request of A1a, {mixtures}: {asked} more of A1, from {has} to
{wants}. That is {asked_of_all} of {cluster}, {asked_gpus} or {asked_hours} a week. Its own manager has a part in it,
so it came to you.""")


def manager() -> str:
    """Program A of the demo: its split, one change of it, one request."""
    below, root = shares_of("A"), shares_of("LAB")
    rows = [
        f"| {code} {NAMES[code]} | {formats.share_percent(points)} | {percent(entitlement('A', code))} | "
        f"{gpus(entitlement('A', code))} | {hours(entitlement('A', code))} |"
        for code, points in below.items()
    ]
    moved, has = reviews.MOVED_BASIS_POINTS, shares_of("A1")["A1a"]
    after = entitlement("A", "A3", A3=below["A3"] + moved)
    more = after - entitlement("A", "A3")
    wants = has + requests.MIXTURES_MORE
    asked = entitlement("A", "A1", "A1a", A1a=wants) - entitlement("A", "A1", "A1a")
    return gettext(MANAGER).format(
        **HALL_WORDS,
        given=", ".join(f"{code} {formats.share_percent(points)}" for code, points in root.items()),
        unassigned=formats.share_percent(WHOLE_BASIS_POINTS - sum(root.values())),
        name=NAMES["A"],
        rows="\n".join(rows),
        a1=formats.share_percent(below["A1"]),
        a=formats.share_percent(root["A"]),
        a1_of_all=percent(entitlement("A", "A1")),
        a3_after=formats.share(below["A3"] + moved),
        a1_after=formats.share(below["A1"] - moved),
        moved=formats.share_percent(moved),
        a3_of_all=percent(after),
        a3_gpus=gpus(after),
        more_gpus=gpus(more),
        more_hours=hours(more),
        mixtures=NAMES["A1a"],
        asked=formats.share_percent(requests.MIXTURES_MORE),
        has=formats.share(has),
        wants=formats.share(wants),
        asked_of_all=percent(asked),
        asked_gpus=gpus(asked),
        asked_hours=hours(asked),
    )


RESEARCHER = gettext_noop("""\
Sign in as the researcher in A1a (`./run` prints who that is). A1a, {mixtures}, has {share} of A1, which is {own} of
*{cluster}*: {own_gpus}, or {own_hours} a week.

1. *Submit*: {size} GPUs, a contract of {contract}. From its start {committed} GPU-hours are committed: {part} of a
   week's entitlement. By so much A1a is served more, so that your next workload stands a little further behind.
2. It runs for 3 h: {charged} GPU-hours are charged. For the first {contract} nobody could have taken the GPUs; in the
   last hour somebody who had had less could have, with {grace} to save.
3. The same with a contract of {longest}, the longest, would commit {most} GPU-hours and be safe all the time. It would
   also wait longer: fewer gaps are that long.
4. Ask for {large} GPUs: more than one node has, so you hold, and A1a is charged, {whole} whole nodes, {held} GPUs.
5. Ask for {size} GPUs with a contract of 0: it is charged to nobody, and starts on what nobody funded needs. Open its
   page while it waits, and again when it runs: the first line says what can happen to it.""")


def researcher() -> str:
    """A member of A1a submits: what is committed, and what it costs."""
    policy, size, contract_h, whole = Policy(), 8, 2, 2
    own = entitlement("A", "A1", "A1a")
    return gettext(RESEARCHER).format(
        **HALL_WORDS,
        mixtures=NAMES["A1a"],
        share=formats.share_percent(shares_of("A1")["A1a"]),
        own=percent(own),
        own_gpus=gpus(own),
        own_hours=hours(own),
        size=size,
        contract=formats.duration(contract_h * 3_600),
        committed=size * contract_h,
        part=formats.measured_percent(size * contract_h / (own * UNITS * HOURS_A_WEEK)),
        charged=size * 3,
        grace=formats.duration(policy.grace_s),
        longest=formats.duration(policy.min_runtime_max_s),
        most=size * policy.min_runtime_max_s // 3_600,
        large=HALL.devices_per_node * 3 // 2,
        whole=whole,
        held=whole * HALL.devices_per_node,
    )


OPERATOR = gettext_noop("""\
Sign in as the operator (`./run` prints who that is). *Nodes*, *{cluster}*: {nodes} nodes with {devices} GPUs, {rack}
to a rack, {units} GPUs in all.

1. *Drain* a node that runs something, with a reason. Nothing more starts there; {devices} of {units} GPUs, {part},
   are out of the race. Everybody's entitlement goes on to be counted on all of them: what is missing shows as *in
   repair* in the books, not as owed.
2. Unallocated runs on it leave at once, within {grace}. A funded one leaves when its contract is over. The longest
   contract is {longest}, so the node is empty after {empty} at the latest, with nobody asked.
3. *Resume* it. It takes work again after {dwell} of good health.
4. Had it fallen silent instead, nothing would start there after {silent}, its runs would stay charged, and after {lost}
   they would be lost and requeued. A cut-off agent stops them by itself after {fence}, which is earlier: nothing runs
   twice.

A node that is away for one day of a week costs {cluster} {cost} of its availability: {left} is left.""")


def operator() -> str:
    """A node of the demo's north hall is drained for repair."""
    policy, one = Policy(), Fraction(1, HALL.nodes)
    cost = one * Fraction(24, HOURS_A_WEEK)
    return gettext(OPERATOR).format(
        **HALL_WORDS,
        rack=HALL.nodes_per_rack,
        part=percent(one),
        grace=formats.duration(policy.grace_s),
        longest=formats.duration(policy.min_runtime_max_s),
        empty=formats.duration(policy.min_runtime_max_s + policy.grace_s),
        dwell=formats.duration(policy.healthy_dwell_s),
        silent=formats.duration(policy.heartbeat_timeout_s),
        lost=formats.duration(policy.lost_after_s),
        fence=formats.duration(policy.self_fence_s),
        cost=percent(cost),
        left=formats.measured_percent(1 - cost),
    )


REVIEWER = gettext_noop("""\
Sign in as the reviewer (`./run` prints who that is) and open *Reviews*, *{title}*: program A met about the last {weeks}
weeks, and it is closed.

- On the agenda was a request of A3, {a3}, for {asked} more of A on *{cluster}*. A1, {a1}, was taken up in the meeting.
- In pencil, A3 went from {a3_had} to {a3_gets} and A1 from {a1_had} to {a1_gets}: a plus of {moved}, its minus, and a
  total that stays {whole}. {moved} % of A is {more} of {cluster}, {more_gpus} or {more_hours} a week.
- *Not funded* says what of the request was left: {not_funded}.
- The laboratory's manager put a dissent on record. It changed nothing, and it stands in the pack and in the decision
  log.
- The rule would have pointed at A3 had it used less than {below} % of its entitlement: proposed to hand back {back} %
  of its share, from {a3_had} to {a3_back}. It proposes and never cuts.

*Pack* shows the same as a page, PDF and CSV with one snapshot id. *Decision log* has both lines, from the Monday after
the demo was made, and the day on which it will be asked whether it worked.""")


def reviewer() -> str:
    """The demo's closed review: one plus, one minus, one dissent."""
    below, asked, moved = shares_of("A"), reviews.ASKED_BASIS_POINTS, reviews.MOVED_BASIS_POINTS
    more = entitlement("A", "A3", A3=below["A3"] + moved) - entitlement("A", "A3")
    rule = Review(title=reviews.HELD_TITLE)
    return gettext(REVIEWER).format(
        **HALL_WORDS,
        title=rule.title,
        weeks=reviews.LOOKS_BACK.days // 7,
        a3=NAMES["A3"],
        a1=NAMES["A1"],
        asked=formats.share_percent(asked),
        a3_had=formats.share(below["A3"]),
        a3_gets=formats.share(below["A3"] + moved),
        a1_had=formats.share(below["A1"]),
        a1_gets=formats.share(below["A1"] - moved),
        moved=formats.share(moved),
        whole=formats.share(WHOLE_BASIS_POINTS),
        more=percent(more),
        more_gpus=gpus(more),
        more_hours=hours(more),
        not_funded=formats.share_percent(asked - moved),
        below=rule.hands_back_below_percent,
        back=rule.hands_back_percent,
        a3_back=formats.share(below["A3"] - below["A3"] * rule.hands_back_percent // 100),
    )


EXAMPLES = {"manager": manager, "researcher": researcher, "operator": operator, "reviewer": reviewer}


def with_example(guide: str, text: str) -> str:
    """A guide's text with its example as it is computed now, in the language in force; at the end where it had none."""
    heading = f"## {gettext(HEADING)}"
    section = f"{heading}\n\n{EXAMPLES[guide]()}\n"
    there = re.compile(rf"{re.escape(heading)}\n\n.*?(?=\n## |\Z)", re.DOTALL)
    if there.search(text):
        return there.sub(lambda _: section, text)
    return f"{text.rstrip()}\n\n{section}"


def guides(folder: Path) -> Sequence[tuple[Path, str]]:
    """Each guide below docs/, in each language that it is there in, with the text that it should have."""
    found = []
    for language, _ in settings.LANGUAGES:
        own = folder if language == settings.LANGUAGE_CODE else folder / language
        with translation.override(language):
            for name in EXAMPLES:
                path = own / f"{name}.md"
                if path.exists():
                    found.append((path, with_example(name, path.read_text(encoding="utf-8"))))
    return found
