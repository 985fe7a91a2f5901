"""The door to the senders: settings in, a `delivery.Sender` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from compass_otel.otlp_settings import OtlpSettings, Protocol, load_settings
from compass_otel.sender_http import HttpSender

if TYPE_CHECKING:
    from compass_otel.delivery import Sender


def make_sender(settings: OtlpSettings | None = None) -> Sender:
    """Make the sender that the settings ask for. Nothing is connected before the first `send`.

    Args:
        settings: From `load_settings`; None = read from the standard variables.

    Returns:
        A sender, for one thread at a time. gRPC is loaded only when asked for.

    Raises:
        ConfigError: A setting cannot work.

    """
    chosen = settings or load_settings()
    match chosen.protocol:
        case Protocol.HTTP:
            return HttpSender(chosen)
        case Protocol.GRPC:
            from compass_otel.sender_grpc import GrpcSender  # noqa: PLC0415 - 90 ms that most do not need

            return GrpcSender(chosen)
        case _:
            assert_never(chosen.protocol)
