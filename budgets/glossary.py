"""The words of the product, each with its one meaning: for pages, API, letters and docs/glossary.md alike.

The meanings are those of the scheduling semantics: section 1 (words) and section 10 (figures). Spanish is in the
catalogue like every other text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

MOST_IN_A_LETTER = 4


@dataclass(frozen=True, slots=True)
class Term:
    """One word: `key` names it in addresses and code, `forms` are other English forms of it, in stored sentences."""

    key: str
    word: _StrPromise
    meaning: _StrPromise
    see: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()


TERMS: Sequence[Term] = (
    # --- what there is
    Term(
        "cluster",
        gettext_lazy("cluster"),
        gettext_lazy(
            "Nodes with one kind of unit: a GPU of one kind, or a core on a CPU-only cluster. It is scheduled on its "
            "own, with its own policy."
        ),
        ("node",),
    ),
    Term(
        "node",
        gettext_lazy("node"),
        gettext_lazy(
            "A host with a whole number of GPUs, or of cores. It knows its rack: the hosts that one fast network joins."
        ),
        ("cluster", "draining", "budget-tree"),
    ),
    Term(
        "budget-tree",
        gettext_lazy("budget tree"),
        gettext_lazy(
            "Organisation, programs, projects, members or sub-projects, in any depth. Each part of it is a budget "
            "node; the leaves take workloads."
        ),
        ("shares", "leaf"),
    ),
    Term(
        "leaf",
        gettext_lazy("leaf"),
        gettext_lazy("A budget node with nothing below it: the place that workloads are submitted to and charged to."),
        ("budget-tree", "charged"),
    ),
    Term(
        "shares",
        gettext_lazy("share"),
        gettext_lazy(
            "What a budget node has of its parent, in hundredths of a per cent, for each cluster and from a date on. "
            "The shares of the children sum to at most 100 % of the parent."
        ),
        ("entitlement", "unassigned"),
        ("shares",),
    ),
    Term(
        "cell",
        gettext_lazy("cell"),
        gettext_lazy(
            "A whole node, or a whole rack, that is a budget node's own beside its share. Which one it is settles only "
            "when it is used: so many are cleared whenever their owner needs them, and meanwhile others run there only "
            "unallocated."
        ),
        ("shares", "node", "unallocated"),
        ("cells",),
    ),
    Term(
        "unassigned",
        gettext_lazy("unassigned"),
        gettext_lazy(
            "What a budget node has and gives to none of its children. It is lent to whoever has been served least, "
            "and owed to nobody."
        ),
        ("shares",),
    ),
    Term(
        "entitlement",
        gettext_lazy("entitlement"),
        gettext_lazy(
            "What a budget node may count on: the product of the shares along the path from the organisation down to "
            "it. Half of a program that has 70 % is entitled to 35 % of the cluster."
        ),
        ("shares", "owed", "delivered"),
        ("entitled",),
    ),
    # --- work
    Term(
        "workload",
        gettext_lazy("workload"),
        gettext_lazy(
            "What somebody submits: a gang, which gets all its GPUs at once or none. It may have several runs."
        ),
        ("run", "contract"),
    ),
    Term(
        "run",
        gettext_lazy("run"),
        gettext_lazy(
            "One holding of GPUs by a workload, from its first second to its last. Each has its own contract."
        ),
        ("workload", "contract"),
        ("runs",),
    ),
    Term(
        "contract",
        gettext_lazy("contract"),
        gettext_lazy(
            "The least time that makes progress worth having (min_runtime), chosen at submission. It begins when every "
            "rank really runs; until it is over nobody can take the GPUs."
        ),
        ("funded", "preempted", "min-runtime-limits"),
        ("contracts",),
    ),
    Term(
        "min-runtime-limits",
        gettext_lazy("longest and shortest contract"),
        gettext_lazy(
            "What a contract may be on a cluster, 5 minutes to 8 hours unless its policy says otherwise; or 0."
        ),
        ("contract", "unallocated"),
    ),
    Term(
        "funded",
        gettext_lazy("funded"),
        gettext_lazy(
            "With a contract, in a leaf that is entitled to something: charged and, inside its contract, protected. It "
            "is fixed when a run starts."
        ),
        ("unallocated", "charged"),
    ),
    Term(
        "unallocated",
        gettext_lazy("unallocated"),
        gettext_lazy(
            "Without a contract: charged to nobody, never protected. It may use what nobody funded needs, and is "
            "interrupted as soon as somebody does."
        ),
        ("funded", "preempted"),
    ),
    Term(
        "priority",
        gettext_lazy("priority"),
        gettext_lazy("What goes first inside one leaf. It means nothing outside of it."),
        ("order",),
    ),
    Term(
        "resumable",
        gettext_lazy("resumable"),
        gettext_lazy(
            "It saves when it is told to stop, returns to the queue in its old place, and goes on from what it saved."
        ),
        ("preempted", "grace"),
    ),
    Term(
        "class",
        gettext_lazy("class"),
        gettext_lazy(
            "Debug: a contract of at most 15 minutes on at most one node. Large: at least a sixteenth of the cluster. "
            "Unallocated: without a contract. Standard: everything else."
        ),
        ("wait",),
    ),
    # --- the order, and who may be stopped
    Term(
        "order",
        gettext_lazy("order of the queue"),
        gettext_lazy(
            "From the organisation down, at each level the child that has been served least goes first; inside a leaf "
            "the higher priority, then who submitted first. Funded comes before unallocated. A cluster's policy may "
            "name other orders, which its queue then says: use that decays, what is held now by fair or dominant "
            "share; inside a leaf the least attained, the shortest, or who is furthest behind."
        ),
        ("served", "priority"),
    ),
    Term(
        "lookback",
        gettext_lazy("lookback"),
        gettext_lazy(
            "The sliding window in which use counts for the order: the last 7 days unless the policy says otherwise."
        ),
        ("used", "served"),
    ),
    Term(
        "used",
        gettext_lazy("used"),
        gettext_lazy("GPU-seconds charged to a budget node and all below it in the lookback."),
        ("lookback", "charged"),
    ),
    Term(
        "committed",
        gettext_lazy("committed"),
        gettext_lazy(
            "What contracts that are running or about to start will still hold: GPUs times the part of each contract "
            "that is to come."
        ),
        ("served", "contract"),
    ),
    Term(
        "served",
        gettext_lazy("served"),
        gettext_lazy(
            "(Used + committed) / share. Whoever has been served less than its siblings goes first, unless the policy "
            "orders them by what they hold now."
        ),
        ("used", "committed", "order"),
    ),
    Term(
        "preempted",
        gettext_lazy("preempted"),
        gettext_lazy(
            "Told to stop because a funded workload takes its GPUs over: it ran unallocated, or its contract was over "
            "and the other side had been served less, had the higher priority in the same leaf, or held a reservation. "
            "Never inside a contract."
        ),
        ("contract", "grace", "reservation"),
        ("preemption",),
    ),
    Term(
        "grace",
        gettext_lazy("grace"),
        gettext_lazy(
            "How long a run that was told to stop may take to save and leave, 60 s unless the policy says otherwise."
        ),
        ("preempted",),
    ),
    Term(
        "reservation",
        gettext_lazy("reservation"),
        gettext_lazy(
            "GPUs promised to a workload from an instant on: the first at which enough of them are certain to come "
            "free. That instant may move earlier, never later."
        ),
        ("filler", "latest-start"),
        ("reserved", "reservations"),
    ),
    Term(
        "latest-start",
        gettext_lazy("latest start"),
        gettext_lazy(
            "The instant of a reservation plus the grace: it starts then at the latest, whatever others submit."
        ),
        ("reservation", "grace"),
    ),
    Term(
        "filler",
        gettext_lazy("backfill"),
        gettext_lazy(
            "Work that uses reserved GPUs until they are due: unallocated, or with a contract that ends before. So it "
            "never delays a promise."
        ),
        ("reservation",),
    ),
    Term(
        "draining",
        gettext_lazy("draining"),
        gettext_lazy(
            "A node that is to be empty for repair: nothing starts there, unallocated runs leave at once and funded "
            "ones when their contract is over. Then it is drained."
        ),
        ("node",),
    ),
    Term(
        "pass",
        gettext_lazy("pass"),
        gettext_lazy(
            "One round of the scheduler over everything that waits and runs: it decides what starts and what stops, "
            "and stores why."
        ),
        ("order",),
    ),
    # --- the books
    Term(
        "charged",
        gettext_lazy("charged"),
        gettext_lazy(
            "GPUs times the time for which a funded run holds them: starting up, inside its contract, after it, and "
            "while leaving. Charged to the leaf and to everything above it."
        ),
        ("funded", "delivered"),
    ),
    Term(
        "gpu-hour",
        gettext_lazy("GPU-hour"),
        gettext_lazy("One GPU held for one hour; a core-hour is the same of a core."),
        ("charged",),
        ("GPU-hours",),
    ),
    Term(
        "demand",
        gettext_lazy("demand"),
        gettext_lazy("GPU-time of the funded workloads of a budget node that are queued or running, hour by hour."),
        ("owed",),
    ),
    Term(
        "owed",
        gettext_lazy("owed"),
        gettext_lazy(
            "What a budget node should have been given: in each hour the smaller of its entitlement to the healthy "
            "GPUs and its demand, summed up."
        ),
        ("entitlement", "demand", "delivery"),
    ),
    Term(
        "delivered",
        gettext_lazy("delivered"),
        gettext_lazy("The GPU-time that was charged: what a budget node really got."),
        ("charged", "borrowed"),
    ),
    Term(
        "delivery",
        gettext_lazy("delivery"),
        gettext_lazy("How much of what was owed was given: the smaller of delivered and owed, over owed."),
        ("owed", "impact"),
    ),
    Term(
        "borrowed",
        gettext_lazy("borrowed"),
        gettext_lazy("What was delivered above the entitlement, since others did not need it."),
        ("delivered", "entitlement"),
    ),
    Term(
        "books",
        gettext_lazy("books of a budget node"),
        gettext_lazy(
            "Entitled = delivered within the entitlement + not asked for + asked for but not delivered + lost to "
            "unhealthy nodes, hour by hour. Borrowed stands beside it."
        ),
        ("entitlement", "delivered", "borrowed"),
    ),
    # --- figures of a cluster
    Term(
        "availability",
        gettext_lazy("availability"),
        gettext_lazy("Healthy GPU-time over all GPU-time."),
        ("occupancy",),
    ),
    Term(
        "occupancy",
        gettext_lazy("occupancy"),
        gettext_lazy("Held GPU-time over healthy GPU-time, with what was held on draining or unreachable nodes."),
        ("availability", "utilization"),
    ),
    Term(
        "unallocated-share",
        gettext_lazy("unallocated share"),
        gettext_lazy("Of the GPU-time that was held, how much was charged to nobody."),
        ("unallocated",),
    ),
    Term(
        "impact",
        gettext_lazy("impact"),
        gettext_lazy("Delivery of the whole cluster: how much of what was funded and asked for was given."),
        ("delivery",),
    ),
    Term(
        "utilization",
        gettext_lazy("utilization"),
        gettext_lazy(
            "Measured activity of the GPUs over the time for which they were held; never assumed. Start-up, "
            "checkpoints and restarts are counted apart."
        ),
        ("occupancy",),
    ),
    Term(
        "mfu",
        gettext_lazy("model FLOPs utilization"),
        gettext_lazy(
            "MFU: what a training run makes of what its GPUs could do at most: 6 x parameters x tokens a second, by "
            "GPUs x the peak of one. It tells of what the run reports."
        ),
        ("utilization",),
    ),
    Term(
        "wait",
        gettext_lazy("wait"),
        gettext_lazy("From the submission of a workload to its first start, by class."),
        ("class",),
    ),
)
"""In the order of the page: what there is, work, the order, the books, the figures."""

BY_KEY = {term.key: term for term in TERMS}


def meaning(key: str) -> str:
    """What a word means, in the reader's language.

    Raises:
        KeyError: there is no such word.
    """
    return str(BY_KEY[key].meaning)


def lazily(key: str) -> _StrPromise:
    """The same, said when it is shown: for the help texts of fields."""
    return BY_KEY[key].meaning


def mentioned(text: str) -> list[Term]:
    """The words that a stored (English) text uses, in the order of the page; at most MOST_IN_A_LETTER."""
    found = [term for term in TERMS if _expression(term).search(text)]
    return found[:MOST_IN_A_LETTER]


EXPLAINED = ("entitlement", "contract", "unallocated", "preempted", "reservation", "shares", "draining")
"""What letters explain: the words that newcomers ask about."""
_NEVER = re.compile(r"(?!)")
_EXPRESSIONS: dict[str, re.Pattern[str]] = {}


def _expression(term: Term) -> re.Pattern[str]:
    if term.key not in EXPLAINED:
        return _NEVER
    if term.key not in _EXPRESSIONS:
        forms = "|".join(re.escape(form) for form in (term.key.rstrip("s"), *term.forms))
        _EXPRESSIONS[term.key] = re.compile(rf"\b(?:{forms})\b", re.IGNORECASE)
    return _EXPRESSIONS[term.key]


ABOUT = """\
Each word has one meaning: on pages, in the API, in letters and in these documents. `manage.py documents` writes this
file from `budgets/glossary.py`."""


def as_markdown() -> str:
    """docs/glossary.md, in the language that is in force."""
    lines = [
        "# Glossary",
        "",
        ABOUT,
        "",
    ]
    for term in TERMS:
        see = ", ".join(f"[{BY_KEY[key].word}](#{key})" for key in term.see)
        lines += [f'<a id="{term.key}"></a>', f"**{term.word}**: {term.meaning}" + (f" See {see}." if see else ""), ""]
    return "\n".join(lines)
