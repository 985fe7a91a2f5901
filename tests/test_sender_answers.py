"""Each answer of a backend is one of three, over both protocols, and in time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from compass_otel.delivery import Delivered, Delivery, Rejected, Retry
from receivers import IMMEDIATE, Mode, Receiver, refusal
from receivers.records import MARKER, a_record, send, sender_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compass_otel.delivery import Sender

PROTOCOLS = ("http/protobuf", "grpc")
SHORT_S = 0.3


@pytest.fixture(scope="module", name="shared")
def _shared() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(name="receiver")
def _receiver(shared: Receiver) -> Receiver:
    shared.behave(IMMEDIATE)
    return shared


@pytest.fixture(name="sender", params=PROTOCOLS)
def _sender(receiver: Receiver, request: pytest.FixtureRequest) -> Iterator[Sender]:
    sender = sender_to(receiver, request.param)
    yield sender
    sender.close()


@dataclass(frozen=True)
class Case:
    """An answer, and what it has to mean."""

    mode: Mode
    kind: type[Delivery]
    says: str = ""
    after_s: float | None = None


ANSWERS = {
    "redirect": Case(
        Mode(http_status=302, headers={"location": "http://me:secret@other/v1/traces?key=k"}, grpc_status="UNKNOWN"),
        Retry,
    ),
    "400": Case(refusal(400, "INVALID_ARGUMENT", "no trace id"), Rejected, "no trace id"),
    "413": Case(refusal(413, "RESOURCE_EXHAUSTED", "message larger than max (9 vs. 4)"), Rejected, "larger than max"),
    "422": Case(refusal(422, "INVALID_ARGUMENT", "no"), Rejected),
    "401": Case(refusal(401, "UNAUTHENTICATED", "no key"), Retry, "OTEL_EXPORTER_OTLP_HEADERS"),
    "403": Case(refusal(403, "PERMISSION_DENIED", "not you"), Retry, "OTEL_EXPORTER_OTLP_HEADERS"),
    "404": Case(refusal(404, "UNIMPLEMENTED"), Retry, "check the endpoint"),
    "405": Case(refusal(405, "UNIMPLEMENTED"), Retry, "check the endpoint"),
    "408": Case(refusal(408, "DEADLINE_EXCEEDED"), Retry),
    "429": Case(refusal(429, "RESOURCE_EXHAUSTED", "slow down"), Retry, "slow down"),
    "429 with a wait": Case(refusal(429, "RESOURCE_EXHAUSTED", headers={"retry-after": "7"}), Retry, after_s=7.0),
    "429 with a day's wait": Case(refusal(429, "UNAVAILABLE", headers={"retry-after": "86400"}), Retry, after_s=60.0),
    "500": Case(refusal(500, "INTERNAL", "oops"), Retry, "oops"),
    "502": Case(refusal(502, "UNAVAILABLE"), Retry),
    "503": Case(refusal(503, "UNAVAILABLE", "sending queue is full"), Retry, "sending queue is full"),
    "504": Case(refusal(504, "CANCELLED"), Retry),
    "501": Case(refusal(501, "DATA_LOSS"), Retry),
}


class TestTable:
    """What a backend says in so many words."""

    @pytest.mark.parametrize("name", ANSWERS)
    def test_each_status(self, receiver: Receiver, sender: Sender, name: str) -> None:
        """A refusal is final only when it speaks of the records; what is not final is kept, with a readable reason."""
        case = ANSWERS[name]
        receiver.behave(case.mode)
        delivery = send(sender, a_record())
        assert type(delivery) is case.kind
        assert isinstance(delivery, Retry | Rejected)
        assert case.says in delivery.reason
        assert sender.target in delivery.reason
        assert "\n" not in delivery.reason
        assert "secret" not in delivery.reason
        if isinstance(delivery, Retry):
            assert delivery.after_s == case.after_s

    def test_success_is_delivered(self, receiver: Receiver, sender: Sender) -> None:
        """What was acknowledged is there."""
        record = a_record("arrives", {"k": 1})
        before = len(receiver.keys())
        assert send(sender, record, a_record()) == Delivered()
        assert len(receiver.keys()) == before + 2
        assert {span.name for span in receiver.spans()[before:]} == {"arrives", "span"}

    def test_a_partial_success_says_how_many_were_refused(self, receiver: Receiver, sender: Sender) -> None:
        """The body of a success is read; the number and the text come through."""
        receiver.behave(Mode(rejected=1, marker=MARKER, message="span without a name"))
        assert send(sender, a_record(), a_record(attributes={MARKER: True})) == Delivered(1, "span without a name")

    def test_a_warning_in_a_success_is_kept(self, receiver: Receiver, sender: Sender) -> None:
        """A text without a number refuses nothing."""
        receiver.behave(Mode(message="this key expires soon"))
        assert send(sender, a_record()) == Delivered(0, "this key expires soon")

    def test_a_redirect_names_its_target_and_is_no_success(self, receiver: Receiver) -> None:
        """The new address is in the reason, without its credentials and query."""
        receiver.behave(ANSWERS["redirect"].mode)
        delivery = send(sender_to(receiver, "http/protobuf"), a_record())
        assert isinstance(delivery, Retry)
        assert "http://other/v1/traces" in delivery.reason
        assert "key=k" not in delivery.reason

    def test_secrets_in_an_answer_are_hidden(self, receiver: Receiver, sender: Sender) -> None:
        """A backend that echoes our key does not get it into our texts."""
        receiver.behave(refusal(401, "UNAUTHENTICATED", "bad key sk-ant-REDACTED"))
        delivery = send(sender, a_record())
        assert isinstance(delivery, Retry)
        assert "abcdefghijklmnop" not in delivery.reason


SILENCES = {
    "never answers": Mode("hang"),
    "never says a byte": Mode("silent"),
    "a byte a second": Mode("drip"),
    "answers too late": Mode(delay_s=SHORT_S * 4),
}
BREAKS = {
    "resets": Mode("reset"),
    "half-closes": Mode("half_close"),
    "half an answer": Mode("cut"),
    "garbage": Mode("garbage"),
}


class TestNoAnswer:
    """What a backend does instead of answering."""

    @pytest.mark.parametrize("name", SILENCES)
    def test_silence_ends_at_the_deadline(self, receiver: Receiver, sender: Sender, name: str) -> None:
        """However slowly it does nothing, the caller has its answer in time, and the batch is kept."""
        receiver.behave(SILENCES[name])
        started = time.monotonic()
        delivery = send(sender, a_record(), within_s=SHORT_S)
        assert isinstance(delivery, Retry)
        assert SHORT_S - 0.05 < time.monotonic() - started < SHORT_S + 1.0
        assert re.search(r"within [01]\.\d s", delivery.reason)

    @pytest.mark.parametrize("name", BREAKS)
    def test_a_broken_connection_is_noticed_at_once(self, receiver: Receiver, sender: Sender, name: str) -> None:
        """No waiting for the deadline where the connection says enough."""
        receiver.behave(BREAKS[name])
        started = time.monotonic()
        assert isinstance(send(sender, a_record()), Retry)
        assert time.monotonic() - started < 2.0

    @pytest.mark.parametrize("name", [*SILENCES, *BREAKS])
    def test_the_next_send_works_when_the_backend_does(self, receiver: Receiver, sender: Sender, name: str) -> None:
        """Nothing of a bad connection is left over."""
        receiver.behave({**SILENCES, **BREAKS}[name])
        send(sender, a_record(), within_s=SHORT_S)
        receiver.behave(IMMEDIATE)
        assert send(sender, a_record()) == Delivered()

    def test_a_late_answer_has_stored_the_records(self, receiver: Receiver, sender: Sender) -> None:
        """A retry does not mean that nothing arrived: who re-sends must expect duplicates, and the reason says so."""
        receiver.behave(Mode(delay_s=SHORT_S * 4))
        before = len(receiver.keys())
        delivery = send(sender, a_record(), within_s=SHORT_S)
        assert isinstance(delivery, Retry)
        assert "may have taken" in delivery.reason
        assert len(receiver.keys()) == before + 1

    def test_the_setting_bounds_a_send_too(self, receiver: Receiver) -> None:
        """The time-out of the settings ends a request before a later deadline."""
        receiver.behave(Mode("hang"))
        for protocol in PROTOCOLS:
            started = time.monotonic()
            assert isinstance(send(sender_to(receiver, protocol, timeout_s=0.2), a_record()), Retry)
            assert time.monotonic() - started < 1.0

    def test_no_time_left_is_no_request(self, receiver: Receiver, sender: Sender) -> None:
        """A deadline in the past is a retry at once."""
        before = receiver.counts()
        assert isinstance(sender.send([a_record()], time.monotonic() - 1), Retry)
        assert receiver.counts()["http"] + receiver.counts()["grpc"] == before["http"] + before["grpc"]

    def test_a_closed_sender_keeps_the_batch(self, sender: Sender) -> None:
        """Closing twice is fine; sending afterwards is a retry."""
        sender.close()
        sender.close()
        assert isinstance(send(sender, a_record()), Retry)


@pytest.mark.parametrize("protocol", PROTOCOLS)
class TestDown:
    """A backend that goes away."""

    def test_a_dead_receiver_refuses_and_a_restarted_one_is_found_again(self, protocol: str) -> None:
        """Killed: a retry at once that says so. Back on the same port: delivered at the next send, without a wait."""
        with Receiver() as receiver:
            sender = sender_to(receiver, protocol)
            assert send(sender, a_record()) == Delivered()
            receiver.kill()
            started = time.monotonic()
            for _ in range(3):
                delivery = send(sender, a_record())
                assert isinstance(delivery, Retry)
                assert "connection refused" in delivery.reason
            assert time.monotonic() - started < 1.0
            receiver.restart()
            assert send(sender, a_record()) == Delivered()
            sender.close()

    def test_a_frozen_receiver_costs_the_deadline_and_no_more(self, protocol: str) -> None:
        """The kernel accepts, nobody answers, also when the request is larger than every buffer."""
        with Receiver() as receiver:
            sender = sender_to(receiver, protocol)
            assert send(sender, a_record()) == Delivered()
            receiver.freeze()
            large = [a_record(attributes={"k": "x" * 100_000}) for _ in range(200)]
            assert isinstance(send(sender, a_record(), within_s=SHORT_S), Retry)
            assert isinstance(send(sender, *large, within_s=SHORT_S), Retry)
            receiver.thaw()
            assert send(sender, a_record()) == Delivered()
            sender.close()
