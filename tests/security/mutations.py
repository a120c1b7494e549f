"""What is almost right: samples of real input, cut, doubled, mixed, and sprinkled with what breaks readers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

NASTY = (
    *(
        "",
        " ",
        "\0",
        "\n",
        "\r",
        "\r\n",
        "\t",
        ",",
        ";",
        "|",
        "=",
        '"',
        "'",
        "\\",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "-",
        ".",
    ),
    *("0", "-1", "-0", "1e9", "1e999999", "-1e-999999", "9" * 30, "9" * 5_000, "0x10", "1_000", "NaN", "Infinity"),
    *("-inf", "nan", "sNaN", "½", "٣", "1.5", "1,5", "true", "null", "None", "N/A", "(null)"),
    *("\ud800", "\udfff", "\ufeff", "\u2028", "\u202e", "\x1b[31m", "\x85", "\x0c", "\x1c", "é", "😀", "ﬃ" * 9),
    *("=1+1", "@SUM(A1)", "<script>", "%s%n", "../../etc/passwd", "$(id)", "`id`", "; rm -rf", "a" * 3_000),
    *("[" * 2_000, '{"a":' * 2_000, "n[1]" * 2_000, "n[0-99999999]", "2026-02-30", "0001-01-01T00:00:00"),
    *("9999-12-31T23:59:59", "2026-13-01", "99999999999999999-00:00:00", "24:61:61"),
)
"""Each has broken a reader somewhere."""


@st.composite
def mutated(draw: st.DrawFn, samples: Sequence[str]) -> str:
    """A sample after some changes."""
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        until = draw(st.integers(at, min(len(text), at + draw(st.sampled_from((0, 1, 5, 40))))))
        how = draw(st.sampled_from(("put", "replace", "cut", "twice", "other")))
        middle = {
            "put": draw(st.sampled_from(NASTY)) + text[at:until],
            "replace": draw(st.sampled_from(NASTY)),
            "cut": "",
            "twice": text[at:until] * 2,
            "other": draw(st.sampled_from(samples))[at : at + 60],
        }[how]
        text = (text[:at] + middle + text[until:])[:60_000]
    return text


def texts(samples: Sequence[str]) -> st.SearchStrategy[str]:
    """Mutated samples, nasty pieces one after the other, and any text at all."""
    pieces = st.lists(st.sampled_from(NASTY), max_size=6).map("".join)
    return st.one_of(mutated(samples), mutated(samples), pieces, st.text(max_size=200))


def data(samples: Sequence[str]) -> st.SearchStrategy[bytes]:
    """The same as bytes, in several encodings, and any bytes at all."""
    encodings = st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "latin-1"))
    encoded = st.builds(lambda text, name: text.encode(name, "replace"), texts(samples), encodings)
    return st.one_of(encoded, encoded, st.binary(max_size=300))


def values() -> st.SearchStrategy[Any]:
    """Anything that JSON can hold."""
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(), st.sampled_from((0, -1, 2**31, 2**63, 2**64, 10**30)), st.floats(),
        st.text(max_size=20), st.sampled_from(NASTY),
    )  # fmt: skip
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=5,
    )


@st.composite
def changed(draw: st.DrawFn, samples: Sequence[Any]) -> Any:
    """A JSON value that is almost right: some of its parts are others, or gone, or more."""
    value = json.loads(json.dumps(draw(st.sampled_from(samples))))
    for _ in range(draw(st.integers(0, 3))):
        value = _changed_once(draw, value)
    return value


def _changed_once(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        rest = {name: each for name, each in value.items() if name != key}
        how = draw(st.sampled_from(("inside", "gone", "other name")))
        if how == "inside":
            return {**rest, key: _changed_once(draw, value[key])}
        return rest if how == "gone" else {**rest, draw(st.sampled_from(NASTY)): value[key]}
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _changed_once(draw, value[at]), *value[at + 1 :]]
    return draw(values())
