"""`allot report`: throughput from a shell, and what the portal makes of it."""

from __future__ import annotations

import pytest
from allot.failures import DONE, USAGE

from tests.cli.conftest import Run, World

pytestmark = pytest.mark.django_db
MODEL = ("--parameters", "7e9")


def test_it_says_what_the_portal_makes_of_it(ada: Run, world: World, as_who: object) -> None:
    code = world.lab.taker.code
    done = ada("report", code, "--tokens", "100000", "--seconds", "2.5", *MODEL)
    assert (done.code, done.err) == (DONE, "")
    assert done.out == f"{code}: 40,000 tokens/s; the peak of its devices is not known\n"
    body = '{"peak_tflops": 840, "reason": "H100 at its limit"}'
    assert as_who("ops")("api", "-X", "PUT", "clusters/north/peak", "-d", body).code == DONE  # type: ignore[operator]
    done = as_who("ada")("report", code, "--tokens", "100000", "--seconds", "2.5", *MODEL)  # type: ignore[operator]
    assert done.out == f"{code}: 40,000 tokens/s, MFU 25.00 %\n"
    told = ada("report", code, "--tokens", "0", "--seconds", "5", *MODEL, "--json").json
    assert (told["over_all"]["mfu"], told["peak_tflops"]) == (0.125, 840.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tokens", "-5", "--seconds", "1", *MODEL), "--tokens"),
        (("--tokens", "1.5", "--seconds", "1", *MODEL), "--tokens"),
        (("--tokens", "5", "--seconds", "0", *MODEL), "--seconds"),
        (("--tokens", "5", "--seconds", "nan", *MODEL), "--seconds"),
        (("--tokens", "5", "--seconds", "1", "--parameters", "1e400"), "--parameters"),
    ],
    ids=["negative", "half", "no time", "not a number", "endless"],
)
def test_what_makes_no_sense_is_one_line_that_names_the_option(
    ada: Run, world: World, words: tuple[str, ...], said: str
) -> None:
    done = ada("report", world.lab.taker.code, *words)
    assert (done.code, done.out) == (USAGE, "")
    assert len(done.err.splitlines()) == 1
    assert said in done.err
