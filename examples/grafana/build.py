"""Writes the dashboards and the alert rules; the files are committed, this is how they are made and changed.

Run, from the root of the repository: python -m examples.grafana.build [FOLDER]
Needs: pip install 'grafana-foundation-sdk==1769699379!11.6.0'
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from examples.grafana.agent_dashboard import build_agent
from examples.grafana.pipeline_dashboard import build_pipeline
from examples.grafana.rules import grafana_rules, prometheus_rules
from examples.grafana.runs_dashboard import build_runs
from examples.grafana.traces import Jaeger, Tempo

_HERE: Final = Path(__file__).parent
_MADE: Final = "# Made by build.py in examples/grafana; change it there.\n"


def files() -> Iterator[tuple[str, str]]:
    """Give every file: its path below this folder, and its text."""
    for folder, store in (("dashboards", Jaeger()), ("dashboards-tempo", Tempo())):
        yield f"{folder}/runs.json", _json(build_runs(store))
        yield f"{folder}/agent.json", _json(build_agent(store))
        yield f"{folder}/pipeline.json", _json(build_pipeline())
    yield "rules/compass.yaml", _MADE + _yaml(prometheus_rules())
    yield "grafana-alerting/compass.yaml", _MADE + _yaml(grafana_rules())


def _json(dashboard: Dashboard) -> str:
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _yaml(value: object, indent: str = "") -> str:
    """Write what the rules are made of: mappings, lists, texts, numbers. Longer texts stand as blocks."""
    match value:
        case Mapping():
            return "".join(f"{indent}{key}:{_yaml_item(item, indent)}" for key, item in value.items())
        case list():
            items = (_yaml(item, indent + "  ") for item in value)
            return "".join(f"{indent}- {item[len(indent) + 2 :]}" for item in items)
        case _:
            return f"{indent}{json.dumps(value, ensure_ascii=False)}\n"


def _yaml_item(item: object, indent: str) -> str:
    match item:
        case str() if "\n" in item:
            return " |-\n" + "".join(f"{indent}  {line}\n" for line in item.splitlines())
        case Mapping() | list():
            return "\n" + _yaml(item, indent + "  ")
        case _:
            return f" {json.dumps(item, ensure_ascii=False)}\n"


def main() -> None:
    """Write all files, into this folder or the one that is named."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else _HERE
    for name, text in files():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
