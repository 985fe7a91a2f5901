"""Every span name, attribute key and well-known value in one table; no logic.

`gen_ai.*` names follow the GenAI conventions as of 2026-11 (repository semantic-conventions-genai, all in Development);
what they do not name is `compass.*`. The constants of `opentelemetry-semantic-conventions` are not imported: every
`gen_ai.*` one there is marked as moved, and a rename must be one line here.
"""

from enum import StrEnum
from typing import Final

SCOPE_NAME: Final = "compass_otel"


class SpanName(StrEnum):
    """Operation names, the first word of a span's name and the value of `gen_ai.operation.name`."""

    INVOKE_AGENT = "invoke_agent"
    CHAT = "chat"
    EXECUTE_TOOL = "execute_tool"
    COMPACT = "compact"


class Outcome(StrEnum):
    """Values of `compass.outcome`: on every run, on other spans only when they did not complete."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"


class SessionState(StrEnum):
    """Values of `compass.session.state`, the lower-case names of `AgentSessionState`."""

    STARTING = "starting"
    READY = "ready"
    WORKING = "working"
    STOPPED = "stopped"
    ERRORED = "errored"
    DISCONNECTED = "disconnected"


# --- GenAI conventions: spans ---
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_AGENT_VERSION: Final = "gen_ai.agent.version"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
"""Seconds."""
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""The whole prompt, cached parts included."""
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
GEN_AI_USAGE_CACHE_CREATION: Final = "gen_ai.usage.cache_creation.input_tokens"
"""The older name of cache_write, written beside it: Jaeger UI 2.20 reads only this one."""
GEN_AI_USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_CONVERSATION_COMPACTED: Final = "gen_ai.conversation.compacted"
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - tokens of a model, no password

PROVIDER_NAMES: Final = {
    "amazon-bedrock": "aws.bedrock",
    "azure-openai": "azure.ai.openai",
    "azure-openai-responses": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-gemini-cli": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "moonshotai": "moonshot_ai",
    "openai-codex": "openai",
    "xai": "x_ai",
}
"""Agents' provider names for which the conventions list another; a provider not here is passed on as it is."""

# --- General conventions ---
ERROR_TYPE: Final = "error.type"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_LOG_EVENT: Final = "gen_ai.client.operation.exception"
SERVICE_NAME: Final = "service.name"
SERVICE_INSTANCE_ID: Final = "service.instance.id"
HOST_NAME: Final = "host.name"

# --- Ours: what a run, a chat, a tool or a compaction came to ---
OUTCOME: Final = "compass.outcome"
SESSION_STATE: Final = "compass.session.state"
"""On run spans only: the lifecycle classifier reads it."""
LANE: Final = "compass.lane"
LANE_PRIORITY: Final = "priority"
SESSION_ERROR_KIND: Final = "compass.session_error.kind"
"""`ERROR` or `ABORTED`; the session-error classifier reads it."""
SESSION_ERROR_MESSAGE: Final = "compass.session_error.message"
SESSION_ERROR_STATUS: Final = "compass.session_error.status"
EVENT_ID: Final = "compass.event_id"
ERROR_RETRYABLE: Final = "compass.error.retryable"
ATTEMPT: Final = "compass.attempt"
"""On a chat: 1 for the first request, one more for each automatic retry of it."""
RETRY_COUNT: Final = "compass.retry.count"
"""On a run: automatic retries that the agent announced (a continuation after compaction is none)."""
RETRY_RECOVERED: Final = "compass.retry.recovered"
RETRY_MAX: Final = "compass.retry.max_attempts"
RETRY_DELAY_S: Final = "compass.retry.delay_s"
SESSION_INJECTIONS: Final = "compass.session.injections"
"""On a run: how many user messages were injected while it ran; the injection classifier reads it."""
INJECTION_KIND: Final = "compass.session.injection.kind"
INJECTION_MESSAGE_ID: Final = "compass.session.injection.message_id"
RESPONSE_EMPTY: Final = "compass.response.empty"
COST_USD: Final = "compass.cost.usd"
TURN_COUNT: Final = "compass.chats"
TOOL_COUNT: Final = "compass.tools"
MODEL_FALLBACK_FROM: Final = "compass.model.fallback.from"
MODEL_FALLBACK_TO: Final = "compass.model.fallback.to"
PARENT_SESSION: Final = "compass.session.parent_id"
SIGNAL: Final = "compass.process.signal"
EXIT_STATUS: Final = "compass.process.exit_status"
TOOL_STATUS: Final = "compass.tool.status"
"""`completed`, `failed`, `cancelled`, `incomplete` or `not_executed` (the agent made the result up)."""
TOOL_EXIT_CODE: Final = "compass.tool.exit_code"
TOOL_DIFF_PATHS: Final = "compass.tool.diff.paths"
TOOL_PARENT_CALL_ID: Final = "compass.tool.parent_call_id"
COMPACTION_REASON: Final = "compass.compaction.reason"
COMPACTION_TOKENS_BEFORE: Final = "compass.compaction.tokens_before"
COMPACTION_TOKENS_AFTER: Final = "compass.compaction.tokens_after"
COMPACTION_OUTCOME: Final = "compass.compaction.outcome"
"""`completed`, `failed`, `cancelled`, `skipped` or `incomplete`."""
DROPPED_SPANS: Final = "compass.trace.dropped_spans"
"""On a run: how many spans of its trace had been dropped when it was encoded."""
REPLAY_OF: Final = "compass.replay.of_span_id"
ADVISOR_CLASS: Final = "compass.advisor.class"
ADVISOR_TEXT: Final = "compass.advisor.text"

# --- Ours: span events ---
EVENT_STATE: Final = "compass.session.state"
EVENT_CANCELLED: Final = "compass.session.cancelled"
EVENT_INJECTION: Final = "compass.session.injection"
EVENT_RETRY: Final = "compass.retry"
EVENT_RETRY_EXHAUSTED: Final = "compass.retry.exhausted"
EVENT_RETRY_RECOVERED: Final = "compass.retry.recovered"
EVENT_FALLBACK: Final = "compass.model.fallback"
EVENT_ADVISOR_NOTE: Final = "compass.advisor.note"

# --- Links ---
LINK_KIND: Final = "compass.link.kind"
LINK_PREVIOUS_RUN: Final = "previous_run"
LINK_FAILED_SPAN: Final = "failed_span"
LINK_SAME_RUN: Final = "same_run"

# --- Metrics ---
METRIC_OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
METRIC_TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 - tokens of a model, no password
METRIC_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
METRIC_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
METRIC_SESSION_ERRORS: Final = "compass.session.errors"
METRIC_RETRIES: Final = "compass.retries"
METRIC_RUNS: Final = "compass.runs"
METRIC_COST: Final = "compass.cost.usd"
"""A counter; its unit is in its name, since the units of the conventions know no currency."""

DURATION_BUCKETS_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
AGENT_DURATION_BUCKETS_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
TOKEN_BUCKETS: Final = tuple(float(4**power) for power in range(14))

# --- error.type: the closed list (design: classification) ---
PROCESS_LOST: Final = "process_lost"
OTHER: Final = "_OTHER"
TOOL_ERROR: Final = "tool_error"

MAX_ERROR_TEXT_BYTES: Final = 2048
"""Tempo cuts attributes at 2,048 bytes by default; a cut of our own says so."""
MAX_TOOL_OUTPUT_CHARS: Final = 4000
