"""How numbers, instants and durations are written for people: one place for pages, charts and copied text.

Numbers keep a no-break space before their unit (a narrow one before %), minus is U+2212, and every instant names its
zone. Amounts come in whole thousandths of the cluster's unit, shares in basis points. All are written as the reader's
language does (thousands with commas and a point in English; narrow spaces and a comma in Spanish); the values are the
same, and files for programs (portal/csv_files.py) are written without any of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction

from django.utils import timezone
from django.utils.dates import MONTHS_3, WEEKDAYS_ABBR
from django.utils.translation import get_language, gettext, gettext_lazy

NBSP = "\u00a0"
NARROW_NBSP = "\u202f"
MINUS = "\u2212"
NOT_APPLICABLE = "–"

MILLI = 1_000
MIB_PER_GIB = 1_024
MILLI_S_PER_HOUR = MILLI * 3_600
EXACT_SECONDS_BELOW_S = 600
"""Durations shorter than this keep their seconds beside the minutes."""

UNITS = {
    "gpu": (gettext_lazy("GPU"), gettext_lazy("GPUs"), gettext_lazy("GPU-hours")),
    "core": (gettext_lazy("core"), gettext_lazy("cores"), gettext_lazy("core-hours")),
}
"""Singular, plural and hours of each kind of unit, by `Cluster.unit`."""

ENGLISH = "en"
SEPARATORS = {ENGLISH: (".", ","), "es": (",", NARROW_NBSP)}
"""Of decimals and of thousands, by language."""

Exact = int | Fraction
"""Numbers that formatting rounds once, half up, and not before."""


def language() -> str:
    """The reader's language: en, es."""
    return (get_language() or ENGLISH).split("-")[0]


def separators() -> tuple[str, str]:
    """The reader's decimal sign and separator of thousands."""
    return SEPARATORS.get(language(), SEPARATORS[ENGLISH])


def half_up(value: Exact, decimals: int) -> str:
    """`value` with `decimals` digits and separated thousands, rounded half away from zero; never "-0"."""
    return half_up_ratio(value.numerator, value.denominator, decimals)


def half_up_ratio(numerator: int, denominator: int, decimals: int) -> str:
    """`half_up` of a ratio of whole numbers that need not be in lowest terms: pages have thousands of them."""
    return _half_up(numerator, denominator, decimals, separators())


def half_up_ratios(numerators: Iterable[int], denominator: int, decimals: int) -> list[str]:
    """`half_up_ratio` of each: the reader's language is looked up once."""
    signs = separators()
    return [_half_up(numerator, denominator, decimals, signs) for numerator in numerators]


def _half_up(numerator: int, denominator: int, decimals: int, separators: tuple[str, str]) -> str:
    scaled = abs(numerator) * 10**decimals
    units = (2 * scaled + denominator) // (2 * denominator)
    whole, part = divmod(units, 10**decimals)
    sign = MINUS if numerator < 0 and units else ""
    point, comma = separators
    return f"{sign}{grouped(whole, comma)}" + (f"{point}{part:0{decimals}d}" if decimals else "")


def grouped(whole: int, comma: str) -> str:
    """A whole number with this between its thousands."""
    return f"{whole:,}".replace(",", comma)


def count(value: Exact) -> str:
    """A whole number: 60,211."""
    return half_up(value, 0)


def units(milli: int) -> str:
    """What a workload asks for or holds: 32, or 0.25 of one device."""
    whole, part = divmod(milli, MILLI)
    point, comma = separators()
    return grouped(whole, comma) + (f"{point}{part:03d}".rstrip("0") if part else "")


def entitled_units(amount: Exact) -> str:
    """An entitlement in units of the cluster, one decimal: 358.4."""
    return half_up(amount, 1)


def unit_word(unit: str, milli: int | None = None) -> str:
    """ "GPU" or "GPUs": the plural unless `milli` is exactly one or a fraction of one device."""
    one, many, _ = UNITS[unit]
    return str(one if milli is not None and 0 < milli <= MILLI else many)


def hours_word(unit: str) -> str:
    """ "GPU-hours" or "core-hours"."""
    return str(UNITS[unit][2])


def amount(milli: int, unit: str) -> str:
    """An amount with its unit: 32 GPUs."""
    return f"{units(milli)}{NBSP}{unit_word(unit, milli)}"


def memory(mib: int) -> str:
    """Memory: 64 GiB where it is whole GiB, else 1,500 MiB."""
    separator = separators()[1]
    whole, rest = divmod(mib, MIB_PER_GIB)
    return f"{grouped(mib, separator)}{NBSP}MiB" if rest or not whole else f"{grouped(whole, separator)}{NBSP}GiB"


def unit_hours(milli_s: Exact) -> str:
    """Device time in hours, whole, for columns: 60,211."""
    return half_up_ratio(milli_s.numerator, milli_s.denominator * MILLI_S_PER_HOUR, 0)


def unit_hours_alone(milli_s: Exact, unit: str) -> str:
    """Device time in a sentence: one decimal below 1,000 (207.3 GPU-hours), whole from there on."""
    hours = Fraction(milli_s) / MILLI_S_PER_HOUR
    decimals = 0 if abs(hours) >= 1_000 or hours == 0 else 1
    return f"{half_up(hours, decimals)}{NBSP}{hours_word(unit)}"


def share(basis_points: int) -> str:
    """A share without its sign: 35.00."""
    return half_up(Fraction(basis_points, 100), 2)


def share_percent(basis_points: int) -> str:
    """A share: 35.00 %."""
    return f"{share(basis_points)}{NARROW_NBSP}%"


def entitlement(fraction: Exact) -> str:
    """An entitlement as a share of the cluster, without its sign: 17.50."""
    return half_up(Fraction(fraction) * 100, 2)


def measured(fraction: Exact | None) -> str:
    """A measured share, one decimal, without its sign: 93.2; a dash where it does not apply."""
    if fraction is None:
        return NOT_APPLICABLE
    exact = fraction if isinstance(fraction, int | Fraction) else Fraction(fraction)
    return half_up_ratio(exact.numerator * 100, exact.denominator, 1)


def measured_percent(fraction: Exact | None) -> str:
    """A measured share: 93.2 %."""
    return NOT_APPLICABLE if fraction is None else f"{measured(fraction)}{NARROW_NBSP}%"


def change(basis_points: int) -> str:
    """A difference of shares: +5.00, −3.00, and 0 without a sign."""
    if basis_points == 0:
        return "0"
    return ("+" if basis_points > 0 else "") + share(basis_points)


def duration(seconds: int) -> str:
    """The two largest units: 4 h 22 min, 15 min, 41 s; seconds stand beside minutes only below 10 min."""
    seconds = max(0, int(seconds))
    minutes, rest_s = divmod(seconds, 60)
    hours, rest_min = divmod(minutes, 60)
    days, rest_h = divmod(hours, 24)
    if days:
        parts = [(days, "d"), (rest_h, "h")]
    elif hours:
        parts = [(hours, "h"), (rest_min, "min")]
    elif minutes:
        parts = [(minutes, "min"), (rest_s if seconds < EXACT_SECONDS_BELOW_S else 0, "s")]
    else:
        return f"{seconds}{NBSP}s"
    return NBSP.join(f"{value}{NBSP}{unit}" for value, unit in parts if value)


def exact_duration(seconds: int) -> str:
    """All units that it needs: 1 d 30 s."""
    parts: list[str] = []
    rest = seconds
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        value, rest = divmod(rest, unit_s)
        if value or (unit == "s" and not parts):
            parts.append(f"{value}{NBSP}{unit}")
    return NBSP.join(parts)


def local(at: datetime) -> datetime:
    """The instant on the organisation's clock."""
    return timezone.localtime(at)


def clock(at: datetime) -> str:
    """The time of day without its zone, for tables whose head names it: 14:20."""
    return f"{local(at):%H:%M}"


def clock_exact(at: datetime) -> str:
    """The time of day to the second, for events: 12:58:41."""
    return f"{local(at):%H:%M:%S}"


def zone(at: datetime | None = None) -> str:
    """The name of the organisation's zone at an instant: CEST."""
    return f"{local(at or datetime.now(UTC)):%Z}"


def time_of_day(at: datetime) -> str:
    """14:20 CEST."""
    return f"{clock(at)}{NBSP}{zone(at)}"


def day(value: date, *, today: date | None = None) -> str:
    """Thu 2 Jul 2026; without the year where it is this one and `today` is given."""
    year = "" if today is not None and today.year == value.year else f"{NBSP}{value.year}"
    return f"{weekday(value)}{NBSP}{value.day}{NBSP}{month(value)}{year}"


def weekday(value: date) -> str:
    """Thu; jue."""
    return f"{value:%a}" if language() == ENGLISH else str(WEEKDAYS_ABBR[value.weekday()])


def month(value: date) -> str:
    """Jul; jul."""
    return f"{value:%b}" if language() == ENGLISH else str(MONTHS_3[value.month])


def short_day(value: date) -> str:
    """25 Jun."""
    return f"{value.day}{NBSP}{month(value)}"


def instant(at: datetime) -> str:
    """Thu 2 Jul 2026, 13:42 CEST."""
    return f"{day(local(at).date())}, {time_of_day(at)}"


def near_instant(at: datetime, now: datetime) -> str:
    """Only the time where the day is that of `now`, else with its day: 14:20 CEST; Fri 3 Jul, 09:00 CEST."""
    on, today = local(at).date(), local(now).date()
    return time_of_day(at) if on == today else f"{day(on, today=today)}, {time_of_day(at)}"


def period(start: datetime, end: datetime) -> str:
    """The half-open period in days: 25 Jun to 2 Jul."""
    return gettext("{start} to {end}").format(start=short_day(local(start).date()), end=short_day(local(end).date()))


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th; in Spanish 1.º."""
    if language() != ENGLISH:
        return f"{count(place)}.º"
    suffix = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"


SMALL_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def spelt(number: int) -> str:
    """A count at the head of a sentence: "eleven"; digits from thirteen on, and where words have genders."""
    return SMALL_NUMBERS[number] if number < len(SMALL_NUMBERS) and language() == ENGLISH else count(number)


def joined(words: Sequence[str]) -> str:
    """ "A", "A and B", "A, B and C"; nothing of none."""
    if len(words) < 2:
        return "".join(words)
    return gettext("{first} and {last}").format(first=", ".join(words[:-1]), last=words[-1])
