"""The sliding window against a plain sum over seconds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine import Window

SPANS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 60), st.integers(1, 40)), max_size=8)


def naive(spans: list[tuple[int, int, int]], lookback_s: int, now_s: int) -> int:
    """What spans (amount, from, length) add up to inside [now - lookback, now)."""
    return sum(
        amount
        for amount, from_s, length_s in spans
        for second in range(from_s, from_s + length_s)
        if now_s - lookback_s <= second < now_s
    )


@given(SPANS, st.integers(1, 50), st.lists(st.integers(0, 130), min_size=1, max_size=6))
def test_equals_a_sum_over_seconds(spans: list[tuple[int, int, int]], lookback_s: int, asked: list[int]) -> None:
    window = Window(lookback_s, 0)
    changes = [(from_s, amount) for amount, from_s, _ in spans]
    changes += [(from_s + length_s, -amount) for amount, from_s, length_s in spans]
    for at_s, change in sorted([*changes, *((at_s, 0) for at_s in asked)]):
        total = window.bring_to(at_s)
        if change:
            window.hold(change)
        else:
            assert total == naive(spans, lookback_s, at_s)


@given(SPANS, st.integers(1, 50), st.integers(0, 60))
def test_a_past_told_at_once_is_forgotten_second_by_second(
    spans: list[tuple[int, int, int]], lookback_s: int, later_s: int
) -> None:
    now_s = 100
    window = Window(lookback_s, now_s)
    for amount, from_s, length_s in spans:
        window.add_past(amount, from_s, from_s + length_s)
    assert window.bring_to(now_s + later_s) == naive(spans, lookback_s, now_s + later_s)


def test_a_run_known_since_its_start_is_clipped_at_the_edge() -> None:
    window = Window(10, 100)
    window.hold_since(8, 95)
    window.hold_since(1, 50)
    assert window.bring_to(100) == 8 * 5 + 1 * 10
    assert window.bring_to(103) == 8 * 8 + 1 * 10
    assert window.bring_to(110) == 8 * 10 + 1 * 10
