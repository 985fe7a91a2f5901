"""Dashboard 3: the pipeline's own health. Whatever is lost on the way is counted, and stands here."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from examples.grafana import frame, promql
from examples.grafana.panels import ORANGE, RED, Column, Panel, Query, Say, bars, lines, number, rows
from examples.grafana.promql import LANE, PER_SERVICE_AND_HOST, RANGE, STEP, collector, grown, named, select, total

UID: Final = "compass-pipeline"
_PRIORITY: Final = f'{LANE}="priority"'
_TRACE: Final = f'{LANE}="trace"'
_LOST: Final = 'compass_loss!=""'
_SPOOL: Final = 'compass_place="spool"'
_INSTANCE: Final = 'instance=~"$collector"'
_WHO: Final = named(promql.SERVICE, promql.HOST)


def build_pipeline() -> dashboard.Dashboard:
    """Build it; it has no links to traces, since what is told here is about those that never came."""
    about = "The way from agents to backends: lanes, losses, the spool, and the Collector's queues."
    variables = [
        *frame.service_and_host("target_info"),
        frame.picked("collector", "otelcol_process_uptime", "instance"),
    ]
    made = frame.begin(UID, "Agents: pipeline health", about, None, variables)
    _totals(made)
    made.with_row(build.Row("In the agents' processes: two lanes"))
    _lanes(made)
    made.with_row(build.Row("In the Collector"))
    _collector(made)
    return frame.number_panels(made)


def _processed(window: str, *matchers: str) -> str:
    return grown(promql.PROCESSED, select(PER_SERVICE_AND_HOST, *matchers), window)


def _totals(made: build.Dashboard) -> None:
    service = promql.SERVICE
    say = Say("Priority spans lost", "Failures, cancels and run spans: one lost is a broken promise.", 6)
    lost = total(_processed(RANGE, _PRIORITY, _LOST), service)
    made.with_panel(number(say, Query(lost, named(service)), bad_above=1))
    say = Say("Other spans lost", "Tolerated: the oldest go when the queue is full.", 6)
    made.with_panel(number(say, Query(total(_processed(RANGE, _TRACE, _LOST), service), named(service))))
    say = Say("Waiting in spools", "Kept on disk until they are delivered.", 6)
    made.with_panel(number(say, Query(_queued(service, matchers=(_SPOOL,)), named(service))))
    say = Say("Refused by the Collector", "Senders keep them and come again.", 6)
    refused = total(grown_collector("receiver_refused_spans", RANGE), "receiver")
    made.with_panel(number(say, Query(refused, named("receiver"))))


def _queued(*by: str, matchers: tuple[str, ...] = ()) -> str:
    return total(f"{promql.QUEUE_SIZE}{select(PER_SERVICE_AND_HOST, *matchers)}", *by)


def grown_collector(name: str, window: str, *matchers: str) -> str:
    """Give how much a counter of the Collector grew."""
    return grown(collector(name, _INSTANCE, *matchers), "", window, promql.SHORT_LOOKBACK)


def _lanes(made: build.Dashboard) -> None:
    delivered = total(_processed(STEP, 'compass_loss=""'), promql.SERVICE, LANE)
    say = Say("Delivered", "Spans that a backend or a Collector acknowledged.")
    made.with_panel(bars(say, Query(delivered, named(promql.SERVICE, LANE))))
    lost = total(_processed(STEP, _LOST), promql.SERVICE, LANE, "compass_loss", promql.ERROR_TYPE)
    legend = named(promql.SERVICE, LANE, "compass_loss", promql.ERROR_TYPE)
    say = Say("Lost, by lane and reason", "Red: the priority lane.")
    made.with_panel(bars(say, Query(lost, legend, {"trace": ORANGE, "priority": RED})))
    waiting = _queued(promql.SERVICE, promql.HOST, LANE, "compass_place")
    say = Say("Waiting", "Spans in memory and in the spool. A spool that grows: the Collector is out of reach.")
    made.with_panel(lines(say, Query(waiting, named(promql.SERVICE, promql.HOST, LANE, "compass_place"))))
    size = _queued(promql.SERVICE, promql.HOST, matchers=(_TRACE,))
    capacity = total(f"{promql.QUEUE_CAPACITY}{select(PER_SERVICE_AND_HOST)}", promql.SERVICE, promql.HOST)
    say = Say("Queue of the trace lane", "How full it is; when it is full, the oldest go.")
    made.with_panel(lines(say, Query(f"{size} / {capacity}", _WHO), unit="percentunit"))
    resent = total(grown(promql.RESENT, select(PER_SERVICE_AND_HOST), STEP), promql.SERVICE, LANE)
    notices = total(grown(promql.NOTICES, select(PER_SERVICE_AND_HOST), STEP), promql.SERVICE, "compass_notice")
    made.with_panel(
        bars(
            Say("Sent again, and warnings", "Sendings that had to be repeated; warnings of the processor, by kind."),
            Query(resent, f"sent again: {named(promql.SERVICE, LANE)}"),
            Query(notices, f"warning: {named(promql.SERVICE, 'compass_notice')}"),
        )
    )
    made.with_panel(_last_heard())


def _last_heard() -> Panel:
    newest = f"timestamp({promql.RUNS}{select(PER_SERVICE_AND_HOST)})"
    heard = f"{newest} or max_over_time({newest}[{promql.SHORT_LOOKBACK}:1m])"
    expr = f"time() - max by ({promql.SERVICE}, {promql.HOST}) ({heard})"
    return rows(
        Say("Last heard of", "Agents that sent a metric in the last day, and how long ago."),
        [Column(promql.SERVICE, "Service"), Column(promql.HOST, "Host")],
        [(Column("ago", "Ago", "s"), expr)],
    )


def _collector(made: build.Dashboard) -> None:
    received = total(grown_collector("receiver_accepted_spans", STEP), "receiver", "transport")
    refused = total(grown_collector("receiver_refused_spans", STEP), "receiver", "transport")
    made.with_panel(
        bars(
            Say("Spans received", "Refused ones stay with their senders, which come again."),
            Query(received, "accepted, {{receiver}} {{transport}}"),
            Query(refused, "refused, {{receiver}} {{transport}}", {"refused": ORANGE}),
        )
    )
    by = "exporter"
    sent = total(grown_collector("exporter_sent_spans", STEP), by)
    traces = 'data_type="traces"'
    none = f"{total(collector('exporter_queue_size', _INSTANCE, traces), by)} * 0"
    failed = total(grown_collector("exporter_send_failed_spans", STEP), by)
    full = total(grown_collector("exporter_enqueue_failed_spans", STEP), by)
    made.with_panel(
        bars(
            Say("Spans sent on", "Given up or turned away: for `otlp_grpc/priority` both must stay at 0."),
            Query(sent, "sent, {{exporter}}"),
            Query(f"{failed} or {none}", "given up, {{exporter}}", {"given up": RED}),
            Query(f"{full} or {none}", "turned away, queue full, {{exporter}}", {"turned away": ORANGE}),
        )
    )
    size = total(collector("exporter_queue_size", _INSTANCE), "instance", by)
    capacity = total(collector("exporter_queue_capacity", _INSTANCE), "instance", by)
    made.with_panel(
        lines(
            Say("Queues", "How full they are. On disk for traces; when one is full, senders are told to wait."),
            Query(f"{size} / {capacity}", named("instance", by)),
            unit="percentunit",
        )
    )
    _sampling(made)


def _sampling(made: build.Dashboard) -> None:
    kept = total(grown_collector("processor_tail_sampling_global_count_traces_sampled", STEP), "sampled")
    early = f"sum({grown_collector('processor_tail_sampling_sampling_trace_dropped_too_early', STEP)})"
    held = f"sum({collector('processor_tail_sampling_sampling_traces_on_memory', _INSTANCE)})"
    made.with_panel(
        bars(
            Say("Runs sampled", "Whole traces kept or thinned; failed runs are kept, and run spans always are."),
            Query(kept, "kept: {{sampled}}"),
            Query(early, "decided too early"),
        )
    )
    made.with_panel(lines(Say("Traces that wait for a decision", "In memory."), Query(held, "traces")))
    memory = total(collector("process_memory_rss", _INSTANCE), "instance")
    up = f"min by (instance) ({collector('process_uptime', _INSTANCE)})"
    made.with_panel(lines(Say("Memory", "Of the Collector."), Query(memory, "{{instance}}"), unit="bytes"))
    made.with_panel(lines(Say("Up since", "A fall is a restart."), Query(up, "{{instance}}"), unit="s"))
