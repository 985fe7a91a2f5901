"""How a receiver behaves: one frozen value, sent to the receiver process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

Kind = Literal["answer", "hang", "silent", "reset", "half_close", "cut", "garbage", "drip"]
RAW_KINDS: frozenset[Kind] = frozenset({"silent", "reset", "half_close", "cut", "garbage", "drip"})
"""Below the protocol: the gRPC port does these on its TCP connections."""


@dataclass(frozen=True)
class Mode:
    """What the receiver does with a request.

    Args:
        kind: `answer` (by the fields below), `hang` (takes the request, never answers), `silent` (never says a byte,
            not even a protocol greeting), `reset` (RST), `half_close` (FIN, goes on reading), `cut` (half an answer,
            then closes), `garbage` (bytes of no protocol), `drip` (a right answer at one byte a second).
        delay_s: Wait before the answer.
        store: Keep the spans; None = only where the answer is a success.
        http_status: HTTP status of the answer.
        grpc_status: Name of the gRPC status, such as `UNAVAILABLE`.
        message: What the answer says: the text of the error, or of the partial success.
        headers: More headers of the HTTP answer; `retry-after` also becomes the gRPC `RetryInfo`.
        body: Body of the HTTP answer; None = what the OTLP specification says.
        rejected: Partial success: how many spans it says were refused (with `marker`: those that carry it).
        marker: Only requests that hold a span with this attribute key are treated so, the others are taken.
        limit_bytes: Only requests larger than this are treated so, the others are taken.
        times: For so many requests, then back to immediate success; None = until told otherwise.

    """

    kind: Kind = "answer"
    delay_s: float = 0.0
    store: bool | None = None
    http_status: int = 200
    grpc_status: str = "OK"
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    rejected: int = 0
    marker: str | None = None
    limit_bytes: int | None = None
    times: int | None = None

    @property
    def succeeds(self) -> bool:
        """The answer is a success, on both protocols."""
        return self.kind == "answer" and 200 <= self.http_status < 300 and self.grpc_status == "OK"

    def encode(self) -> str:
        """Give the mode as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Mode:
        """Read what `encode` gave."""
        return cls(**json.loads(text))


IMMEDIATE = Mode()


def refusal(http_status: int, grpc_status: str, message: str = "", **more: object) -> Mode:
    """Refuse with these statuses; `more` are fields of `Mode`."""
    return Mode(http_status=http_status, grpc_status=grpc_status, message=message, **more)  # type: ignore[arg-type]
