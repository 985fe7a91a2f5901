"""The commands' sums: one cumulative series out of many short processes, whatever the processes and the backend do."""

from __future__ import annotations

import json
import multiprocessing
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from compass_otel.delivery import Delivered, Rejected, Retry
from compass_otel.events import Usage
from compass_otel.metric_sums import Service
from compass_otel.recorder_metrics import SessionMetrics
from compass_otel.summed_metrics import (
    DEFAULT_BOUNDS,
    OVERFLOW_ATTRIBUTES,
    Increments,
    Instrument,
    Kind,
    SummedMeterProvider,
    attributes_text,
)
from metrics_support import BILLING, ERRORS, OMP, PI, Backend, Process, last_points, points_of

if TYPE_CHECKING:
    from pathlib import Path

    from compass_otel.delivery import Delivery


@pytest.fixture(name="backend")
def good_backend() -> Backend:
    """Give a backend that takes everything."""
    return Backend()


@pytest.fixture(name="process")
def one_process(tmp_path: Path, backend: Backend) -> Process:
    """Give one command."""
    return Process(tmp_path / "books", backend)


# --- what is measured ---


def test_the_recorders_instruments_add_up() -> None:
    """Counters and histograms of the recorder give sums, counts and the conventions' buckets by attributes."""
    provider = SummedMeterProvider()
    metrics = SessionMetrics(provider)
    facts: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "x": "not picked"}
    for duration_ns in (10_000_000, 11_000_000, 10**12):
        metrics.request_ended(facts, duration_ns, Usage(input=3, output=5))
    metrics.session_error("ERROR", "billing", facts)
    metrics.session_error("ERROR", "billing", facts)
    grown = {(instrument.name, text): growth for instrument, text, growth in provider.take()}
    key = attributes_text({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    duration = grown["gen_ai.client.operation.duration", key]
    assert duration.count == 3
    assert duration.value == pytest.approx(1000.021)
    assert (duration.buckets[0], duration.buckets[1], duration.buckets[-1]) == (1, 1, 1)
    errors = [growth for (name, _), growth in grown.items() if name == ERRORS]
    assert [(growth.value, growth.count) for growth in errors] == [(2, 2)]
    assert not provider.take()


@given(st.lists(st.floats(-1e9, 1e9) | st.integers(-(10**6), 10**6), max_size=30))
def test_a_histogram_counts_every_value_once(values: list[float]) -> None:
    """Each value is in the one bucket whose upper bound is the first that is not below it."""
    provider = SummedMeterProvider()
    histogram = provider.get_meter("t").create_histogram("h")
    for value in values:
        histogram.record(value)
    growths = [growth for _, _, growth in provider.take()]
    if values:
        (growth,) = growths
        assert growth.count == sum(growth.buckets) == len(values)
        for index, bound in enumerate(DEFAULT_BOUNDS):
            assert sum(growth.buckets[: index + 1]) == sum(value <= bound for value in values)


def test_what_no_sum_can_take_is_ignored_and_counted() -> None:
    """A counter never falls; what is no finite number is no measurement; other instruments do nothing."""
    provider = SummedMeterProvider()
    meter = provider.get_meter("t")
    counter, histogram = meter.create_counter("c"), meter.create_histogram("h")
    for amount in (-1, float("nan"), float("inf")):
        counter.add(amount)
    histogram.record(float("nan"))
    meter.create_up_down_counter("u").add(1)
    meter.create_gauge("g").set(1)
    assert provider.ignored == 4
    assert not provider.take()


def test_attributes_name_a_series_whatever_their_order_and_values() -> None:
    """Order does not matter; texts are cut and made valid, so that no series is refused or unbounded in size."""
    assert attributes_text({"a": 1, "b": True}) == attributes_text({"b": True, "a": 1})
    odd = json.loads(attributes_text({"s": "\ud800" + "x" * 999, "n": float("nan"), "l": ("a", 1), "o": None}))
    assert odd == {"s": "?" + "x" * 255, "n": "nan", "l": ["a", 1], "o": "None"}


def test_measurements_in_memory_are_bounded() -> None:
    """Beyond the limit of series, measurements go to the overflow series of their instrument."""
    grown = Increments(max_series=3)
    instrument = Instrument("c", Kind.COUNTER)
    for number in range(10):
        one = SummedMeterProvider()
        one.measured(instrument, 1, {"n": number})
        grown.merge(one.take())
    assert {text: growth.value for _, text, growth in grown}[OVERFLOW_ATTRIBUTES] == 7


# --- sums over processes ---


def test_many_short_processes_make_one_cumulative_series(tmp_path: Path, backend: Backend) -> None:
    """Twenty commands that each count one: one series, one start time, values 1 to 20, times that only go up."""
    for _ in range(20):
        process = Process(tmp_path / "books", backend)
        process.count()
        assert process.send() is None
        process.store.close()
    points = [p for body in backend.bodies for p in points_of(ExportMetricsServiceRequest.FromString(body))]
    assert [point.value for point in points] == [0, *range(1, 21)]
    assert len({point.start_ns for point in points}) == 1
    assert all(isinstance(point.value, int) for point in points)
    assert [point.at_ns for point in points] == sorted({point.at_ns for point in points})
    assert backend.stored.refused == 0


def test_the_first_failure_is_seen_by_increase(tmp_path: Path, backend: Backend) -> None:
    """Of twenty one-shot commands one has a billing failure: its series grows by exactly one."""
    for number in range(20):
        process = Process(tmp_path / "books", backend)
        process.count(attributes=BILLING if number == 13 else {"error.type": "overloaded"})
        process.send()
    assert backend.stored.increase(ERRORS, ("error.type", "billing")) == 1
    assert backend.stored.increase(ERRORS, ("error.type", "overloaded")) == 19


def test_a_series_gets_its_zero_once_and_before_its_first_value(process: Process, backend: Backend) -> None:
    """The 0 comes with the first value, stamped at least a millisecond before it and not before the start."""
    process.count(3)
    process.send()
    zero, first = last_points(backend)
    assert (zero.value, first.value) == (0, 3)
    assert zero.start_ns == first.start_ns <= zero.at_ns <= first.at_ns - 1_000_000
    process.count(2)
    process.send()
    (second,) = last_points(backend)
    assert second.value == 5


def test_a_series_of_a_histogram_gets_a_whole_zero(process: Process, backend: Backend) -> None:
    """The 0 of a histogram has the buckets of its values, all empty."""
    provider = SummedMeterProvider()
    provider.get_meter("t").create_histogram("h", explicit_bucket_boundaries_advisory=[1, 2]).record(1.5)
    grown = provider.take()
    process.add(grown)
    process.send()
    zero, first = last_points(backend)
    assert (zero.value, zero.count, zero.buckets, zero.bounds) == (0, 0, (0, 0, 0), (1, 2))
    assert (first.value, first.count, first.buckets, first.bounds) == (1.5, 1, (0, 1, 0), (1, 2))


@pytest.mark.parametrize("answer", [Retry(None, "refused", in_doubt=False), Rejected("no metrics here")])
def test_what_surely_did_not_arrive_keeps_its_zero(process: Process, backend: Backend, answer: Delivery) -> None:
    """A backend that was down or refused gets 0 and total later, so nothing that failed meanwhile is missed."""
    backend.answer = answer
    process.count()
    problem = process.send()
    assert problem is not None
    assert getattr(answer, "reason", "") in problem
    process.count()
    backend.answer = Delivered()
    assert process.send() is None
    assert [point.value for point in last_points(backend)] == [0, 2]
    assert backend.stored.increase(ERRORS) == 2


def test_a_zero_that_may_have_arrived_is_never_sent_again(process: Process, backend: Backend) -> None:
    """A second 0 after a value looks like a reset and counts everything twice; so there is none."""
    process.count()
    backend.answer = Retry(None, "no answer in time")
    process.send()
    backend.stored.take(last_points(backend))  # it had arrived all the same
    backend.answer = Delivered()
    process.count()
    process.send()
    assert [point.value for point in last_points(backend)] == [2]
    assert backend.stored.increase(ERRORS) == 2


def test_sums_are_kept_by_service(process: Process, backend: Backend) -> None:
    """Each `service.name` has its series and its resource; a namespace tells two of one name apart."""
    spaced = Service.of({"service.name": "pi", "service.namespace": "team"})
    assert spaced.name != PI.name
    process.count(1)
    process.count(5, service=OMP)
    process.send(PI, OMP)
    values = {point.resource["service.name"]: point.value for point in last_points(backend)}
    assert values == {"pi": 1, "omp": 5}
    pi = next(point for point in last_points(backend) if point.resource["service.name"] == "pi")
    assert pi.resource == {"service.name": "pi", "service.instance.id": "one", "host.name": "here"}
    assert pi.scope == "compass_otel"


def test_a_silent_service_is_not_kept_alive_by_others(process: Process, backend: Backend) -> None:
    """A command sends its own services and what others left unsent, nothing else: silence must be heard."""
    process.count()
    process.count(service=OMP)
    process.send(PI)
    assert {point.resource["service.name"] for point in last_points(backend)} == {"pi", "omp"}
    process.count()
    process.send(PI)
    assert {point.resource["service.name"] for point in last_points(backend)} == {"pi"}
    process.send(PI)
    assert [point.value for point in last_points(backend)] == [2]
    before = len(backend.bodies)
    assert process.sender.send(set(), time.monotonic() + 5).series == 0
    assert len(backend.bodies) == before


def test_growth_during_a_sending_is_unsent_afterwards(process: Process, backend: Backend) -> None:
    """What was counted between reading the sums and their arrival goes out with the next sending."""
    process.count()
    unsent = process.sums.unsent({PI.name})
    assert unsent is not None
    process.count()
    process.sums.told(unsent)
    process.sender.send(set(), time.monotonic() + 5)
    assert [point.value for point in last_points(backend)][-1] == 2


def test_times_go_up_whatever_the_clock_does(tmp_path: Path, backend: Backend) -> None:
    """A clock set back, or standing still, gives no sample that a store refuses; one far ahead is not waited for."""
    now = 1_700_000_000_000_000_000
    process = Process(tmp_path / "books", backend, clock_ns=lambda: now)
    for step in (0, 0, -5_000_000_000, 1):
        now += step
        process.count()
        process.send()
    assert backend.stored.refused == 0
    assert backend.stored.increase(ERRORS) == 4
    now += 10**18
    process.count()
    process.send()
    now -= 10**18
    process.count()
    process.send()
    assert last_points(backend)[-1].at_ns < 1_700_000_100_000_000_000


def test_another_commands_sending_is_waited_for(process: Process, backend: Backend) -> None:
    """One process sends at a time; one that waited in vain says so, and loses nothing."""
    process.count()
    lock = metric_sums_lock(process)
    assert lock.acquire()
    report = process.sender.send({PI.name}, time.monotonic() + 0.05)
    assert "another command" in (report.problem or "")
    lock.release()
    assert process.send() is None
    assert [point.value for point in last_points(backend)] == [0, 1]


def metric_sums_lock(process: Process) -> Any:
    """Give the lock that a sender holds."""
    from compass_otel.metrics_sender import _LOCK_FILE  # noqa: PLC0415 - the one test that looks inside
    from compass_otel.spool_owner import FileLock  # noqa: PLC0415 - same

    return FileLock(process.folder / _LOCK_FILE)


def _count_often(folder: Path, times: int) -> None:
    process = Process(folder, Backend())
    for _ in range(times):
        process.count()


def test_processes_that_count_at_once_lose_nothing(tmp_path: Path, backend: Backend) -> None:
    """Four processes add fifty each at the same time: two hundred."""
    folder = tmp_path / "books"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_count_often, args=(folder, 50)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    process = Process(folder, backend)
    process.send()
    assert [point.value for point in last_points(backend)] == [0, 200]
