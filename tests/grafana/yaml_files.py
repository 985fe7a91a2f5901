"""Reads the YAML files of the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).parent.parent.parent
GRAFANA: Final = ROOT / "examples" / "grafana"
STACK: Final = ROOT / "examples" / "stack"
RULES: Final = GRAFANA / "rules"


def read(path: Path) -> Any:
    """Give what a file says."""
    return YAML(typ="safe", pure=True).load(path)


def rules_in(name: str) -> list[dict[str, Any]]:
    """Give the rules of a file for Prometheus."""
    return [rule for group in read(RULES / name)["groups"] for rule in group["rules"]]
