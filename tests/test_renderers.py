"""Renderers: notes stand where each host's format allows a message, and change nothing before them."""

from __future__ import annotations

import copy
import functools
import json
import os
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_scenes import AUTH_NOTE, HERE, TRANSIENT_NOTE, UNAUTHORISED, at, command, good, listed, stamp, user
from compass_otel.advisor import ErrorAdvisor, Note
from compass_otel.renderers import (
    HostFormat,
    render,
    render_anthropic,
    render_openai_chat,
    render_openai_responses,
    render_pi,
    render_text,
    takes_note,
)

pydantic: Any = pytest.importorskip("pydantic")
typing_extensions: Any = pytest.importorskip("typing_extensions")
openai_chat: Any = pytest.importorskip("openai.types.chat")
openai_responses: Any = pytest.importorskip("openai.types.responses")
anthropic_types: Any = pytest.importorskip("anthropic.types")
anthropic_beta: Any = pytest.importorskip("anthropic.types.beta")


def notes(count: int = 1) -> tuple[Note, ...]:
    """Give one or two notes."""
    advisor = ErrorAdvisor()
    if count > 1:
        advisor.observe(command(1))
    return advisor.advise([user(0), listed(1, UNAUTHORISED), user(3)], HERE, at(4))


CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CHAT: dict[str, list[Any]] = {
    "one question": [{"role": "user", "content": "Hi"}],
    "system first": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "developer first": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    "tool result last": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "text"},
    ],
    "old function result last": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "text"},
    ],
    "answer last": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
    "nothing": [],
}
CHAT_WAITING: dict[str, list[Any]] = {
    "call last": CHAT["tool result last"][:2],
    "one of two answered": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL, {**CHAT_CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "text"},
    ],
    "old function call last": CHAT["old function result last"][:2],
}

FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
RESPONSES: dict[str, list[Any]] = {
    "question": [{"role": "user", "content": "Hi"}],
    "typed question": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    "answered call": [FUNCTION_CALL, {"type": "function_call_output", "call_id": "c1", "output": "text"}],
    "result of an earlier response": [{"type": "function_call_output", "call_id": "c9", "output": "text"}],
    "answered shell call": [
        {
            "type": "local_shell_call",
            "id": "x",
            "call_id": "c1",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "local_shell_call_output", "id": "c1", "output": "text"},
    ],
    "answered approval": [
        {"type": "mcp_approval_request", "id": "m1", "name": "t", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True},
    ],
    "nothing": [],
}
RESPONSES_WAITING: dict[str, list[Any]] = {
    "call": [{"role": "user", "content": "Hi"}, FUNCTION_CALL],
    "custom call": [{"type": "custom_tool_call", "call_id": "c1", "name": "t", "input": "x"}],
    "approval": RESPONSES["answered approval"][:1],
    "reasoning": [{"type": "reasoning", "id": "r", "summary": []}],
}

TOOL_USE = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "text"}
ANTHROPIC: dict[str, list[Any]] = {
    "question": [{"role": "user", "content": "Hi"}],
    "blocks": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}],
    "tool result last": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "I read."}, TOOL_USE]},
        {"role": "user", "content": [TOOL_RESULT]},
    ],
    "server tool, answered in place": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                {"type": "text", "text": "Found."},
            ],
        },
    ],
    "answer last": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
    "empty question": [{"role": "user", "content": ""}],
    "nothing": [],
}
ANTHROPIC_WAITING: dict[str, list[Any]] = {
    "call last": ANTHROPIC["tool result last"][:2],
    "paused server tool": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]},
    ],
    "one of two answered": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [TOOL_USE, {**TOOL_USE, "id": "t2"}]},
        {"role": "user", "content": [{**TOOL_RESULT, "tool_use_id": "t2"}]},
    ],
}

PI_CALL = {**good(1, "toolUse"), "content": [{"type": "toolCall", "id": "p1", "name": "read", "arguments": {}}]}
PI: dict[str, list[Any]] = {
    "next prompt after a failure": [user(0), listed(1), user(3)],
    "tool result last": [
        user(0),
        PI_CALL,
        {"role": "toolResult", "toolCallId": "p1", "content": [], "timestamp": stamp(2)},
    ],
    "failed answer with a call that never ran": [user(0), {**PI_CALL, "stopReason": "error"}, user(3)],
    "nothing": [],
}
PI_WAITING: dict[str, list[Any]] = {"call last": [user(0), PI_CALL]}

FORMATS: list[tuple[HostFormat, dict[str, list[Any]], dict[str, list[Any]]]] = [
    (HostFormat.OPENAI, CHAT | RESPONSES, CHAT_WAITING | RESPONSES_WAITING),
    (HostFormat.OPENAI_CHAT, CHAT, CHAT_WAITING),
    (HostFormat.OPENAI_RESPONSES, RESPONSES, RESPONSES_WAITING),
    (HostFormat.ANTHROPIC, ANTHROPIC, ANTHROPIC_WAITING),
    (HostFormat.PI, PI, PI_WAITING),
]
ROOM = [pytest.param(host, given_, id=f"{host}: {name}") for host, room, _ in FORMATS for name, given_ in room.items()]
NO_ROOM = [pytest.param(host, given_, id=f"{host}: {name}") for host, _, no in FORMATS for name, given_ in no.items()]


_copies: dict[Any, Any] = {}


def strict(kind: Any) -> Any:
    """Copy an SDK's type so that pydantic checks all of it: unknown keys refused, an `Iterable` read like a list.

    Of an `Iterable` pydantic gives an iterator that checks nothing until it is read. A file that may be uploaded in
    place of text is no concern of a message made of text.
    """
    if typing_extensions.is_typeddict(kind):
        if kind not in _copies:
            required = kind.__required_keys__
            fields = {
                name: (typing_extensions.Required if name in required else typing_extensions.NotRequired)[strict(hint)]
                for name, hint in typing_extensions.get_type_hints(kind).items()
            }
            _copies[kind] = typing_extensions.TypedDict(kind.__name__, fields)
            _copies[kind].__pydantic_config__ = {"extra": "forbid"}
        return _copies[kind]
    origin, arguments = typing.get_origin(kind), tuple(strict(part) for part in typing.get_args(kind))
    if origin is typing.Literal or not arguments:
        return kind
    if origin is Iterable:
        return list[arguments]  # type: ignore[valid-type]
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(part for part in arguments if part not in _FILES)]  # noqa: UP007 - made at run time
    return origin[arguments]


_FILES = (typing.IO[bytes], os.PathLike[str])


@functools.cache
def adapter(kind: Any) -> Any:
    """Give the validator of an SDK's type, built once."""
    return pydantic.TypeAdapter(strict(kind))


def check_chat(messages: list[Any]) -> None:
    """Check a Chat Completions request's messages against the SDK's own types."""
    adapter(list[openai_chat.ChatCompletionMessageParam]).validate_python(messages)


def check_responses(items: list[Any]) -> None:
    """Check a Responses request's input against the SDK's own types."""
    adapter(openai_responses.ResponseInputParam).validate_python(items)


def check_anthropic(messages: list[Any]) -> None:
    """Check a Messages request's messages against the SDK's own types, and what the API asks beyond them."""
    adapter(list[anthropic_types.MessageParam]).validate_python(messages)
    adapter(list[anthropic_beta.BetaMessageParam]).validate_python(messages)
    roles = [message["role"] for message in messages]
    assert "user user" not in " ".join(roles)
    for message in messages:
        kinds = [block["type"] for block in message["content"]] if isinstance(message["content"], list) else []
        if message["role"] == "user":
            assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result"), "results come before text"
            assert all(block.get("text", "x") for block in message["content"] if isinstance(block, dict))


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (check_chat, [{"role": "user", "content": [{"type": "text", "text": "Hi", "note": 1}]}]),
        (check_chat, [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]),
        (check_responses, [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]),
        (check_anthropic, [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]),
        (check_anthropic, [{"role": "tool", "content": "Hi"}]),
    ],
    ids=["chat: unknown key", "chat: other kind", "responses: other kind", "anthropic: other kind", "anthropic: role"],
)
def test_the_check_against_the_official_types_can_fail(check: Any, wrong: list[Any]) -> None:
    """What the official types do not know is refused, so that passing means something."""
    with pytest.raises(pydantic.ValidationError):
        check(wrong)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("messages", CHAT.values(), ids=CHAT.keys())
def test_openai_chat_takes_the_rendered_list(messages: list[Any], count: int) -> None:
    """The whole list is valid for the official SDK's types and ends with the notes in a user message."""
    rendered = render_openai_chat(messages, notes(count))
    check_chat(rendered)
    assert rendered == [*messages, {"role": "user", "content": render_text(notes(count))}]


@pytest.mark.parametrize("messages", CHAT.values(), ids=CHAT.keys())
def test_openai_chat_can_avoid_two_user_messages_in_a_row(messages: list[Any]) -> None:
    """For a server whose chat template refuses two user messages in a row, the notes join the last one."""
    rendered = render_openai_chat(messages, notes(), merge=True)
    check_chat(rendered)
    roles = [message["role"] for message in rendered]
    assert "user user" not in " ".join(roles)
    assert rendered[-1]["role"] == "user"
    assert AUTH_NOTE in json.dumps(rendered[-1]["content"], ensure_ascii=False).replace('\\"', '"')


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("items", RESPONSES.values(), ids=RESPONSES.keys())
def test_openai_responses_takes_the_rendered_list(items: list[Any], count: int) -> None:
    """The whole input is valid for the official SDK's types and ends with the notes in a user message."""
    rendered = render_openai_responses(items, notes(count))
    check_responses(rendered)
    content = [{"type": "input_text", "text": render_text(notes(count))}]
    assert rendered == [*items, {"type": "message", "role": "user", "content": content}]


def test_openai_responses_takes_the_short_form_of_a_question() -> None:
    """A plain string as input becomes the user message that it is short for."""
    rendered = render(messages="Hi", notes=notes(), host=HostFormat.OPENAI)
    check_responses(rendered)
    assert rendered[0] == {"role": "user", "content": "Hi"}
    assert rendered[1]["content"][0]["text"] == AUTH_NOTE


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("messages", ANTHROPIC.values(), ids=ANTHROPIC.keys())
def test_anthropic_takes_the_rendered_list(messages: list[Any], count: int) -> None:
    """The whole list is valid for the official SDK's types; results stay first, and no two user messages meet."""
    rendered = render_anthropic(messages, notes(count))
    check_anthropic(rendered)
    assert rendered[-1]["role"] == "user"
    assert rendered[-1]["content"][-1] == {"type": "text", "text": render_text(notes(count))}


@pytest.mark.parametrize("messages", ANTHROPIC.values(), ids=ANTHROPIC.keys())
def test_anthropic_keeps_every_block_that_a_cache_may_hold(messages: list[Any]) -> None:
    """All blocks of the request, `cache_control` marks included, are the beginning of the rendered request's blocks."""
    before, after = list(blocks(messages)), list(blocks(render_anthropic(messages, notes())))
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


def blocks(messages: list[Any]) -> Iterator[tuple[str, Any]]:
    """Give each block with its role, in the long form that the API makes of a string."""
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}] if content else []
        for block in content:
            yield message["role"], block


@pytest.mark.parametrize("messages", PI.values(), ids=PI.keys())
def test_pi_takes_the_rendered_list(messages: list[Any]) -> None:
    """Pi gets one more user message of its own shape, with a timestamp in milliseconds."""
    rendered = render_pi(messages, notes(), at_ms=stamp(5))
    assert rendered[:-1] == messages
    assert rendered[-1] == {"role": "user", "content": [{"type": "text", "text": AUTH_NOTE}], "timestamp": stamp(5)}
    latest = messages[-1]["timestamp"] if messages else 0
    assert render_pi(messages, notes())[-1]["timestamp"] == latest


@pytest.mark.parametrize(("host", "messages"), ROOM)
def test_everything_before_the_end_stays_the_same(host: HostFormat, messages: list[Any]) -> None:
    """Every earlier message is the same object with the same bytes; the given list is not touched; a new one comes."""
    before = copy.deepcopy(messages)
    rendered = render(messages, notes(), host)
    assert messages == before
    assert rendered is not messages
    kept = len(messages) if len(rendered) > len(messages) else len(messages) - 1
    assert [id(one) for one in rendered[:kept]] == [id(one) for one in messages[:kept]]
    assert json.dumps(rendered[:kept]) == json.dumps(before[:kept])


@pytest.mark.parametrize(("host", "messages"), NO_ROOM)
def test_no_note_stands_between_a_call_and_its_result(host: HostFormat, messages: list[Any]) -> None:
    """While a tool call waits for its result there is no room, and the list comes back as it was."""
    assert not takes_note(messages)
    assert render(messages, notes(), host) == messages


@pytest.mark.parametrize(("host", "messages"), ROOM)
def test_without_notes_the_list_is_equal_and_new(host: HostFormat, messages: list[Any]) -> None:
    """No note, no change; and still a list of the host's own that it may change."""
    rendered = render(messages, (), host)
    assert rendered == messages
    assert rendered is not messages


def test_plain_text_is_one_line_a_note() -> None:
    """Two notes are two lines, no note is no text."""
    assert render_text(notes(2)).splitlines() == [note.text for note in notes(2)]
    assert render_text(()) == ""


def test_a_message_that_cannot_be_copied_unread_is_left_alone() -> None:
    """A generator of blocks is not used up, and an object is not rebuilt: the notes come in a message of their own."""
    generator = iter([{"type": "text", "text": "Hi"}])
    rendered = render_anthropic([{"role": "user", "content": generator}], notes())
    assert list(generator) == [{"type": "text", "text": "Hi"}]
    assert len(rendered) == 2


def test_sdk_objects_in_the_list_are_read() -> None:
    """A host that appends the SDK's own answer object is served, its open call included."""
    answer = openai_chat.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
    )
    asked = [{"role": "user", "content": "Hi"}, answer]
    assert render_openai_chat(asked, notes()) == asked
    answered = [*asked, {"role": "tool", "tool_call_id": "c1", "content": "text"}]
    assert len(render_openai_chat(answered, notes())) == 4


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "id", "call_id", "tool_calls", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=5), st.sampled_from(HostFormat))
def test_any_list_is_rendered_without_harm(messages: list[Any], host: HostFormat) -> None:
    """Whatever stands in a list, rendering raises nothing and leaves it as it was."""
    before = copy.deepcopy(messages)
    rendered = render(messages, notes(), host)
    assert messages == before
    assert len(rendered) - len(messages) in (0, 1)


def test_the_note_is_gone_from_the_next_request() -> None:
    """Nothing of a note remains in the host's list: rendered again without it, the list is what it always was."""
    messages = [user(0), listed(1), user(3)]
    rendered = render_pi(messages, ErrorAdvisor().advise(messages, HERE, at(4)))
    assert rendered[-1]["content"][0]["text"] == TRANSIENT_NOTE
    assert messages == [user(0), listed(1), user(3)]
