"""Protobuf wire format of the OTLP values we write: varints, text, attributes; every value made valid on the way.

Written by hand because building protobuf message objects is over 95 % of what the official encoder costs. Keys repeat
in every span, so their bytes are cached, bounded. Pure functions but for that cache: safe in every thread and process.

What another encoder refuses becomes something it takes: a lone surrogate or NUL becomes U+FFFD, an integer beyond 64
bit its decimal text, an object of no OTLP type its `str()`. One odd value costs that value its form, never its batch.
"""
# ruff: noqa: PLR2004 - the wire format is numbers

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

_MAX_CACHED_KEYS: Final = 4096  # attribute keys are few; a host that makes them up must not grow us
_MAX_CACHED_KEY_CHARS: Final = 256
_MAX_DEPTH: Final = 24  # decoders stop at 100 nested messages; one level of a value costs up to three
_MAX_INT: Final = 2**63 - 1
_MIN_INT: Final = -(2**63)
_MAX_UINT64: Final = 2**64 - 1
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
_REPLACEMENT: Final = "�".encode()
_UNREADABLE: Final = "<unreadable value>"

_SMALL: Final = tuple(bytes((number,)) for number in range(128))
pack_double: Final = struct.Struct("<d").pack
pack_fixed64: Final = struct.Struct("<Q").pack
pack_fixed32: Final = struct.Struct("<I").pack

# KeyValue.value holding a string of n bytes: tag 2, length, tag 1, length. Short ones from a table.
_SHORT_TEXT: Final = 126
_TEXT_HEADS: Final = tuple(bytes((0x12, size + 2, 0x0A, size)) for size in range(_SHORT_TEXT))
_TRUE: Final = b"\x12\x02\x10\x01"
_FALSE: Final = b"\x12\x02\x10\x00"
_EMPTY_VALUE: Final = b"\x12\x00"

_keys: dict[str, bytes] = {}


def varint(number: int) -> bytes:
    """Encode a number from 0 to 2**64 - 1."""
    if number < 0x80:
        return _SMALL[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode the varint at a position.

    Returns:
        The number and the position behind it.

    Raises:
        IndexError: The data ends within it.

    """
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        shift += 7
    return number, position + 1


def field(tag: bytes, content: bytes) -> bytes:
    """Encode a length-delimited field, empty or not."""
    return tag + varint(len(content)) + content


def text(value: str) -> bytes:
    """Encode text as valid UTF-8 without NUL: lone surrogates and NUL become U+FFFD, surrogate pairs their character.

    NUL is valid UTF-8, but databases behind collectors refuse it, and with it the batch.
    """
    try:
        data = value.encode()
    except AttributeError:
        return text(text_of(value))  # the SDK takes any object as a name
    except UnicodeEncodeError:
        data = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    return data.replace(b"\x00", _REPLACEMENT) if 0 in data else data


def time_ns(value: int | None) -> bytes:
    """Encode a wall time in nanoseconds; one that does not fit is moved to the nearest that does."""
    try:
        return pack_fixed64(value)
    except struct.error:
        return pack_fixed64(min(max(int(value or 0), 0), _MAX_UINT64))


def key_prefix(key: Any) -> bytes:
    """Encode `KeyValue.key`, from the cache where it can be."""
    prefix = _keys.get(key)
    if prefix is None:
        prefix = field(b"\x0a", text(key if isinstance(key, str) else text_of(key)))
        if len(prefix) <= _MAX_CACHED_KEY_CHARS and isinstance(key, str):
            if len(_keys) >= _MAX_CACHED_KEYS:
                _keys.clear()
            _keys[key] = prefix
    return prefix


def append_attributes(out: list[bytes], tag: bytes, attributes: Mapping[str, Any]) -> None:
    """Append each attribute as a repeated `KeyValue` field.

    Args:
        out: Pieces of the message so far.
        tag: Tag byte of the repeated field.
        attributes: Any mapping; values of any type.

    """
    keys = _keys
    for key, value in attributes.items():
        prefix = keys.get(key) or key_prefix(key)
        kind = type(value)
        if kind is str:
            data = text(value)
            size = len(data)
            if size < _SHORT_TEXT:
                out += (tag, varint(len(prefix) + 4 + size), prefix, _TEXT_HEADS[size], data)
                continue
            tail = value_field(b"\x0a" + varint(size) + data)
        elif kind is int:
            tail = _int_tail(value)
        elif kind is bool:
            tail = _TRUE if value else _FALSE
        elif kind is float:
            tail = b"\x12\x09\x21" + pack_double(value)
        else:
            tail = value_field(_any_value(value, 0))
        out += (tag, varint(len(prefix) + len(tail)), prefix, tail)


def attribute(tag: bytes, key: str, value: Any) -> bytes:
    """Encode one attribute as one `KeyValue` field."""
    out: list[bytes] = []
    append_attributes(out, tag, {key: value})
    return b"".join(out)


def value_field(any_value: bytes) -> bytes:
    """Encode `KeyValue.value`."""
    return b"\x12" + varint(len(any_value)) + any_value


def _int_tail(value: int) -> bytes:
    if 0 <= value < 0x80:
        return b"\x12\x02\x18" + _SMALL[value]
    return value_field(_int_value(value))


def _int_value(value: int) -> bytes:
    if _MIN_INT <= value <= _MAX_INT:
        return b"\x18" + varint(value & _MASK64)
    return field(b"\x0a", text_of(value).encode())


def _any_value(value: Any, depth: int) -> bytes:  # noqa: PLR0911 - one return for each case of the oneof
    """Encode an `AnyValue`; types as the official encoder tells them apart, and a text for whatever it refuses."""
    if value is None:
        return b""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, str):
        return field(b"\x0a", text(str.__str__(value)))
    if isinstance(value, int):
        return _int_value(int(value))
    if isinstance(value, float):
        return b"\x21" + pack_double(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return field(b"\x3a", bytes(value))
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return field(b"\x32", b"".join(_pairs(value, depth)))
        if isinstance(value, Sequence | AbstractSet):
            return field(b"\x2a", b"".join(field(b"\x0a", _any_value(item, depth + 1)) for item in tuple(value)))
    return field(b"\x0a", text(text_of(value)))


def _pairs(value: Mapping[Any, Any], depth: int) -> list[bytes]:
    return [
        field(b"\x0a", key_prefix(key if type(key) is str else text_of(key)) + value_field(_any_value(item, depth + 1)))
        for key, item in tuple(value.items())
    ]


def text_of(value: Any) -> str:
    """Give the text of any object. Its own `__str__` runs here, so whatever that raises is caught."""
    try:
        if isinstance(value, int):
            return str(value) if abs(value) < 1 << 4096 else hex(value)
        return str(value)
    except Exception:  # noqa: BLE001 - boundary: code of the host's object
        return _UNREADABLE
