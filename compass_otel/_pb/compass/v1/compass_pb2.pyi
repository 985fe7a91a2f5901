from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentSessionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGENT_SESSION_STATE_UNSPECIFIED: _ClassVar[AgentSessionState]
    AGENT_SESSION_STATE_STARTING: _ClassVar[AgentSessionState]
    AGENT_SESSION_STATE_READY: _ClassVar[AgentSessionState]
    AGENT_SESSION_STATE_WORKING: _ClassVar[AgentSessionState]
    AGENT_SESSION_STATE_STOPPED: _ClassVar[AgentSessionState]
    AGENT_SESSION_STATE_ERRORED: _ClassVar[AgentSessionState]
    AGENT_SESSION_STATE_DISCONNECTED: _ClassVar[AgentSessionState]

class AgentToolCallStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGENT_TOOL_CALL_STATUS_UNSPECIFIED: _ClassVar[AgentToolCallStatus]
    AGENT_TOOL_CALL_STATUS_PENDING: _ClassVar[AgentToolCallStatus]
    AGENT_TOOL_CALL_STATUS_IN_PROGRESS: _ClassVar[AgentToolCallStatus]
    AGENT_TOOL_CALL_STATUS_COMPLETED: _ClassVar[AgentToolCallStatus]
    AGENT_TOOL_CALL_STATUS_FAILED: _ClassVar[AgentToolCallStatus]

class AgentPlanEntryStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGENT_PLAN_ENTRY_STATUS_UNSPECIFIED: _ClassVar[AgentPlanEntryStatus]
    AGENT_PLAN_ENTRY_STATUS_PENDING: _ClassVar[AgentPlanEntryStatus]
    AGENT_PLAN_ENTRY_STATUS_IN_PROGRESS: _ClassVar[AgentPlanEntryStatus]
    AGENT_PLAN_ENTRY_STATUS_COMPLETED: _ClassVar[AgentPlanEntryStatus]

class SessionInjectionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_INJECTION_KIND_UNSPECIFIED: _ClassVar[SessionInjectionKind]
    SESSION_INJECTION_KIND_STEER: _ClassVar[SessionInjectionKind]
    SESSION_INJECTION_KIND_DELIVER: _ClassVar[SessionInjectionKind]

class SessionErrorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_ERROR_KIND_UNSPECIFIED: _ClassVar[SessionErrorKind]
    SESSION_ERROR_KIND_ERROR: _ClassVar[SessionErrorKind]
    SESSION_ERROR_KIND_ABORTED: _ClassVar[SessionErrorKind]
AGENT_SESSION_STATE_UNSPECIFIED: AgentSessionState
AGENT_SESSION_STATE_STARTING: AgentSessionState
AGENT_SESSION_STATE_READY: AgentSessionState
AGENT_SESSION_STATE_WORKING: AgentSessionState
AGENT_SESSION_STATE_STOPPED: AgentSessionState
AGENT_SESSION_STATE_ERRORED: AgentSessionState
AGENT_SESSION_STATE_DISCONNECTED: AgentSessionState
AGENT_TOOL_CALL_STATUS_UNSPECIFIED: AgentToolCallStatus
AGENT_TOOL_CALL_STATUS_PENDING: AgentToolCallStatus
AGENT_TOOL_CALL_STATUS_IN_PROGRESS: AgentToolCallStatus
AGENT_TOOL_CALL_STATUS_COMPLETED: AgentToolCallStatus
AGENT_TOOL_CALL_STATUS_FAILED: AgentToolCallStatus
AGENT_PLAN_ENTRY_STATUS_UNSPECIFIED: AgentPlanEntryStatus
AGENT_PLAN_ENTRY_STATUS_PENDING: AgentPlanEntryStatus
AGENT_PLAN_ENTRY_STATUS_IN_PROGRESS: AgentPlanEntryStatus
AGENT_PLAN_ENTRY_STATUS_COMPLETED: AgentPlanEntryStatus
SESSION_INJECTION_KIND_UNSPECIFIED: SessionInjectionKind
SESSION_INJECTION_KIND_STEER: SessionInjectionKind
SESSION_INJECTION_KIND_DELIVER: SessionInjectionKind
SESSION_ERROR_KIND_UNSPECIFIED: SessionErrorKind
SESSION_ERROR_KIND_ERROR: SessionErrorKind
SESSION_ERROR_KIND_ABORTED: SessionErrorKind

class SessionEvent(_message.Message):
    __slots__ = ("event_id", "at_unix_ms", "assistant_text", "thinking", "tool_call", "tool_call_update", "plan", "notice", "session_injection", "session_error")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_TEXT_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_UPDATE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    SESSION_INJECTION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ERROR_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    at_unix_ms: int
    assistant_text: SessionAssistantText
    thinking: SessionThinking
    tool_call: SessionToolCall
    tool_call_update: SessionToolCallUpdate
    plan: SessionPlan
    notice: SessionNotice
    session_injection: SessionInjection
    session_error: SessionError
    def __init__(self, event_id: _Optional[str] = ..., at_unix_ms: _Optional[int] = ..., assistant_text: _Optional[_Union[SessionAssistantText, _Mapping]] = ..., thinking: _Optional[_Union[SessionThinking, _Mapping]] = ..., tool_call: _Optional[_Union[SessionToolCall, _Mapping]] = ..., tool_call_update: _Optional[_Union[SessionToolCallUpdate, _Mapping]] = ..., plan: _Optional[_Union[SessionPlan, _Mapping]] = ..., notice: _Optional[_Union[SessionNotice, _Mapping]] = ..., session_injection: _Optional[_Union[SessionInjection, _Mapping]] = ..., session_error: _Optional[_Union[SessionError, _Mapping]] = ...) -> None: ...

class SessionAssistantText(_message.Message):
    __slots__ = ("text", "message_id")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    message_id: str
    def __init__(self, text: _Optional[str] = ..., message_id: _Optional[str] = ...) -> None: ...

class SessionThinking(_message.Message):
    __slots__ = ("text", "message_id")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    message_id: str
    def __init__(self, text: _Optional[str] = ..., message_id: _Optional[str] = ...) -> None: ...

class SessionToolCall(_message.Message):
    __slots__ = ("tool_call_id", "title", "status")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    title: str
    status: AgentToolCallStatus
    def __init__(self, tool_call_id: _Optional[str] = ..., title: _Optional[str] = ..., status: _Optional[_Union[AgentToolCallStatus, str]] = ...) -> None: ...

class SessionToolCallUpdate(_message.Message):
    __slots__ = ("tool_call_id", "status", "output", "diffs")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DIFFS_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    status: AgentToolCallStatus
    output: str
    diffs: _containers.RepeatedCompositeFieldContainer[SessionFileDiff]
    def __init__(self, tool_call_id: _Optional[str] = ..., status: _Optional[_Union[AgentToolCallStatus, str]] = ..., output: _Optional[str] = ..., diffs: _Optional[_Iterable[_Union[SessionFileDiff, _Mapping]]] = ...) -> None: ...

class SessionFileDiff(_message.Message):
    __slots__ = ("path", "old_text", "new_text")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OLD_TEXT_FIELD_NUMBER: _ClassVar[int]
    NEW_TEXT_FIELD_NUMBER: _ClassVar[int]
    path: str
    old_text: str
    new_text: str
    def __init__(self, path: _Optional[str] = ..., old_text: _Optional[str] = ..., new_text: _Optional[str] = ...) -> None: ...

class SessionPlan(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AgentPlanEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[AgentPlanEntry, _Mapping]]] = ...) -> None: ...

class AgentPlanEntry(_message.Message):
    __slots__ = ("content", "status")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    content: str
    status: AgentPlanEntryStatus
    def __init__(self, content: _Optional[str] = ..., status: _Optional[_Union[AgentPlanEntryStatus, str]] = ...) -> None: ...

class SessionNotice(_message.Message):
    __slots__ = ("text", "link")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    text: str
    link: str
    def __init__(self, text: _Optional[str] = ..., link: _Optional[str] = ...) -> None: ...

class SessionInjection(_message.Message):
    __slots__ = ("op_kind", "message_id", "from_handle")
    OP_KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_HANDLE_FIELD_NUMBER: _ClassVar[int]
    op_kind: SessionInjectionKind
    message_id: str
    from_handle: str
    def __init__(self, op_kind: _Optional[_Union[SessionInjectionKind, str]] = ..., message_id: _Optional[str] = ..., from_handle: _Optional[str] = ...) -> None: ...

class SessionError(_message.Message):
    __slots__ = ("kind", "message", "status")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    kind: SessionErrorKind
    message: str
    status: int
    def __init__(self, kind: _Optional[_Union[SessionErrorKind, str]] = ..., message: _Optional[str] = ..., status: _Optional[int] = ...) -> None: ...

class SessionFrame(_message.Message):
    __slots__ = ("state", "typed_event")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TYPED_EVENT_FIELD_NUMBER: _ClassVar[int]
    state: AgentSessionState
    typed_event: SessionEvent
    def __init__(self, state: _Optional[_Union[AgentSessionState, str]] = ..., typed_event: _Optional[_Union[SessionEvent, _Mapping]] = ...) -> None: ...

class AgentSessionFrame(_message.Message):
    __slots__ = ("session_id", "event", "state")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    event: SessionEvent
    state: AgentSessionState
    def __init__(self, session_id: _Optional[str] = ..., event: _Optional[_Union[SessionEvent, _Mapping]] = ..., state: _Optional[_Union[AgentSessionState, str]] = ...) -> None: ...
