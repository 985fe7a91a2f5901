"""What can be told about the Collector's configuration without the Collector; the rest is in `tests/stack`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "collector-config.yaml"
VARIANTS = sorted((ROOT / "examples" / "collector").glob("*.yaml"))
PROMISED = {
    "OTLP_GRPC_ENDPOINT": "127.0.0.1:4317",
    "OTLP_HTTP_ENDPOINT": "127.0.0.1:4318",
    "TRACES_ENDPOINT": "127.0.0.1:14317",
    "METRICS_ENDPOINT": "http://127.0.0.1:9090/api/v1/write",
    "HEALTH_ENDPOINT": "127.0.0.1:13133",
    "COLLECTOR_METRICS_PORT": "18888",
    "DECISION_WAIT": "30m",
    "DECISION_GRACE": "10s",
    "KEEP_PERCENT": "10",
}

pytestmark = pytest.mark.checkout


def without_comments(path: Path) -> str:
    """Give the file without its comments."""
    return re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def variables(text: str) -> dict[str, set[str]]:
    """Give every environment variable with its defaults; `` where there is none."""
    found: dict[str, set[str]] = {}
    for name, default in re.findall(r"\$\{env:([A-Z_]+)(?::-([^}]*))?\}", text):
        found.setdefault(name, set()).add(default)
    return found


def test_every_variable_has_one_default_and_a_row_in_the_head() -> None:
    """What a deployment changes is a variable, with one default wherever it stands, and the head's table tells both."""
    head = CONFIG.read_text(encoding="utf-8").partition("\nextensions:")[0]
    rows = dict(re.findall(r"^#   ([A-Z_]+) +(\S+)", head, flags=re.MULTILINE))
    assert variables(without_comments(CONFIG)) == {name: {default} for name, default in rows.items()}


def test_the_promised_variables_have_their_defaults() -> None:
    """The variables that documents and other files build on keep their names and their loopback defaults."""
    found = variables(without_comments(CONFIG))
    assert {name: found.get(name) for name in PROMISED} == {name: {default} for name, default in PROMISED.items()}
    assert "COLLECTOR_STATE" in found


def test_nothing_listens_beyond_this_machine_by_default() -> None:
    """Without a variable set, every address is a loopback one."""
    defaults = {default for each in variables(without_comments(CONFIG)).values() for default in each}
    hosts = {host for each in defaults for host in re.findall(r"(?:https?://)?([^/\s:]+):\d+", each)}
    assert hosts == {"127.0.0.1"}
    assert "0.0.0.0" not in without_comments(CONFIG)  # noqa: S104 - looks for it


def test_failures_part_from_the_rest_before_anything_holds_them_in_memory() -> None:
    """The first pipeline neither samples nor batches, the priority one only filters, and both queues are on disk."""
    text = without_comments(CONFIG)
    pipelines = dict(
        re.findall(r"^    (\S+):\n      receivers: .*\n      processors: \[(.*)\]", text, flags=re.MULTILINE)
    )
    assert "tail_sampling" not in pipelines["traces/in"]
    assert "batch" not in pipelines["traces/in"]
    assert pipelines["traces/in"].startswith("memory_limiter")
    assert pipelines["traces/priority"] == "filter/priority_only"
    assert pipelines["traces/rest"] == "tail_sampling, filter/without_priority"
    assert text.count("storage: file_storage/queue") == 2
    assert "fsync: true" in text
    assert "create_directory: true" in text


@pytest.mark.parametrize("path", [CONFIG, *VARIANTS], ids=lambda path: path.name)
def test_queues_are_bounded_in_bytes_and_never_give_up(path: Path) -> None:
    """Every queue on disk counts bytes, is bounded, and is retried without end."""
    text = without_comments(path)
    queues = re.findall(r"storage: file_storage/queue\n +sizer: (\w+)\n +queue_size: (\d+)", text)
    assert len(queues) == text.count("storage: file_storage/queue")
    assert {sizer for sizer, _ in queues} <= {"bytes"}
    if queues:
        assert "max_elapsed_time: 0\n" in text


def test_the_head_names_the_distribution_and_its_oldest_version() -> None:
    """The head says which distribution loads the file, and from which version on."""
    head = CONFIG.read_text(encoding="utf-8").partition("\nextensions:")[0]
    assert "contrib" in head
    assert re.search(r"0\.1\d\d\.0", head)


def test_there_is_a_variant_for_each_way_to_run_it() -> None:
    """TLS with a token, no sampling, and a gateway behind it each have a file, which says how to start it."""
    assert [path.name for path in VARIANTS] == ["behind-a-gateway.yaml", "no-sampling.yaml", "tls-and-token.yaml"]
    for path in VARIANTS:
        assert f"--config=collector-config.yaml --config=examples/collector/{path.name}" in path.read_text("utf-8")
