"""What people write is understood, or refused in words; what they are shown fits their screen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import click
import pytest
from allot import sentences, words
from allot.commands.following import Harmless
from allot.commands.nodes import devices, table_of
from allot.failures import Failure
from allot.screen import Column, Screen, Table, clean, fitting

NOW, LATER = datetime(2026, 11, 30, 14, 0, tzinfo=UTC), datetime(2026, 12, 1, 9, 5, tzinfo=UTC)


def convert(kind: click.ParamType, text: str) -> object:
    """As an option of this kind reads it."""
    return kind.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("90m", 5_400), ("2h", 7_200), ("1h30m", 5_400), ("1h 30min", 5_400), ("1.5h", 5_400), ("45s", 45),
        ("1d", 86_400), ("2W", 1_209_600), ("1-12:00:00", 129_600), ("2:30:00", 9_000), ("0.5m", 30),
    ],
)  # fmt: skip
def test_durations_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert words.seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("90", "say 90m or 90h"), ("1:30", "say 1h30m or 1m30s"), ("", "is not a duration"),
        ("2x", "is not a duration"),
        ("-2h", "is not a duration"), ("2h!", "is not a duration"), ("0.3s", "no whole number of seconds"),
        ("9999w", "longer than ten years"), ("h", "is not a duration"), ("٣h", "is not a duration"),
    ],
)  # fmt: skip
def test_a_duration_that_may_mean_two_things_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        words.seconds(text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (words.Amount(), "8", 8_000), (words.Amount(), "0.25", 250), (words.Percent(), "40%", 4_000),
        (words.Percent(), "12.5 %", 1_250), (words.Percent(), "0", 0), (words.ShareOf(), "A1=40%", ("A1", 4_000)),
        (words.Day(), "2026-11-30", date(2026, 11, 30)),
    ],
)  # fmt: skip
def test_amounts_and_shares_are_exact(kind: click.ParamType, text: str, value: object) -> None:
    assert convert(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (words.Amount(), "0"), (words.Amount(), "-1"), (words.Amount(), "0.0001"), (words.Amount(), "eight"),
        (words.Amount(), "1e3"), (words.Amount(), "9999999999"), (words.Percent(), "100.01"),
        (words.Percent(), "0.001"),
        (words.ShareOf(), "A1"), (words.ShareOf(), "=4%"), (words.Day(), "2026-02-30"), (words.Day(), "soon"),
        (words.Instant(), "25:00"), (words.Instant(), "then"),
    ],
)  # fmt: skip
def test_what_is_no_amount_is_refused_in_words(kind: click.ParamType, text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not"):
        convert(kind, text)


def test_times_are_told_back_from_now_or_by_the_clock() -> None:
    hour_ago = convert(words.Instant(), "1h")
    assert isinstance(hour_ago, datetime)
    assert abs(datetime.now(UTC) - timedelta(hours=1) - hour_ago) < timedelta(seconds=5)
    assert convert(words.Instant(), "2026-11-30T14:00Z") == NOW
    assert convert(words.Day(), "yesterday") == datetime.now().astimezone().date() - timedelta(days=1)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (words.duration(15_720), "4 h 22 min"), (words.duration(86_400), "1 d"), (words.duration(59), "59 s"),
        (words.duration(90), "1 min 30 s"), (words.amount(250), "0.25"), (words.amount(1_024_000), "1,024"),
        (words.hours(3_600_000 * 8), "8.0"), (words.hours(3_600_000 * 1_234), "1,234"), (words.hours(0), "0"),
        (words.percent(Fraction(1, 3)), "33.3 %"), (words.percent(None), "–"), (words.share(3_500), "35.00 %"),
        (words.ordinal(11), "11th"), (words.ordinal(22), "22nd"), (words.half_up(Fraction(-5, 2)), "−3"),
        (words.with_unit(1_000, "gpu"), "1 GPU"), (words.with_unit(0, "core"), "0 cores"),
        (words.clock("2026-12-01T09:05:00Z", NOW), f"{LATER.astimezone():%a %-d %b, %H:%M}"),
    ],
)  # fmt: skip
def test_numbers_are_written_for_people(shown: str, text: str) -> None:
    assert shown == text


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([Fraction(1, 10), Fraction(2, 10)], 1), ([Fraction(1, 1_000), Fraction(14, 10_000)], 2), ([], 1),
        ([Fraction(1, 10), Fraction(1, 10), None], 1), ([Fraction(1, 10**9), Fraction(2, 10**9)], 4),
    ],
)  # fmt: skip
def test_numbers_that_differ_are_shown_to_differ(values: list[Fraction | None], decimals: int) -> None:
    assert words.decimals_of(values) == decimals


def table() -> Table:
    """Two rows, of which one says more than fits."""
    made = Table(
        [
            Column("ID"),
            Column("GPUS", is_number=True),
            Column("RACK", spare=1),
            Column("EMPTY"),
            Column("WHY", is_text=True),
        ]
    )
    made.add(
        "A1-0001", "8", "r1", "", "Others have had less of their share than this one has, all the way up the tree."
    )
    made.add("A1-0002", "16", "r2", "", "short")
    return made


def test_a_table_fits_the_terminal_and_leaves_out_what_can_be_spared(capsys: pytest.CaptureFixture[str]) -> None:
    for width in (160, 80, 60, 40):
        table().show(Screen(width, has_colour=False, has_blocks=True))
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= width
        assert ("RACK" in shown) == (width >= 60)
        assert "EMPTY" not in shown
        assert " ".join(shown.split()).count("A1-000") == 2
        assert "tree." in shown


def test_a_pipe_gets_each_row_whole_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    table().show(Screen(None, has_colour=False, has_blocks=True))
    assert capsys.readouterr().out.splitlines() == [
        "ID       GPUS  RACK  WHY",
        "A1-0001     8  r1    Others have had less of their share than this one has, all the way up the tree.",
        "A1-0002    16  r2    short",
    ]


def test_colours_change_no_column(capsys: pytest.CaptureFixture[str]) -> None:
    made = Table([Column("A"), Column("B")])
    made.add("x", "y", c0="bad", row="dim")
    made.add("longer", "z")
    made.show(Screen(80, has_colour=True, has_blocks=True))
    coloured = capsys.readouterr().out
    assert "\x1b[31mx\x1b[0m" in coloured
    assert click.unstyle(coloured) == "A       B\nx       y\nlonger  z\n"


@pytest.mark.parametrize(
    ("part", "drawn"),
    [
        (0, "··········│   "), (0.5, "█████·····│   "), (1, "██████████│   "), (1.2, "████████████  "),
        (9, "█████████████▶"), (0.46, "████▋·····│   "), (None, ""),
    ],
)  # fmt: skip
def test_a_bar_marks_the_whole_and_says_what_is_beyond_it(part: float | None, drawn: str) -> None:
    assert Screen(80, has_colour=False, has_blocks=True).bar(part) == drawn
    assert Screen(80, has_colour=False, has_blocks=False).bar(part).isascii()


def test_what_others_wrote_moves_no_cursor() -> None:
    assert clean("a\x1b[2Jb\x07\r\nc\u202ed\u00a0e") == "a�[2Jb��\u0020c�d e"
    assert fitting("日本語のなまえ", 7) == "日本語…"
    assert Screen(40, has_colour=False, has_blocks=True).wrapped("日本 語の なまえ", 6) == ["日本", "語の", "なまえ"]


def test_a_log_keeps_its_colours_and_nothing_else_that_a_terminal_obeys() -> None:
    shown = Harmless()
    printed = "\x1b[1;31mred\x1b[0m\r50 %\x1b[A\x1b]0;title\x07\x1b]52;c;YQ==\x1b\\\x1bPq\x1b\\\x1bc\x08\x00\ttab\n"
    assert shown(printed) == "\x1b[1;31mred\x1b[0m\r50 %\x08\ttab\n"
    # A sequence that comes in two parts is one sequence.
    assert shown("x\x1b[3") + shown("2my\x1b]0;ti") + shown("tle\x07z") == "x\x1b[32myz"


def test_a_failure_names_the_option_in_place_of_the_field() -> None:
    errors = [
        ("size_milli", "too many"),
        ("environment.LD_PRELOAD", "not allowed"),
        ("command[2]", "no text"),
        ("", "all"),
    ]
    options = {"size_milli": "--gpus", "environment": "--env", "command": "the command"}
    assert Failure("x", errors=errors).in_words(options) == (
        "--gpus: too many; --env LD_PRELOAD: not allowed; the command (3): no text; all"
    )
    assert Failure("several\nlines").in_words({}) == "several lines"


LATEST = "Tue 1 Dec, 14:00"
FORETOLD = {
    "low_at": "2026-11-30T14:20:00Z", "middle_at": "2026-11-30T15:10:00Z", "high_at": "2026-11-30T18:05:00Z",
    "until": "2026-12-01T14:00:00Z", "draws": 30, "forecasts_known": 340, "forecasts_held": 269,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "Probably between 14:20 and 18:05 UTC; in half of the futures by 15:10 UTC."),
        ({"middle_at": None}, "Probably between 14:20 and 18:05 UTC."),
        (
            {"high_at": None},
            "Probably not before 14:20 UTC, perhaps after Tue 1 Dec, 14:00 UTC; in half of the futures by 15:10 UTC.",
        ),
        (
            {"high_at": None, "middle_at": None},
            f"Probably not before 14:20 UTC, perhaps after {LATEST} UTC; in more than half of the futures not by then.",
        ),
        (
            {"low_at": None, "middle_at": None, "high_at": None},
            "Probably after Tue 1 Dec, 14:00 UTC: in nine of ten futures it has not started by then.",
        ),
    ],
)
def test_a_forecast_is_a_range_in_words(utc: None, changed: dict[str, object], said: str) -> None:
    assert sentences.forecast({**FORETOLD, **changed}, NOW) == said
    assert sentences.record(FORETOLD).endswith("of the last 340 such ranges 79 % held.")


def test_a_promise_is_an_instant_and_how_far_it_is(utc: None) -> None:
    waits = {"min_runtime_s": 3_600, "reason_code": "waiting_capacity",
             "reason": "Waiting: 8 GPUs come free at the instant given."}  # fmt: skip
    told = {"workload": waits, "certain_at": "2026-11-30T14:38:00Z", "forecast": None}
    assert sentences.when(told, NOW) == "It starts at the latest at 14:38 UTC (in 38 min)."
    assert sentences.when({**told, "certain_at": None}, NOW).startswith("When it starts is not certain yet.")
    shown = sentences.reason({**waits, "earliest_start_at": "2026-11-30T14:38:00Z"}, NOW)
    assert shown == "Waiting: 8 GPUs come free by 14:38 UTC."
    assert sentences.off_page("Fewer may fit: try it below.") == "Fewer may fit."


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's clock is UTC's."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("held_milli", "shared", "drawn"),
    [(2_000, [], "##.."), (1_750, [250], "#+.."), (1_500, [0, 500], "#+.."), (250, [750], "+..."), (0, [], "....")],
)
def test_a_device_of_which_a_part_is_free_is_drawn_half(held_milli: int, shared: list[int], drawn: str) -> None:
    row = {"size_milli": 4_000, "held_milli": held_milli, "shared": [{"free_milli": free} for free in shared]}
    screen: Any = SimpleNamespace(has_blocks=False)
    assert devices(screen, row) == drawn
    if not shared:
        assert devices(screen, {"size_milli": 4_000, "held_milli": held_milli}) == drawn  # a portal of before


def test_nodes_show_where_they_are_on_the_network_if_any_says(capsys: pytest.CaptureFixture[str]) -> None:
    plain: dict[str, Any] = {"rack": None, "state": "healthy", "trouble": "", "drain_reason": "", "windows": [],
        "runs": [], "size_milli": 2_000, "held_milli": 0}  # fmt: skip
    placed = {"rack": "r1", "rail": "q1", "leaf": "l1", "gpu_class": "A100"}

    def shown(width: int | None, **more: Any) -> list[list[str]]:
        rows = [plain | {"name": "n1", **more}, plain | {"name": "n2", "rack": more.get("rack")}]
        table_of(Screen(width, has_colour=False, has_blocks=False), rows, "gpu", NOW)
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    assert shown(None, **placed) == [
        ["NODE", "RACK", "RAIL", "LEAF", "CLASS", "STATE", "GPUS"],
        ["n1", "r1", "q1", "l1", "A100", "healthy", "0/2", ".."],
        ["n2", "r1", "healthy", "0/2", ".."],
    ]
    assert shown(None)[0] == ["NODE", "STATE", "GPUS"]
    assert shown(36, **placed)[0] == ["NODE", "RACK", "CLASS", "STATE", "GPUS"]  # the rail goes first, then the leaf
