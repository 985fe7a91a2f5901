"""From a line to a record: the fast typed path for what streams in thousands, the patient one for everything else.

Pi 0.73 repeats the whole message twice in every `message_update`, so its lines grow with the message and a stream with
their square. `decode_update` builds nothing but the delta: `msgspec` skips the rest without making objects of it.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from compass_otel.unmapped import Malformed, Unmapped

UPDATE_PREFIX = b'{"type":"message_update"'
"""How agents begin the records that come in thousands; any other spelling takes the patient path."""

CHUNKED_MAX_BYTES = 64 * 1024 * 1024
"""The largest frame that omp puts together from `rpc_chunk`s (its `maxReassembledFrameBytes`)."""

NOT_JSON = "not JSON"
"""The reason of a line that no reading makes sense of."""

_INT_MAX_DIGITS = 300
"""More digits than any double has: read as infinity, since Python refuses to parse ints over 4,300 digits."""


class TextDeltaWire(Struct, tag_field="type", tag="text_delta", gc=False):
    """Text arrived."""

    delta: str


class ThinkingDeltaWire(Struct, tag_field="type", tag="thinking_delta", gc=False):
    """Reasoning arrived."""

    delta: str


class ToolcallDeltaWire(Struct, tag_field="type", tag="toolcall_delta", gc=False):
    """Arguments of a tool call arrived; the whole call stands in the message's end."""


class TextStartWire(Struct, tag_field="type", tag="text_start", gc=False):
    """A text block began."""


class ThinkingStartWire(Struct, tag_field="type", tag="thinking_start", gc=False):
    """A reasoning block began."""


class ToolcallStartWire(Struct, tag_field="type", tag="toolcall_start", gc=False):
    """A tool call began."""


class TextEndWire(Struct, tag_field="type", tag="text_end", gc=False):
    """A text block is whole."""


class ThinkingEndWire(Struct, tag_field="type", tag="thinking_end", gc=False):
    """A reasoning block is whole."""


class ToolcallEndWire(Struct, tag_field="type", tag="toolcall_end", gc=False):
    """A tool call is whole."""


InnerWire = (
    TextDeltaWire
    | ThinkingDeltaWire
    | ToolcallDeltaWire
    | TextStartWire
    | ThinkingStartWire
    | ToolcallStartWire
    | TextEndWire
    | ThinkingEndWire
    | ToolcallEndWire
)


class UpdateWire(Struct, gc=False):
    """A `message_update`; whatever else it repeats is skipped."""

    inner: InnerWire = msgspec.field(name="assistantMessageEvent")


decode_update = msgspec.json.Decoder(UpdateWire).decode
"""Decode a line that begins with `UPDATE_PREFIX`; raises `msgspec.DecodeError` or `RecursionError` if it is odd."""

_decode_any = msgspec.json.Decoder().decode


def parse(line: bytes | str | Mapping[str, Any]) -> dict[str, Any] | Malformed | None:
    """Turn one line into an object, repaired if need be; None for a blank line. Never raises on input."""
    if type(line) is bytes:
        data = line
    elif isinstance(line, str):
        data = line.encode("utf-8", "surrogatepass")
    elif isinstance(line, Mapping):
        return _from_mapping(line)
    else:
        data = bytes(line)
    try:
        value = _decode_any(data)
    except (msgspec.DecodeError, RecursionError):
        if not data.strip():
            return None
        value = _parse_patiently(data)
    return value if isinstance(value, dict | Malformed) else Malformed("not an object")


def _parse_patiently(data: bytes) -> Any:
    """Read what `msgspec` refuses: lone surrogates, a BOM, invalid UTF-8, control characters, huge numbers, NaN."""
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    text = text.strip("\0\r\n\t ").removeprefix("\ufeff").lstrip("\0\r\n\t ")
    if not text:
        return Malformed("nothing but NUL bytes")
    try:
        value = json.loads(text, strict=False, parse_int=_parse_int)
    except RecursionError:
        return Malformed("nested too deeply")
    except ValueError:
        return Malformed(NOT_JSON)
    repair_strings(value)
    return value


def _parse_int(digits: str) -> int | float:
    if len(digits) > _INT_MAX_DIGITS:
        return float("-inf") if digits.startswith("-") else float("inf")
    return int(digits)


def _from_mapping(record: Mapping[str, Any]) -> dict[str, Any] | Malformed:
    """Take an object that a host parsed; only one with broken strings in it is copied."""
    value = record if isinstance(record, dict) else dict(record)
    if not _has_broken_string(value):
        return value
    try:
        copied = json.loads(json.dumps(value, default=str))
    except (ValueError, TypeError, RecursionError):
        return Malformed(NOT_JSON)
    repair_strings(copied)
    return copied if isinstance(copied, dict) else Malformed("not an object")


def _is_broken(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _has_broken_string(value: Any) -> bool:
    """Look for lone surrogates without recursion; containers that hold themselves are looked at once."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if _is_broken(item):
                return True
        elif isinstance(item, dict | list | tuple) and id(item) not in seen:
            seen.add(id(item))
            if isinstance(item, dict):
                stack.extend(item.keys())
                stack.extend(item.values())
            else:
                stack.extend(item)
    return False


def _repaired(text: str) -> str:
    """Join surrogate pairs, and put U+FFFD where one stands alone."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _is_broken(text) else text


def repair_strings(value: Any) -> None:
    """Make every string inside a freshly parsed value valid, in place, without recursion."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for key in [key for key in item if _is_broken(key)]:
                item[_repaired(key)] = item.pop(key)
            pairs: Any = item.items()
        elif isinstance(item, list):
            pairs = enumerate(item)
        else:
            continue
        for key, inner in list(pairs):
            if isinstance(inner, str):
                item[key] = _repaired(inner)
            elif isinstance(inner, dict | list):
                stack.append(inner)


class ChunkJoiner:
    """Puts omp's `rpc_chunk` frames together again: what is longer than a line may be, in base64 pieces."""

    def __init__(self) -> None:
        self._id: object = None
        self._pieces: list[bytes] = []
        self._bytes = 0

    def add(self, record: dict[str, Any]) -> bytes | Unmapped | None:
        """Take one piece; returns the joined line after the last, None before, `Unmapped` if pieces are missing."""
        index, count, data = record.get("index"), record.get("count"), record.get("data")
        if index == 0:
            self._id, self._pieces, self._bytes = record.get("chunkId"), [], 0
        try:
            piece = base64.b64decode(data, validate=True) if isinstance(data, str) else None
        except (binascii.Error, ValueError):
            piece = None
        if piece is None or record.get("chunkId") != self._id or index != len(self._pieces):
            self._forget()
            return Unmapped("rpc_chunk", "missing_piece")
        self._pieces.append(piece)
        self._bytes += len(piece)
        if self._bytes > CHUNKED_MAX_BYTES:
            self._forget()
            return Unmapped("rpc_chunk", "too_long")
        if not isinstance(count, int) or len(self._pieces) < count:
            return None
        line = b"".join(self._pieces)
        self._forget()
        return line

    def _forget(self) -> None:
        self._id, self._pieces, self._bytes = object(), [], 0
