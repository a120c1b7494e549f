"""Forecasts on the page of a workload: asked for by looking, made by a worker, kept, and laid beside what came true."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

from portal.formats import NBSP, near_instant
from scheduler.models import Forecast, ForecastStart, Pass, Reservation, Run, Workload
from scheduler.queries import forecast, outlook
from scheduler.services import forecasts
from scheduler.services.forecasts import TrackRecord
from tests.portal.test_pages import queries_of, text_of

HOUR = timedelta(hours=1)


def made(lab, **more) -> Forecast:
    """A forecast that has been made."""
    row = forecasts.look(lab.cluster, **more)
    assert row is not None
    assert forecasts.make(row.pk)
    row.refresh_from_db()
    return row


def start_of(row: Forecast, workload) -> ForecastStart:
    return row.starts.get(workload=workload)


# --- making -----------------------------------------------------------------------------------------------------------


def test_everybody_who_waits_is_forecast(lab):
    row = made(lab)
    starts = {each.workload.code: each for each in row.starts.select_related("workload")}
    assert set(starts) == {lab.waits.code, lab.taken.code}
    assert (row.state, row.error, row.draws) == ("finished", "", row.draws_wanted)
    for each in starts.values():
        assert len(each.futures) == row.draws
        known = [at_s for at_s in (each.low_s, each.middle_s, each.high_s) if at_s is not None]
        assert known == sorted(known)


def test_the_present_is_what_the_next_pass_would_see(lab):
    Workload.objects.filter(pk=lab.waits.pk).update(predicted_s=1_234, memory_mib_per_rank=2_048)
    present, loaded = outlook.present(lab.cluster)
    assert set(present.waiting()) == set(loaded.snapshot.queued)
    running = {each.id: dict(each.before.holdings) for each in present.work if not each.waits}
    assert running == {run.workload: dict(run.holdings) for run in loaded.snapshot.runs.values()}
    resumed = next(each for each in present.work if each.id == lab.taken.code)
    assert resumed.before.done_s == lab.taken.progress_s > 0
    assert {node.name for node in present.nodes} == {"n01", "n02"}
    queued, by_code = loaded.snapshot.queued, {each.id: each for each in present.work}
    for code, seen in queued.items():
        each = by_code[code]
        assert (each.predicted_s, each.forgiven_s, each.cpu_milli, each.memory_mib) == (
            seen.service.predicted_s, seen.service.forgiven_s, seen.cpu_milli, seen.memory_mib,
        )  # fmt: skip
    assert by_code[lab.waits.code].predicted_s == 1_234
    assert by_code[lab.waits.code].memory_mib == 2_048
    used = {each.leaf for each in present.history}
    assert used == {"B1"}


def test_many_who_look_have_one_made(lab):
    first = forecasts.look(lab.cluster)
    assert forecasts.look(lab.cluster) == first
    assert forecasts.make(first.pk)
    assert not forecasts.make(first.pk)
    assert forecasts.look(lab.cluster) == first
    assert forecasts.look(lab.cluster, now=timezone.now() + HOUR) != first
    assert Forecast.objects.count() == 2


def test_one_whose_worker_is_lost_is_given_up_and_not_asked_for_at_once(lab):
    first = forecasts.look(lab.cluster)
    late = timezone.now() + HOUR
    found = forecasts.look(lab.cluster, now=late)
    assert (found.pk, found.state) == (first.pk, "failed")
    assert found.error.startswith("No worker answered.")
    assert forecasts.look(lab.cluster, now=late, again=True).pk != first.pk


def test_a_forecast_that_breaks_says_so(lab, monkeypatch):
    def broken(*_args, **_more):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(outlook, "present", broken)
    row = forecasts.look(lab.cluster)
    assert not forecasts.make(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error) == ("failed", "It broke off; the fault has been logged.")


def test_of_older_forecasts_one_an_hour_is_kept(lab):
    now = lab.now.replace(minute=0) - 3 * HOUR
    rows = [
        Forecast.objects.create(
            cluster=lab.cluster, state="finished", asked_at=now + minutes * HOUR / 60, at=now + minutes * HOUR / 60,
            ended_at=now + minutes * HOUR / 60, horizon_s=forecasts.HORIZON_S,
        )
        for minutes in (0, 5, 30, 61, 70)
    ]  # fmt: skip
    Forecast.objects.create(cluster=lab.cluster, state="failed", asked_at=now, ended_at=now, error="x")
    latest = made(lab)
    kept = set(Forecast.objects.values_list("pk", flat=True))
    assert kept == {rows[0].pk, rows[3].pk, latest.pk}


# --- what came true ---------------------------------------------------------------------------------------------------


def told(lab, workload, low_s, high_s, ago=2 * HOUR, horizon_s=86_400) -> ForecastStart:
    """A forecast of a while ago."""
    row = Forecast.objects.create(
        cluster=lab.cluster, state="finished", at=lab.now - ago, ended_at=lab.now - ago, horizon_s=horizon_s, draws=1
    )
    return ForecastStart.objects.create(
        forecast=row, workload=workload, kind="standard", futures=[low_s], low_s=low_s, middle_s=low_s, high_s=high_s
    )


def test_a_start_is_laid_beside_its_range(lab):
    start = Run.objects.get(workload=lab.taker).started_at
    real_s = int((start - (lab.now - 2 * HOUR)).total_seconds())
    wanted = {(-60, 60): "held", (0, 0): "held", (1, 100): "missed", (-100, -1): "missed", (-60, None): "held"}
    rows = {
        (low, high): told(lab, lab.taker, real_s + low, None if high is None else real_s + high) for low, high in wanted
    }
    assert forecasts.settle(lab.cluster) == len(wanted)
    for row in rows.values():
        row.refresh_from_db()
    assert {key: row.outcome for key, row in rows.items()} == wanted
    assert {row.start_s for row in rows.values()} == {real_s}
    assert forecasts.settle(lab.cluster) == 0


def test_who_has_not_started_by_the_horizon_starts_later(lab):
    rows = [told(lab, lab.waits, 10, high, horizon_s=3_600) for high in (20, None)]
    young = told(lab, lab.waits, 10, 20, ago=HOUR / 2)
    assert forecasts.settle(lab.cluster, lab.now) == 2
    outcomes = []
    for row in (*rows, young):
        row.refresh_from_db()
        outcomes.append(row.outcome)
    assert outcomes == ["missed", "held", ""]


def test_who_was_cancelled_counts_for_nothing(lab, as_person):
    row = told(lab, lab.waits, 10, 20)
    as_person(lab.ada).post(f"/workloads/{lab.waits.code}/cancel/", {"reason": "changed my mind"})
    assert forecasts.settle(lab.cluster) == 1
    row.refresh_from_db()
    assert row.outcome == "left"
    assert forecasts.track_record(lab.cluster) == TrackRecord(0, 0)


def test_the_page_says_how_good_forecasts_have_been(lab, as_person):
    for number in range(5):
        row = told(lab, lab.taker, 0, 0, ago=timedelta(days=2, hours=number))
        ForecastStart.objects.filter(pk=row.pk).update(outcome="held" if number else "missed", start_s=0)
    told(lab, lab.taker, 0, 0, ago=HOUR)  # too young to count
    assert forecasts.track_record(lab.cluster) == TrackRecord(5, 4)
    made(lab)
    said = text_of(as_person(lab.ben).get(f"/workloads/{lab.taken.code}/"))
    assert "Of the last 5 forecasts whose end is known, 80 % held; 80 % should." in said


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_asks_shows_progress_then_a_range(lab, as_person):
    client = as_person(lab.ben)
    page, part = f"/workloads/{lab.taken.code}/", f"/workloads/{lab.taken.code}/forecast/"
    assert "A forecast is being made" in text_of(client.get(page))
    htmx = {"HX-Request": "true"}
    waiting = client.get(part, headers=htmx)
    assert (waiting.status_code, "every 3s" in waiting.content.decode()) == (200, True)
    row = Forecast.objects.get()
    Forecast.objects.update(draws=row.draws_wanted // 2)
    assert 'value="50"' in client.get(part, headers=htmx).content.decode()
    Forecast.objects.update(draws=0)
    assert forecasts.make(row.pk)
    done = client.get(part, headers=htmx)
    assert (done.status_code, "every 3s" in done.content.decode()) == (286, False)
    for path in (page, part, "/queue/north/"):
        assert queries_of(client, path) <= 30
    said = text_of(client.get(page))
    assert "Probably" in said
    assert "It is a forecast, no promise." in said
    assert "80 % should hold" in said
    assert "Probably" in client.get(f"{page}text/").content.decode()


def test_a_failed_one_is_said_with_try_again(lab, as_person):
    client = as_person(lab.ben)
    row = forecasts.look(lab.cluster)
    Forecast.objects.filter(pk=row.pk).update(state="failed", ended_at=timezone.now(), error="It broke off.")
    said = text_of(client.get(f"/workloads/{lab.taken.code}/"))
    assert "The last forecast failed: It broke off. Try again" in said
    assert Forecast.objects.count() == 1
    answer = client.post(f"/workloads/{lab.taken.code}/forecast/again/")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/workloads/{lab.taken.code}/")
    assert Forecast.objects.filter(state="waiting").count() == 1


def promise(lab) -> Reservation:
    """Devices that are reserved for one that waits, in an hour."""
    return Reservation.objects.create(
        workload=lab.waits, cluster=lab.cluster, starts_at=lab.now + HOUR, holdings={"n01": 8_000},
        made_in=Pass.objects.latest("pk"), made_at=lab.now,
    )  # fmt: skip


def test_what_does_not_wait_or_was_promised_has_none(lab, as_person):
    promise(lab)
    assert "When it may start" not in text_of(as_person(lab.ben).get(f"/workloads/{lab.taker.code}/"))
    said = text_of(as_person(lab.ben).get(f"/workloads/{lab.waits.code}/"))
    assert "When it may start" not in said
    latest = near_instant(lab.now + HOUR + timedelta(seconds=60), lab.now).replace(NBSP, " ")
    assert f"It starts at the latest at {latest} , in" in said
    assert Forecast.objects.count() == 0


def test_a_forecast_of_an_earlier_wait_is_not_shown(lab):
    row = told(lab, lab.taken, 10, 20)
    assert not forecast.of_workload(lab.taken, row.forecast.at + timedelta(seconds=1), lab.now).is_known
    assert forecast.of_workload(lab.taken, row.forecast.at, lab.now).at == row.forecast.at


def test_the_api_gives_the_range(lab, as_person):
    client = as_person(lab.ben)
    path = f"/api/v1/workloads/{lab.taken.code}/explain/"
    assert client.get(path).json()["forecast"] is None
    row = Forecast.objects.get()
    assert forecasts.make(row.pk)
    given = client.get(path).json()
    assert given["forecast"]["draws"] == row.draws_wanted
    assert given["certain_at"] is None
    promise(lab)
    promised = client.get(f"/api/v1/workloads/{lab.waits.code}/explain/").json()
    instants = [datetime.fromisoformat(promised[name]) for name in ("promised_at", "certain_at")]
    assert instants == [lab.now + HOUR, lab.now + HOUR + timedelta(seconds=60)]
