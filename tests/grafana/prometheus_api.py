"""Asks a real Prometheus, as Grafana does."""

from __future__ import annotations

import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Found:
    """One series of an answer: its labels, and its values that are numbers."""

    labels: dict[str, str]
    values: tuple[float, ...]


class PrometheusApi:
    """Asks one Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def at(self, expr: str, *, later_s: float = 0.0) -> list[Found]:
        """Evaluate a query now, or as if so many seconds had passed."""
        data = self._ask("query", query=expr, time=str(time.time() + later_s))
        return [_found(each["metric"], [each["value"]]) for each in data["result"]]

    def over(self, expr: str, seconds: float = 300.0) -> list[Found]:
        """Evaluate a query over the last so many seconds."""
        now = time.time()
        data = self._ask("query_range", query=expr, start=str(now - seconds), end=str(now), step="15")
        return [_found(each["metric"], each["values"]) for each in data["result"]]

    def exemplars(self, expr: str) -> list[dict[str, str]]:
        """Give the labels of the exemplars of the last five minutes."""
        now = time.time()
        data = self._ask("query_exemplars", query=expr, start=str(now - 300), end=str(now))
        return [exemplar["labels"] for each in data for exemplar in each["exemplars"]]

    def values_of(self, label: str, selector: str) -> list[str]:
        """Give the values of a label."""
        return list(self._ask(f"label/{label}/values", **{"match[]": selector}))

    def evaluated_since(self, moment_s: float) -> bool:
        """Tell whether all rules were evaluated after a moment (seconds since 1970)."""
        groups = self._ask("rules")["groups"]
        return all(datetime.fromisoformat(group["lastEvaluation"]).timestamp() > moment_s for group in groups)

    def firing(self) -> set[str]:
        """Name the alerts that fire."""
        return {each["labels"]["alertname"] for each in self._ask("alerts")["alerts"] if each["state"] == "firing"}

    def _ask(self, what: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{what}?{query}", timeout=_LIMIT_S) as answer:  # noqa: S310 - loopback
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.read().decode()}: {parameters}") from error


def _found(labels: dict[str, str], samples: list[tuple[float, str]]) -> Found:
    numbers = (float(value) for _, value in samples)
    return Found(labels, tuple(number for number in numbers if math.isfinite(number)))
