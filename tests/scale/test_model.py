"""The model of sizes, and the files of `examples/scale`: what can be told about them without starting anything."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from types import ModuleType

ROOT: Final = Path(__file__).parent.parent.parent
EXAMPLE: Final = ROOT / "examples" / "scale"
pytestmark = pytest.mark.checkout


def load_model() -> ModuleType:
    """Load the script, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("scale_model", EXAMPLE / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


model: Any = load_model()
MEASURED: Any = model.Measured(
    host_cpu_s=0.0005,
    kafka_cpu_s=0.0002,
    consumer_cpu_s=0.0002,
    host_cpu_s_per_mib=0.25,
    kafka_cpu_s_per_mib=0.125,
    consumer_cpu_s_per_mib=0.0,
    host_rss_mib=80.0,
    host_spans_per_s=1_000.0,
    held_bytes=3_000.0,
    span_bytes=500.0,
)

TEXT_MIB: Final = 1 - 500 / (1 << 20)
"""What a span of a MiB has more than a measured one."""


def test_a_fleet_worked_out_by_hand() -> None:
    """100 agents, 36 runs an hour each, 10 spans a run: every size is what pencil and paper give."""
    fleet = model.Fleet(
        agents=100,
        agents_per_host=10,
        runs_per_hour=36.0,
        run_s=100.0,
        spans_per_run=10,
        priority_per_run=2.0,
        failed_share=0.1,
        keep_percent=50.0,
        peak=2.0,
        span_bytes=1 << 20,
        grace_s=10.0,
        retention_hours=1.0,
        backend_ms=100.0,
        consumer_memory_mib=2_048,
    )
    sizes = model.size(fleet, MEASURED)
    assert sizes.spans_per_s == pytest.approx(20.0)  # 100 agents x 36/3600 runs/s x 2 x 10 spans
    assert sizes.priority_per_s == pytest.approx(4.0)
    assert sizes.hosts == 10
    assert sizes.host_cores == pytest.approx(2.0 * (0.0005 + 0.25 * TEXT_MIB) * 2)
    assert sizes.host_share == pytest.approx(2.0 / 1_000)
    assert sizes.kafka_mib_per_s == pytest.approx(24.0 / 3)
    assert sizes.kafka_cores == pytest.approx(24.0 * (0.0002 + 0.125 * TEXT_MIB) * 3 * 2)
    assert sizes.kafka_disk_gib == pytest.approx(12.0 / 3 * 3600 * 3 / 1024)
    assert sizes.host_disk_mib_per_hour == pytest.approx(12.0 / 10 * 3600)
    # 20 spans/s, 60 s each, a MiB and a little: 1,200 MiB and more in what may be half of 2 GiB.
    assert sizes.consumers == 2
    assert sizes.partitions == 4
    assert sizes.stored_spans_per_s == pytest.approx(4.0 + 16.0 * 0.55)
    assert sizes.spool_mib_per_agent_hour == pytest.approx(72.0)


@given(agents=st.integers(1, 1_000_000), runs_per_hour=st.floats(0.1, 500.0), run_s=st.floats(1.0, 3_600.0))
def test_more_agents_never_need_less(agents: int, runs_per_hour: float, run_s: float) -> None:
    """Twice the agents need at least as much of everything, and two consumers are the least, so that one can die."""
    fleet = model.Fleet(agents=agents, runs_per_hour=runs_per_hour, run_s=run_s)
    once, twice = model.size(fleet, MEASURED), model.size(replace(fleet, agents=2 * agents), MEASURED)
    for name in ("spans_per_s", "hosts", "kafka_mib_per_s", "kafka_cores", "kafka_disk_gib", "partitions", "consumers"):
        assert getattr(twice, name) >= getattr(once, name), name
    assert once.consumers >= 2
    assert once.partitions >= 2 * once.consumers


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"agents": 10}, "one may die"),
        ({"agents": 200_000, "run_s": 1.0, "grace_s": 0.0}, "CPU"),
        ({"agents": 200_000, "span_bytes": 20_000}, "memory"),
        ({"agents": 200_000, "spans_per_run": 1, "consumer_memory_mib": 65_536}, "runs at once"),
    ],
)
def test_the_model_says_what_decides_about_consumers(change: dict[str, Any], because: str) -> None:
    """The number of consumers comes with the need that set it."""
    assert model.size(model.Fleet(**change), MEASURED).consumers_because == because


def test_every_field_of_a_fleet_is_an_option() -> None:
    """What the model is told is told on the command line, and comes out in the table."""
    options = [text for each in fields(model.Fleet) for text in (f"--{each.name.replace('_', '-')}", "7")]
    assert set(vars_of(model.parse(options)).values()) == {7}


def vars_of(fleet: Any) -> dict[str, float]:
    """Give the fields of a fleet."""
    return {each.name: getattr(fleet, each.name) for each in fields(fleet)}


def test_the_readme_shows_what_the_model_says() -> None:
    """The table of the README is the one that the command prints from the committed figures."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "model.py")], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() in (EXAMPLE / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_what_was_measured() -> None:
    """No priority record was missing under any measured load, and each row of figures stands in the README."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    rows = YAML(typ="safe").load(model.MEASURED.read_text(encoding="utf-8"))["rows"]
    assert [row["priority_missing"] for row in rows] == [0] * len(rows)
    for row in rows:
        assert f"| {row['load']} | {row['spans_per_s']:,.0f} |" in text


def load_yaml(path: Path) -> Any:
    """Read a YAML file of one document."""
    return YAML(typ="safe").load(path)


def test_consumers_decide_as_one_collector_does() -> None:
    """Sampling and the split of lanes are the same on many hosts as on one: none drifts from collector-config.yaml."""
    one, many = load_yaml(ROOT / "collector-config.yaml"), load_yaml(EXAMPLE / "consumer.yaml")
    for name in ("tail_sampling", "filter/without_priority", "memory_limiter"):
        assert many["processors"][name] == one["processors"][name]


def test_nothing_between_kafka_and_backend_gives_a_failure_up() -> None:
    """The priority way acknowledges to Kafka only what the backend took: no queue, no sampling, no end of trying."""
    host, consumer = load_yaml(EXAMPLE / "host.yaml"), load_yaml(EXAMPLE / "consumer.yaml")
    receiver = consumer["receivers"]["kafka/priority"]
    assert receiver["message_marking"] == {"after": True, "on_error": False, "on_permanent_error": False}
    assert receiver["error_backoff"]["max_elapsed_time"] == 0
    assert consumer["service"]["pipelines"]["traces/priority"] == {
        "receivers": ["kafka/priority"],
        "exporters": ["otlp_grpc/priority"],
    }
    assert consumer["exporters"]["otlp_grpc/priority"]["sending_queue"] == {"enabled": False}
    for name in ("kafka/priority", "kafka/spans"):
        exporter = host["exporters"][name]
        assert exporter["producer"]["required_acks"] == "all"
        assert exporter["retry_on_failure"]["max_elapsed_time"] == 0
        assert exporter["sending_queue"]["storage"] == "file_storage/queue"
    assert host["exporters"]["kafka/spans"]["partition_traces_by_id"] is True


@pytest.mark.parametrize("name", ["host", "consumers", "agent"])
def test_what_must_not_be_lost_is_on_a_disk_that_outlives_the_pod(name: str) -> None:
    """In every manifest the state folder lies in a mounted volume of the node or of a claim, never in the container."""
    first, *_ = YAML(typ="safe").load_all((EXAMPLE / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8"))
    pod = first["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    state = environment.get("COLLECTOR_STATE") or environment["COMPASS_OTEL_STATE"]
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    (volume,) = [mounts[path] for path in mounts if Path(state).is_relative_to(path)]
    claims = {each["metadata"]["name"] for each in first["spec"].get("volumeClaimTemplates", [])}
    on_node = {each["name"] for each in pod["volumes"] if "hostPath" in each}
    assert volume in claims | on_node


_CONFIGURED_BY: Final = {
    "host": ("collector-config.yaml", "examples/scale/host.yaml"),
    "consumers": ("examples/scale/consumer.yaml",),
}


@pytest.mark.parametrize("name", _CONFIGURED_BY)
def test_manifests_name_what_the_configuration_reads(name: str) -> None:
    """Variables of the manifests are ones that the configuration files read, and these are started by their names."""
    files = _CONFIGURED_BY[name]
    text = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
    first, *_ = YAML(typ="safe").load_all((EXAMPLE / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8"))
    (container,) = first["spec"]["template"]["spec"]["containers"]
    names = {each["name"] for each in container["env"]} - {"NODE_IP"}
    assert {each for each in names if f"${{env:{each}" not in text} == set()
    assert [argument.rpartition("/")[2] for argument in container["args"]] == [Path(file).name for file in files]


def test_consumers_keep_their_partitions() -> None:
    """Partitions go by the name of a consumer, and wait for its return: what is handed about loses its decisions."""
    receiver = load_yaml(EXAMPLE / "consumer.yaml")["receivers"]["kafka/spans"]
    assert receiver["group_rebalance_strategies"] == ["range"]
    assert receiver["group_instance_id"] == "${env:CONSUMER_NAME:-consumer-0}"
