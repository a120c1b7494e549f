"""What people type into forms is read exactly, or refused with a sentence."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from portal.forms import typed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2 h", 7_200),
        ("45 min", 2_700),
        ("1 h 30 min", 5_400),
        ("1h30m", 5_400),
        ("90", 5_400),
        ("0", 0),
        ("30 s", 30),
        ("1 d", 86_400),
        ("2 Hours", 7_200),
    ],
)
def test_durations(text, seconds):
    assert typed.DurationField().clean(text) == seconds


@pytest.mark.parametrize("text", ["soon", "2 x", "-1 h", "1.5 h", "h"])
def test_what_is_no_duration(text):
    with pytest.raises(ValidationError, match="is not a duration such as 2 h"):
        typed.DurationField().clean(text)


@pytest.mark.parametrize(
    ("text", "points"), [("35.00", 3_500), ("35,5", 3_550), ("100", 10_000), ("0", 0), ("0.01", 1), ("7 %", 700)]
)
def test_shares(text, points):
    assert typed.ShareField().clean(text) == points


@pytest.mark.parametrize("text", ["100.01", "-1", "0.005", "NaN", "Infinity", "1e400", "9e999999", "9e9999999", "ten"])
def test_what_is_no_share(text):
    with pytest.raises(ValidationError, match="is not a share"):
        typed.ShareField().clean(text)


@pytest.mark.parametrize(("text", "milli"), [("8", 8_000), ("0.25", 250), ("0,5", 500)])
def test_amounts(text, milli):
    assert typed.UnitsField().clean(text) == milli


@pytest.mark.parametrize("text", ["eight", "-1", "1.2345", "1e3", "9999999"])
def test_what_is_no_amount(text):
    with pytest.raises(ValidationError, match="is not a number such as 8"):
        typed.UnitsField().clean(text)


def test_commands_are_split_as_a_shell_would_and_nothing_more():
    assert typed.CommandField().clean("python train.py --name 'two words' $HOME; ls") == [
        "python", "train.py", "--name", "two words", "$HOME;", "ls",
    ]  # fmt: skip
    with pytest.raises(ValidationError, match="can't be split into arguments: no closing quotation"):
        typed.CommandField().clean("echo 'open")


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("64 GiB", 65_536),
        ("64G", 65_536),
        ("64", 65_536),
        ("512 MiB", 512),
        ("512mb", 512),
        ("1 t", 1_048_576),
        ("0", 0),
    ],
)
def test_memory(text, mib):
    assert typed.MemoryField().clean(text) == mib


@pytest.mark.parametrize("text", ["much", "-1 G", "1.5 G", "64 KiB", "G"])
def test_what_is_no_memory(text):
    with pytest.raises(ValidationError, match="is not an amount of memory such as 64 GiB"):
        typed.MemoryField().clean(text)
