"""The committed files of the dashboards and of the starting stack: as the script makes them, whole, and fitting."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from grafana.panels import DASHBOARDS, TEMPO_DASHBOARDS, load, panels, variables
from grafana.yaml_files import GRAFANA, ROOT, STACK, read, rules_in
from stack.build import JAEGER
from stack.programs import CONFIG, validate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.checkout

BY_GRAFANA = re.compile(r"__\w+")
EVERY_DASHBOARD = [*DASHBOARDS, *TEMPO_DASHBOARDS]
MADE = ("dashboards", "dashboards-tempo", "grafana-alerting")
COMPOSE = read(STACK / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def shown(path: Path) -> str:
    """Name a test by its file."""
    return str(path.relative_to(GRAFANA))


def test_the_committed_files_are_what_the_script_makes(tmp_path: Path) -> None:
    """Nobody changed a made file by hand, none is missing and none is left over."""
    subprocess.run(
        [sys.executable, "-m", "examples.grafana.build", str(tmp_path)],
        check=True, cwd=ROOT, capture_output=True, timeout=60,
    )  # fmt: skip
    made = {path.relative_to(tmp_path): path.read_text("utf-8") for path in tmp_path.rglob("*.*")}
    committed = {
        path.relative_to(GRAFANA): path.read_text("utf-8") for folder in MADE for path in (GRAFANA / folder).iterdir()
    }
    rules = (GRAFANA / "rules" / "compass.yaml").relative_to(GRAFANA)
    assert made == {**committed, rules: (GRAFANA / rules).read_text("utf-8")}


@pytest.mark.parametrize("path", EVERY_DASHBOARD, ids=shown)
def test_a_dashboard_is_whole(path: Path) -> None:
    """Panels have ids, titles and words of their own, do not cover each other, and use only variables that exist."""
    dashboard = load(path)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert ids == list(range(1, len(ids) + 1))
    titles = [panel.json["title"] for panel in panels(path)]
    assert len(titles) == len(set(titles))
    assert all(panel.json["description"] for panel in panels(path))
    known = {each["name"] for each in dashboard["templating"]["list"]}
    used = {name for name in variables(json.dumps(dashboard)) if not BY_GRAFANA.match(name)}
    assert used <= known
    squares = [square for panel in dashboard["panels"] for square in _squares(panel["gridPos"])]
    assert len(squares) == len(set(squares))


def _squares(place: dict[str, int]) -> list[tuple[int, int]]:
    columns = range(place["x"], place["x"] + place["w"])
    assert columns.stop <= 24
    return [(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])]


def test_dashboards_do_not_clash() -> None:
    """Both sets have the same dashboards, each under a uid of its own, so that links between them hold in either."""
    uids = [[load(path)["uid"] for path in each] for each in (DASHBOARDS, TEMPO_DASHBOARDS)]
    assert uids[0] == uids[1]
    assert len(set(uids[0])) == len(DASHBOARDS) == 3
    targets = {
        match for path in EVERY_DASHBOARD for match in re.findall(r"\"/d/([\w-]+)\?", path.read_text(encoding="utf-8"))
    }
    assert targets <= set(uids[0])


@pytest.mark.parametrize("path", EVERY_DASHBOARD, ids=shown)
def test_filters_and_ways_to_the_traces(path: Path) -> None:
    """Runs are filtered by service, host, model and provider, an agent by host; each of their panels has a link."""
    names = {each["name"] for each in load(path)["templating"]["list"]}
    wanted = {
        "runs.json": {"service", "host", "model", "provider"},
        "agent.json": {"service", "host", "conversation", "trace"},
        "pipeline.json": {"service", "host", "collector"},
    }
    assert wanted[path.name] <= names
    if path.name != "pipeline.json":
        without = [panel.json["title"] for panel in panels(path) if not panel.links]
        assert without in ([], ["Cost", "The run"])


@pytest.mark.parametrize("path", TEMPO_DASHBOARDS, ids=shown)
def test_the_variant_for_tempo_names_no_jaeger(path: Path) -> None:
    """Its links ask Tempo, in TraceQL."""
    text = path.read_text(encoding="utf-8")
    assert "jaeger" not in text.lower()
    links = [link["url"] for panel in panels(path) for link in panel.links if link["url"].startswith("/explore")]
    assert all("resource.service.name%20%3D" in url and "${tempo}" in url for url in links)
    assert bool(links) == (path.name != "pipeline.json")


def test_no_metric_is_asked_for_by_conversation() -> None:
    """A conversation's id is in traces alone: as a label it would make a series of each."""
    asked = [t["expr"] for path in EVERY_DASHBOARD for p in panels(path) for t in p.targets if "expr" in t]
    assert not any("conversation" in expr for expr in asked)


def test_grafana_alerting_has_the_same_rules() -> None:
    """The rules for Grafana's own alerting ask what those for Prometheus ask, under the same names."""
    (group,) = read(GRAFANA / "grafana-alerting" / "compass.yaml")["groups"]
    both = {rule["title"]: rule for rule in group["rules"]}
    assert {title: rule["data"][0]["model"]["expr"] for title, rule in both.items()} == {
        rule["alert"]: rule["expr"] for rule in rules_in("compass.yaml")
    }
    for rule in both.values():
        refs = [each["refId"] for each in rule["data"]]
        assert rule["condition"] in refs
        assert len(rule["uid"]) <= 40
        assert rule["noDataState"] == "OK"
    assert len({rule["uid"] for rule in both.values()}) == len(both)


@pytest.mark.parametrize("folder", ["datasources", "tempo"])
def test_data_sources_are_those_that_dashboards_and_alerts_name(folder: str) -> None:
    """Exemplars and correlations lead to data sources that the same file makes; alerts find `prometheus`."""
    sources = read(GRAFANA / "provisioning" / folder / "compass.yaml")["datasources"]
    uids = {each["uid"]: each["type"] for each in sources}
    assert all(uid == kind for uid, kind in uids.items())
    named = set(re.findall(r"'datasourceUid': '(\w+)'", str(sources)))
    assert named == set(uids)


def test_compose_is_what_compose_files_are() -> None:
    """The file holds against the schema of Compose files."""
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", STACK / "compose.yaml"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_images_are_pinned_and_nothing_listens_beyond_this_machine() -> None:
    """Each image has a full version, each port is published on loopback, each volume is declared."""
    for service in SERVICES.values():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    used = {mount.partition(":")[0] for service in SERVICES.values() for mount in service["volumes"]}
    assert {name for name in used if not name.startswith(".")} == set(COMPOSE["volumes"])


def test_every_file_that_is_mounted_exists() -> None:
    """What a container finds under its path is in the repository, and is only read."""
    mounts = [mount for service in SERVICES.values() for mount in service["volumes"] if mount.startswith(".")]
    assert len(mounts) == 7
    for mount in mounts:
        source, _, mode = mount.split(":")
        assert (STACK / source).exists(), source
        assert mode == "ro"


def test_grafana_gets_the_variables_that_its_files_read() -> None:
    """Each `$NAME` in the provisioning files is set for the container, and leads where another container is."""
    given = SERVICES["grafana"]["environment"]
    text = "".join(
        (GRAFANA / "provisioning" / folder / "compass.yaml").read_text(encoding="utf-8")
        for folder in ("datasources", "dashboards")
    )
    read_there = set(re.findall(r": \$([A-Z_]+)", text))
    assert read_there == {"PROMETHEUS_URL", "JAEGER_URL", "DASHBOARDS"}
    assert read_there <= set(given)
    hosts = {re.sub(r"https?://([\w-]+):\d+.*", r"\1", given[name]) for name in ("PROMETHEUS_URL", "JAEGER_URL")}
    assert hosts <= set(SERVICES)
    assert given["DASHBOARDS"] in {mount.split(":")[1] for mount in SERVICES["grafana"]["volumes"]}


@pytest.mark.stack
def test_the_collector_takes_its_configuration_with_these_variables() -> None:
    """`otelcol validate` accepts it with the environment of the container, and warns of nothing."""
    done = validate(CONFIG, environment=SERVICES["collector"]["environment"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.stack
def test_jaeger_takes_its_configuration() -> None:
    """`jaeger validate` accepts it with the environment of the container."""
    done = subprocess.run(
        [str(JAEGER), "validate", f"--config={STACK / 'jaeger.yaml'}"],
        capture_output=True, text=True, check=False, timeout=60, env=SERVICES["jaeger"]["environment"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.stack
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """`promtool check config` accepts it, with the rules where the container has them."""
    text = (STACK / "prometheus.yaml").read_text(encoding="utf-8").replace("/etc/prometheus/rules", str(tmp_path))
    (tmp_path / "compass.yaml").write_text((GRAFANA / "rules" / "compass.yaml").read_text("utf-8"), encoding="utf-8")
    config = tmp_path / "config"
    config.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["promtool", "check", "config", str(config)], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout
