"""The alert rules: for Prometheus, and the same for Grafana's own alerting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from examples.grafana import promql
from examples.grafana.promql import (
    ERROR_TYPE,
    FAILED,
    HOST,
    LANE,
    MODEL,
    NOT_CANCELLED,
    PROVIDER,
    SERVICE,
    grown,
    select,
    total,
)

PAGE: Final = "page"
WARNING: Final = "warning"
_THROTTLED: Final = f'{ERROR_TYPE}=~"rate_limit|overloaded"'
_SPOOL: Final = 'compass_place="spool"'
_PRIORITY_LOST: Final = f'{LANE}="priority", compass_loss!=""'
_TRACES: Final = 'data_type="traces"'


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule.

    Args:
        name: Its name.
        severity: `page`: somebody is called at once; `warning`: somebody looks in the morning.
        why: What it means, in the words that the person on duty reads.
        expr: The query; it gives a series for each thing that is wrong.
        held_for: How long it must be so, as Prometheus writes times.
        remedy: What to do.

    """

    name: str
    severity: str
    why: str
    expr: str
    remedy: str
    held_for: str = "0m"


def _runs(window: str, *matchers: str) -> str:
    return grown(promql.RUNS, select(*matchers), window)


def _failure_share() -> Alert:
    ended = total(_runs("30m", NOT_CANCELLED), SERVICE)
    failed = total(_runs("30m", FAILED), SERVICE)
    return Alert(
        "CompassFailureShare",
        WARNING,
        "{{ $value | humanizePercentage }} of the runs of {{ $labels.service_name }} in the last 30 minutes failed.",
        f"({failed}\n/\n{ended}\n> 0.2)\nand\n{ended}\n>= 5",
        "The table of failed runs tells which kinds, and of which model.",
        "5m",
    )


def _new_kind() -> Alert:
    keys = (SERVICE, PROVIDER, ERROR_TYPE)
    before = f"last_over_time({promql.RUNS}{select(FAILED)}[{promql.LOOKBACK}] offset 1h)"
    return Alert(
        "CompassNewFailureKind",
        WARNING,
        "Runs of {{ $labels.service_name }} fail with {{ $labels.error_type }} at {{ $labels.gen_ai_provider_name }},"
        " which was not seen in the week before.",
        f"{total(_runs('1h', FAILED), *keys)}\n> 0\nunless\nsum by ({', '.join(keys)}) ({before})\n> 0",
        "Open one of its traces: the failed request says status and text.",
    )


def _storm() -> Alert:
    errors = grown(promql.ERRORS, select(f'{promql.KIND}="ERROR"', _THROTTLED), "15m")
    failed = _runs("15m", NOT_CANCELLED, _THROTTLED)
    return Alert(
        "CompassRateLimitStorm",
        WARNING,
        "{{ $labels.gen_ai_provider_name }} turned {{ $value }} requests of {{ $labels.service_name }} away in 15"
        " minutes, and runs failed by it.",
        f"{total(errors, SERVICE, PROVIDER)}\n>= 10\nand\n{total(failed, SERVICE, PROVIDER)}\n> 0",
        "Fewer agents at once, another model, or a higher limit. A storm that retries absorb is on the dashboard only.",
    )


def _refused(name: str, kinds: str, what: str, remedy: str) -> Alert:
    failed = _runs("15m", NOT_CANCELLED, f"{ERROR_TYPE}=~{kinds}")
    expr = f"{total(failed, SERVICE, HOST, PROVIDER, MODEL, ERROR_TYPE)}\n> 0"
    why = f"A run of {{{{ $labels.service_name }}}} failed: {{{{ $labels.gen_ai_provider_name }}}} {what}."
    return Alert(name, PAGE, why, expr, remedy)


def _spool_growing() -> Alert:
    size = f"{promql.QUEUE_SIZE}{select(_SPOOL)}"
    return Alert(
        "CompassSpoolGrowing",
        WARNING,
        "{{ $value }} spans of {{ $labels.service_name }} on {{ $labels.host_name }} wait on disk, and more come.",
        f"sum by ({SERVICE}, {HOST}) (last_over_time({size}[15m]))\n> 0\nand\n"
        f"sum by ({SERVICE}, {HOST}) (delta({size}[15m]))\n> 0",
        "The Collector is out of reach or refuses; `compass-otel doctor` on that host says why. Nothing is lost yet.",
        "5m",
    )


def _priority_loss() -> Alert:
    lost = grown(promql.PROCESSED, select(_PRIORITY_LOST), "15m")
    return Alert(
        "CompassPriorityLoss",
        PAGE,
        "{{ $value }} failures, cancels or run spans of {{ $labels.service_name }} are lost: {{ $labels.error_type }}.",
        f"{total(lost, SERVICE, HOST, ERROR_TYPE)}\n> 0",
        "This must not happen: give the process a spool, a larger one, or a disk with room; see the reason.",
    )


def _silent() -> tuple[Alert, Alert]:
    week_ago = f"sum by ({SERVICE}) (last_over_time({promql.RUNS}[1d] offset 7d))"
    lately = f"sum by ({SERVICE}) (last_over_time({promql.RUNS}[1d]))"
    keys = f"{SERVICE}, {HOST}"
    heard = f"sum by ({keys}) (last_over_time({promql.RUNS}[1d]))"
    return (
        Alert(
            "CompassAgentSilent",
            WARNING,
            "{{ $labels.service_name }} ran on this day a week ago, and sent nothing in the last 24 hours.",
            f"{week_ago}\nunless\n{lately}",
            "Is it switched off, or does it run without telemetry? `compass-otel doctor` where it runs tells.",
        ),
        Alert(
            "CompassExpectedAgentSilent",
            WARNING,
            "{{ $labels.service_name }} on {{ $labels.host_name }} should talk, and sent nothing in the last 24 hours.",
            f"max by ({keys}) (last_over_time(compass:expected_agent[1h]))\nunless\n{heard}",
            "Is it switched off, or does it run without telemetry? `compass-otel doctor` on that host tells.",
        ),
    )


def _collector() -> tuple[Alert, Alert]:
    size = f"max by (instance, exporter) ({promql.collector('exporter_queue_size', _TRACES)})"
    capacity = f"max by (instance, exporter) ({promql.collector('exporter_queue_capacity', _TRACES)})"
    lost = grown(promql.collector("exporter_send_failed_spans"), "", "15m", promql.SHORT_LOOKBACK)
    return (
        Alert(
            "CompassCollectorQueueFilling",
            WARNING,
            "The queue {{ $labels.exporter }} of the Collector {{ $labels.instance }} is"
            " {{ $value | humanizePercentage }} full.",
            f"{size}\n/\n{capacity}\n> 0.8",
            "The backend is down or slow. When the queue is full, senders are told to wait, and keep what they have.",
            "5m",
        ),
        Alert(
            "CompassCollectorGaveUp",
            PAGE,
            "The Collector {{ $labels.instance }} gave up {{ $value }} spans for {{ $labels.exporter }}.",
            f"{total(lost, 'instance', 'exporter')}\n> 0",
            "The backend refused them for good: its log and the Collector's say why.",
        ),
    )


ALERTS: Final[Sequence[Alert]] = (
    _refused(
        "CompassAuthFailure",
        '"auth|permission"',
        "refuses its credentials ({{ $labels.error_type }})",
        "Renew the key or the login, or its rights for {{ $labels.gen_ai_request_model }}.",
    ),
    _refused(
        "CompassBillingFailure",
        '"billing|quota"',
        "wants money ({{ $labels.error_type }})",
        "Top up, or raise the quota.",
    ),
    _priority_loss(),
    _failure_share(),
    _new_kind(),
    _storm(),
    _spool_growing(),
    *_silent(),
    *_collector(),
)


def prometheus_rules() -> dict[str, object]:
    """Give the file for Prometheus."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.held_for,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.why, "description": alert.remedy},
        }
        for alert in ALERTS
    ]
    return {"groups": [{"name": "compass-otel", "interval": "1m", "rules": rules}]}


def grafana_rules() -> dict[str, object]:
    """Give the provisioning file for Grafana's own alerting, which reads the data source with the uid `prometheus`."""
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": "compass-otel",
                "folder": "Agents",
                "interval": "1m",
                "rules": [_grafana_rule(alert) for alert in ALERTS],
            }
        ],
    }


def _grafana_rule(alert: Alert) -> dict[str, object]:
    """Give one rule; a series of the query is a thing that is wrong, whatever its value."""
    query = {
        "refId": "A",
        "relativeTimeRange": {"from": 600, "to": 0},
        "datasourceUid": "prometheus",
        "model": {"refId": "A", "expr": alert.expr, "instant": True, "range": False},
    }
    over = {"type": "gt", "params": [-1]}
    condition = {
        "refId": "C",
        "datasourceUid": "__expr__",
        "model": {"refId": "C", "type": "threshold", "expression": "A", "conditions": [{"evaluator": over}]},
    }
    words = {"summary": alert.why, "description": alert.remedy}
    return {
        "uid": alert.name.lower(),
        "title": alert.name,
        "condition": "C",
        "data": [query, condition],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": alert.held_for,
        "labels": {"severity": alert.severity},
        "annotations": {key: text.replace("$value", "$values.A.Value") for key, text in words.items()},
    }
