"""How numbers, instants and durations are written: a table of examples for each."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fractions import Fraction

import pytest
from django.test import override_settings
from django.utils import timezone

from portal import formats
from portal.templatetags import allotment

HOUR = formats.MILLI_S_PER_HOUR


@pytest.mark.parametrize(
    ("write", "value", "wanted"),
    [
        (formats.count, 60_211, "60,211"),
        (formats.count, Fraction(5, 2), "3"),
        (formats.count, Fraction(-1, 3), "0"),
        (formats.units, 32_000, "32"),
        (formats.units, 250, "0.25"),
        (formats.units, 1_024_000, "1,024"),
        (formats.entitled_units, Fraction(3_584, 10), "358.4"),
        (formats.entitled_units, Fraction(1, 3), "0.3"),
        (formats.unit_hours, 60_211 * HOUR, "60,211"),
        (formats.share, 3_500, "35.00"),
        (formats.share, 1, "0.01"),
        (formats.share_percent, 3_500, "35.00\u202f%"),
        (formats.entitlement, Fraction(7, 40), "17.50"),
        (formats.measured, Fraction(932, 1_000), "93.2"),
        (formats.measured, None, "–"),
        (formats.measured_percent, Fraction(1_015, 1_000), "101.5\u202f%"),
        (formats.measured_percent, None, "–"),
        (formats.change, 500, "+5.00"),
        (formats.change, -300, "\u22123.00"),
        (formats.change, 0, "0"),
        (formats.duration, 0, "0\u00a0s"),
        (formats.duration, 41, "41\u00a0s"),
        (formats.duration, 90, "1\u00a0min\u00a030\u00a0s"),
        (formats.duration, 900, "15\u00a0min"),
        (formats.duration, 2_699, "44\u00a0min"),
        (formats.duration, 15_720, "4\u00a0h\u00a022\u00a0min"),
        (formats.duration, 7_200, "2\u00a0h"),
        (formats.duration, 259_200, "3\u00a0d"),
        (formats.duration, 270_000, "3\u00a0d\u00a03\u00a0h"),
        (formats.ordinal, 1, "1st"),
        (formats.ordinal, 12, "12th"),
        (formats.ordinal, 23, "23rd"),
        (formats.spelt, 11, "eleven"),
        (formats.spelt, 13, "13"),
        (formats.short_day, date(2026, 6, 25), "25\u00a0Jun"),
        (formats.day, date(2026, 7, 2), "Thu\u00a02\u00a0Jul\u00a02026"),
        (allotment.exit_words, -15, "signal 15"),
        (allotment.exit_words, 1, "exit 1"),
        (allotment.bare_reason, "Waiting: two projects come first.", "Two projects come first."),
        (allotment.bar_value, Fraction(1, 2), "50.0"),
        (allotment.ratio, None, "–"),
        (allotment.ratio, 0.5, "50.0"),
    ],
)
def test_one_value(write, value, wanted):
    assert write(value) == wanted


@pytest.mark.parametrize(
    ("milli_s", "unit", "wanted"),
    [
        (int(207.3 * HOUR), "gpu", "207.3\u00a0GPU-hours"),
        (60_211 * HOUR, "gpu", "60,211\u00a0GPU-hours"),
        (0, "core", "0\u00a0core-hours"),
    ],
)
def test_hours_alone(milli_s, unit, wanted):
    assert formats.unit_hours_alone(milli_s, unit) == wanted


@pytest.mark.parametrize(
    ("milli", "unit", "wanted"),
    [
        (1_000, "gpu", "1\u00a0GPU"),
        (32_000, "gpu", "32\u00a0GPUs"),
        (500, "gpu", "0.5\u00a0GPU"),
        (2_000, "core", "2\u00a0cores"),
    ],
)
def test_amounts(milli, unit, wanted):
    assert formats.amount(milli, unit) == wanted


@pytest.fixture
def berlin():
    """The organisation's clock is Berlin's."""
    with override_settings(TIME_ZONE="Europe/Berlin"):
        timezone.get_default_timezone.cache_clear()
        yield
    timezone.get_default_timezone.cache_clear()


def test_times_stand_on_the_organisations_clock_with_its_zone(berlin):
    now = datetime(2026, 7, 2, 11, 42, tzinfo=UTC)
    assert formats.instant(now) == "Thu\u00a02\u00a0Jul\u00a02026, 13:42\u00a0CEST"
    assert formats.near_instant(datetime(2026, 7, 2, 12, 20, tzinfo=UTC), now) == "14:20\u00a0CEST"
    assert formats.near_instant(datetime(2026, 7, 2, 22, 5, tzinfo=UTC), now) == "Fri\u00a03\u00a0Jul, 00:05\u00a0CEST"
    assert formats.clock_exact(datetime(2026, 12, 2, 11, 58, 41, tzinfo=UTC)) == "12:58:41"
    assert formats.zone(datetime(2026, 12, 2, tzinfo=UTC)) == "CET"


def test_a_sentence_that_only_points_at_an_instant_gets_it():
    at = datetime.now(UTC)
    text = "Waiting: the GPUs are inside contracts. 8 GPUs come free at the instant given."
    assert allotment.reason_at(text, at).endswith(f"come free by {formats.time_of_day(at)}.")
    assert allotment.reason_at(text, None) == text


def test_a_sparkline_needs_two_known_points():
    assert "polyline" not in allotment.spark([None, Fraction(1)], "x")
    drawn = allotment.spark([Fraction(1, 2), None, Fraction(1)], "Delivered")
    assert 'aria-label="Delivered: from 50 to 100"' in drawn
    assert drawn.count(",") == 2


def test_memory_is_in_gib_where_it_is_whole():
    assert [formats.memory(mib) for mib in (512, 1_024, 1_536, 2_097_152)] == [
        "512\u00a0MiB", "1\u00a0GiB", "1,536\u00a0MiB", "2,048\u00a0GiB"
    ]  # fmt: skip
