"""What is stored in English, in the reader's language.

Reasons, messages and entries are stored as the sentence that somebody was told, in English. To a reader of another
language it is said by its pattern: the stored sentence is taken apart into its words and numbers, and put together as
the catalogue says that pattern. What fits no pattern (what people wrote themselves) stays as it is stored, and so does
a list of names that could be read in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.utils.dates import MONTHS_3, WEEKDAYS_ABBR
from django.utils.translation import get_language, gettext, gettext_noop

from budgets.models import BudgetNode

ENGLISH = "en"
NARROW_NBSP = "\u202f"
AT_GIVEN = "at the instant given"
"""What sentences say instead of an instant: they hold none."""
KEPT = 8_192
"""Sentences whose translation is remembered: a page of a queue says few again and again."""

PLACE = re.compile(r"\{([a-z]+)(_\d)?\}")
MORE_NAMES = re.compile(r"^(.*), (.*) and (\d+) others$")
MORE_PLACES = re.compile(r"^(\S+) and (\d+) other nodes$")


class TwoWays(ValueError):
    """A list of names that could be read in more than one way."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What may stand in a place of that name, and how it is said in the reader's language."""

    looks_like: str
    said: Callable[[str], str] = str


def _number(text: str) -> str:
    """A number with the reader's separators."""
    if (get_language() or ENGLISH).startswith(ENGLISH):
        return text
    return text.replace(",", NARROW_NBSP).replace(".", ",")


def _amount(text: str) -> str:
    """8 GPUs, 0.25 core; 8 GPUs with 16 cores and 64 GiB; 8 GPUs of class T4/V100."""
    devices, _, beside = text.partition(" with ")
    devices, _, of_class = devices.partition(" of class ")
    number, _, unit = devices.partition(" ")
    said = f"{_number(number)} {gettext(unit)}"
    if of_class:
        said = gettext("{amount} of class {name}").format(amount=said, name=of_class)
    if not beside:
        return said
    parts = [each.partition(" ") for each in beside.split(" and ")]
    words = [f"{_number(number)} {unit if unit == 'GiB' else gettext(unit)}" for number, _, unit in parts]
    more = words[0] if len(words) == 1 else gettext("{first} and {last}").format(first=words[0], last=words[1])
    return gettext("{amount} with {more}").format(amount=said, more=more)


def _many(text: str) -> str:
    """Several names: A and B; A, B and C; A, B and 4 others."""
    more = MORE_NAMES.match(text)
    if more:
        return gettext("{first}, {second} and {number} others").format(first=more[1], second=more[2], number=more[3])
    parts = text.split(" and ")
    halves = [(" and ".join(parts[:at]), " and ".join(parts[at:])) for at in range(1, len(parts))]
    if len(halves) > 1:
        known = _names_with_and()
        halves = [each for each in halves if all(_is_one(half, known) for half in each)]
    if len(halves) != 1:
        raise TwoWays(text)
    return gettext("{first} and {last}").format(first=halves[0][0], last=halves[0][1])


def _is_one(half: str, known: frozenset[str]) -> bool:
    """Whether what stands on one side of the "and" is names without one, or with one that belongs to them."""
    return all(" and " not in each or each in known for each in half.split(", "))


def _names_with_and() -> frozenset[str]:
    """The budget nodes that have an "and" in their name. One query, for lists that could be read in two ways."""
    return frozenset(BudgetNode.objects.filter(name__contains=" and ").values_list("name", flat=True))


def _places(text: str) -> str:
    """Nodes of a holding: n001, n002; or n001 and 7 other nodes."""
    more = MORE_PLACES.match(text)
    if not more:
        return text
    return gettext("{first} and {number} other nodes").format(first=more[1], number=more[2])


def _day(text: str) -> str:
    """Thu 2 Jul 2026."""
    at = datetime.strptime(text, "%a %d %b %Y").date()  # noqa: DTZ007
    return f"{WEEKDAYS_ABBR[at.weekday()]} {at.day} {MONTHS_3[at.month]} {at.year}"


KINDS: dict[str, Kind] = {
    "amount": Kind(
        r"[\d,.]+ (?:GPU|GPUs|core|cores)(?: of class [\w./ -]+?)?"
        r"(?: with [\d,.]+ (?:cores?|GiB)(?: and [\d,.]+ GiB)?)?",
        _amount,
    ),
    "unit": Kind(r"GPU|core", gettext),
    "units": Kind(r"GPUs|cores", gettext),
    "hours": Kind(r"GPU-hours|core-hours", gettext),
    "number": Kind(r"-?[\d,]+(?:\.\d+)?", _number),
    "code": Kind(r"[A-Za-z0-9][\w.-]*"),
    "places": Kind(r"[\w., -]+?", _places),
    "name": Kind(r"[^\n]+?"),
    "many": Kind(r"[^\n]+?", _many),
    "date": Kind(r"\d{4}-\d\d-\d\d"),
    "when": Kind(r"\d{4}-\d\d-\d\d, \d\d:\d\d \S+"),
    "day": Kind(r"[A-Z][a-z]{2} \d{1,2} [A-Z][a-z]{2} \d{4}", _day),
    "instant": Kind(rf"{AT_GIVEN}|by [^.]+?", lambda text: _instant(text)),
    "words": Kind(r"[^\n]+?", lambda text: said(text)),
    "text": Kind(r"(?s:.+)", lambda text: said(text)),
}
"""By the name of a place, without its number."""


def _instant(text: str) -> str:
    if text == AT_GIVEN:
        return gettext(gettext_noop("at the instant given"))
    return gettext("by {instant}").format(instant=text.removeprefix("by "))


PATTERNS: dict[str, re.Pattern[str]] = {}
"""What is looked for, by its English text, in this order."""


def forget() -> None:
    """Take every sentence apart anew."""
    _said.cache_clear()


def add(patterns: Iterable[str]) -> None:
    """Know these patterns from now on; whoever stores a sentence adds its pattern."""
    for pattern in patterns:
        PATTERNS.setdefault(pattern, compiled(pattern))
    forget()


ADDED: dict[str, re.Pattern[str]] = {}
"""Sentences that may stand behind another one, by their English text."""


def add_behind(patterns: Iterable[str]) -> None:
    """Know these as sentences that may stand behind another one, after a blank."""
    for pattern in patterns:
        ADDED.setdefault(pattern, compiled(pattern))
    forget()


def parted(text: str) -> tuple[str, str] | None:
    """A stored text as its sentence and one that was added to it; None where it is no such text."""
    for expression in ADDED.values():
        match = re.fullmatch(rf"(?P<sentence_before>.+[.]) {expression.pattern}", text)
        if match:
            before = match["sentence_before"]
            return before, text[len(before) + 1 :]
    return None


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression; a place that is named twice has to hold the same twice."""
    found, last, seen = "", 0, set()
    for place in PLACE.finditer(pattern):
        name = place[0][1:-1]
        found += re.escape(pattern[last : place.start()])
        found += f"(?P={name})" if name in seen else f"(?P<{name}>{KINDS[place[1]].looks_like})"
        seen.add(name)
        last = place.end()
    return re.compile(found + re.escape(pattern[last:]))


def taken_apart(text: str) -> tuple[str, dict[str, str]] | None:
    """The pattern of a stored sentence and what stands in its places; None where it fits none."""
    for pattern, expression in (*PATTERNS.items(), *ADDED.items()):
        match = expression.fullmatch(text)
        if match:
            return pattern, match.groupdict()
    return None


def said(text: str) -> str:
    """A stored text in the reader's language, line by line where the whole fits no pattern."""
    text = str(text)  # what stands in for none is said already, and lazily
    language = get_language() or ENGLISH
    return text if language.startswith(ENGLISH) or not text else _said(text, language)


@lru_cache(maxsize=KEPT)
def _said(text: str, language: str) -> str:
    found = taken_apart(text)
    if found is None and (parts := parted(text)) is not None:
        return " ".join(_said(part, language) for part in parts)
    if found is None:
        lines = text.split("\n")
        return text if len(lines) == 1 else "\n".join(_said(line, language) if line else line for line in lines)
    pattern, places = found
    try:
        return gettext(pattern).format(**{name: _place(name, value) for name, value in places.items()})
    except TwoWays:
        return text


def _place(name: str, value: str) -> str:
    return KINDS[name.partition("_")[0]].said(value)


add(
    (
        # requests and reallocations, to whoever decides
        gettext_noop("{code}: {code_2} asks for {number} % more of {code_3}"),
        gettext_noop("{code} ({words}): {code_2} asks for {number} % more of {code_3}"),
        gettext_noop("again"),
        gettext_noop("withdrawn"),
        gettext_noop("still waits"),
        gettext_noop("went up to you"),
        gettext_noop("undecided in the review"),
        gettext_noop("{code} was approved"),
        gettext_noop("{code} was denied"),
        gettext_noop("{code} was withdrawn"),
        gettext_noop("{code}: shares of {code_2} on {code_3}, {words}"),
        gettext_noop("for your decision"),
        gettext_noop("takes effect unless one of you objects"),
        # to whoever asked
        gettext_noop("{code} was returned to you: {text}"),
        gettext_noop("{code} was denied: {text}"),
        gettext_noop("{code} was approved: {number} % more from {date}"),
        gettext_noop("{code} needs more than {code_2} has: {code_3} asks for it"),
        gettext_noop("{code} went up to {code_2}: {words}"),
        gettext_noop("{code} can't be applied: {text}"),
        gettext_noop("{name} said something to {code}"),
        # what the clock writes
        gettext_noop("nobody answered by its deadline"),
        gettext_noop("nobody at {code} may decide it"),
        gettext_noop("nobody objected within {number} days' notice: {text}"),
        gettext_noop("withdrawn by its author"),
        gettext_noop("its first day, {date}, has come"),
        gettext_noop("no whole answer within {number} s"),
        gettext_noop("while away"),
        gettext_noop("taken back"),
        gettext_noop("the account was disabled"),
        gettext_noop("earlier work of {name}"),
        gettext_noop("{code} was divided"),
        # budgets
        gettext_noop("Shares of {code} on {code_2} change on {date}"),
        gettext_noop("The budget of {code} ends with {day}"),
        gettext_noop("{number} budgets end with {day}"),
        gettext_noop("{name}: {number} % of {code} on {code_2}; nobody has asked for more"),
        gettext_noop("{name}: {number} % of {code} on {code_2}; {code_3} asks for more and has no answer yet"),
        gettext_noop("{code} has used {number} % of its quarter on {code_2}"),
        gettext_noop("{name}: {number} of {number_2} {hours} that it is entitled to this quarter."),
        # people
        gettext_noop("From {date} until {date_2} you decide for {name} at {code}"),
        gettext_noop("{name} can't sign in any more"),
        gettext_noop("Your access token {code} was revoked"),
        gettext_noop("Your access token {code} ends on {date}"),
        gettext_noop("{name}: what uses it stops then. Make another one before."),
        gettext_noop("Your password was changed"),
        gettext_noop("If that was not you, tell an administrator at once."),
        gettext_noop("the sign-in service lists them in {name}"),
        gettext_noop("the sign-in service no longer lists them in {name}"),
        gettext_noop("not confirmed by a sign-in for {number} days"),
        gettext_noop("their sign-in was unlinked"),
        gettext_noop("signed in for the first time"),
        gettext_noop("the same user name"),
        gettext_noop("the same e-mail address"),
        gettext_noop("by themselves, signed in on both sides"),
        gettext_noop("linked by the operator of the portal"),
        gettext_noop("unlinked by the operator of the portal"),
        gettext_noop("Their requests and workloads go on; what waited for their decision goes to the level above."),
        # reviews
        gettext_noop("{name}: budget review of {code} on {when}"),
        gettext_noop("{name}: the budget review of {code} was called off"),
        gettext_noop("{name}: the budget review of {code} is closed"),
        gettext_noop("decided elsewhere meanwhile"),
        gettext_noop("Nothing was changed."),
        gettext_noop(
            "it used {number} % of its entitlement, less than {number_2} %: proposed to hand back {number_3} % "
            "of its share"
        ),
        gettext_noop("has a part in {code}"),
        gettext_noop("Did it work? {code}: shares of {code_2} on {code_3} since {date}"),
        # the books
        gettext_noop("{code}: no entry says where it comes from"),
        gettext_noop("{code}: its {words} is {name}, and by the ledger {name_2}"),
        gettext_noop("the children of {code} on {code_2} sum to {number} % from {date}"),
        gettext_noop(
            "{code}, a share of {code_2} on {code_3}: from {date} the ledger says {number} %, and {number_2} % "
            "is in force"
        ),
        # sending
        gettext_noop("no e-mail address or mail server, and no webhook"),
        gettext_noop("The webhook to {text} was turned off"),
        gettext_noop(
            "Why: {text}. What happens meanwhile is not posted there; its page says what was tried, and turns it on."
        ),
        gettext_noop("{number} tries in a row failed, the last: {text}"),
        gettext_noop("its receiver answered {number}: it wants nothing any more"),
        gettext_noop("turned off by hand"),
        gettext_noop("{name} answered {number}"),
        # words that are stored as such: states, kinds, roles, and what the ledger calls its fields
        gettext_noop("abstains"),
        gettext_noop("dissents"),
        gettext_noop("elsewhere"),
        gettext_noop("reallocations"),
        gettext_noop("draft"),
        gettext_noop("submitted"),
        gettext_noop("returned"),
        gettext_noop("approved"),
        gettext_noop("denied"),
        gettext_noop("applied"),
        gettext_noop("planned"),
        gettext_noop("open"),
        gettext_noop("closed"),
        gettext_noop("cancelled"),
        gettext_noop("undecided"),
        gettext_noop("changed"),
        gettext_noop("renamed"),
        gettext_noop("moved"),
        gettext_noop("as it is"),
        gettext_noop("organisation"),
        gettext_noop("program"),
        gettext_noop("project"),
        gettext_noop("subproject"),
        gettext_noop("member"),
        gettext_noop("manager"),
        gettext_noop("reviewer"),
        gettext_noop("operator"),
        gettext_noop("administrator"),
        gettext_noop("state"),
        gettext_noop("from"),
        gettext_noop("until"),
        gettext_noop("parent"),
        gettext_noop("desk"),
        gettext_noop("name"),
        gettext_noop("kind"),
        gettext_noop("text"),
        gettext_noop("shares"),
        gettext_noop("person"),
        gettext_noop("lines"),
        gettext_noop("verdict"),
        gettext_noop("role"),
        gettext_noop("title"),
        gettext_noop("policy"),
        gettext_noop("nodes"),
        gettext_noop("knobs"),
        gettext_noop("items"),
        gettext_noop("file"),
        gettext_noop("giver"),
        gettext_noop("delegate"),
        gettext_noop("code"),
        gettext_noop("colour"),
        gettext_noop("attachment"),
        gettext_noop("review"),
        gettext_noop("requests"),
        gettext_noop("useless on"),
        gettext_noop("root rule"),
        gettext_noop("period until"),
        gettext_noop("period from"),
        gettext_noop("meets at"),
        gettext_noop("look again weeks"),
        gettext_noop("hands back percent"),
        gettext_noop("hands back below percent"),
        gettext_noop("snapshot id"),
        gettext_noop("applies from"),
        gettext_noop("answer days"),
        gettext_noop("more basis points"),
        gettext_noop("given basis points"),
        gettext_noop("limit basis points"),
        gettext_noop("starts on"),
        gettext_noop("ends on"),
        gettext_noop("valid from"),
        gettext_noop("valid until"),
        gettext_noop("author"),
        gettext_noop("decided by"),
        gettext_noop("otherwise"),
        gettext_noop("why"),
        gettext_noop("cluster"),
        gettext_noop("node"),
        gettext_noop("upper"),
        gettext_noop("display name"),
        gettext_noop("token"),
        gettext_noop("scopes"),
        gettext_noop("issuer"),
    )
)
