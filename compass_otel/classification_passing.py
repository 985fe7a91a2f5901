"""Rows about failures that pass: a busy or failing server, a broken line, an answer that was cut, empty or garbled.

Common words such as `timeout` stand in refusals too, so most rows here give way to a status or a body that refuses.
"""

from typing import Final

from compass_otel.classification_kinds import Rule, Trust
from compass_otel.classification_words import ErrorType

# fmt: off
# The wordings of a row read as a paragraph; one a line they would hide the table.

BUSY: Final = (
    Rule(
        "overloaded",
        ErrorType.OVERLOADED,
        (
            "overloaded", "overloaded_error", "overload", "server_busy", "servers are currently busy",
            "server is busy", "currently busy", "is too busy", "high demand", "peak load", "high traffic",
            "at capacity", "over capacity", "no_capacity", "insufficient capacity", "capacity exceeded",
            "capacity_exceeded", "capacity constraints", "service tier capacity", "loading model",
            "model is loading", "still loading", "currently loading", "not ready for inference", "ModelNotReady",
            "queue is full", "queue_exceeded",
        ),
        "field cases FC-A053, FC-A055, FC-A056; Anthropic 529, Azure peak load, Mistral, Groq, llama.cpp",
        "Our servers are currently overloaded. Please try again later.",
        trust=Trust.FIRM,
    ),
    Rule(
        "overloaded, in other languages",
        ErrorType.OVERLOADED,
        (
            "负载", "饱和", "繁忙", "过载", "拥挤", "拥堵", "算力不足", "排队", "混雑", "混み合", "過負荷",
            "과부하", "перегружен", "surchargé", "überlastet",
        ),
        "Chinese providers and relays",
        "503 服务器繁忙,请稍后再试",
        trust=Trust.FIRM,
    ),
    Rule(
        "codes of Zhipu for a busy model",
        ErrorType.OVERLOADED,
        ("code ~ code (?:1305|1312) ",),
        "Zhipu error codes 1305, 1312",
        '429 {"error":{"code":"1305","message":"Too much traffic on this model"}}',
    ),
    Rule(
        "429",
        ErrorType.RATE_LIMIT,
        (),
        "HTTP: too many requests, where no row above knows the body",
        "429 status code (no body)",
        statuses=frozenset({429}),
    ),
)

GARBLED: Final = (
    Rule(
        "an answer that is no valid JSON",
        ErrorType.MALFORMED_RESPONSE,
        (
            "is not valid json", "in json at position", "end of json input", "string in json", "json parse error",
            "JSONDecodeError", "expecting value line", "expected value at line", "eof while parsing",
            "trailing characters at line", "unexpected token", "expected property name", "expecting property name",
            "looking for beginning of value", "could not parse anthropic sse", "malformed server-sent event",
            "failed to parse stream", "failed to parse response", "invalid json response",
            "failed to parse tool call arguments", "malformed response",
        ),
        "field cases FC-A085, FC-A086, FC-A116: a cut or foreign answer; Node, Bun, Python, Go, Rust",
        "Expected ',' or '}' after property value in JSON at position 3875",
        trust=Trust.LOOSE,
    ),
    Rule(
        "a tool call that the model garbled",
        ErrorType.MALFORMED_RESPONSE,
        ("malformed_function_call", "malformed function call", "unexpected_tool_call"),
        "field case FC-A100: a second try often works; pydantic/pydantic-ai#631",
        "Provider finish_reason: MALFORMED_FUNCTION_CALL",
        trust=Trust.LOOSE,
    ),
    Rule(
        "an answer without content",
        ErrorType.EMPTY_RESPONSE,
        (
            "empty response", "returned an empty", "empty completion", "no response content",
            "no content in response", "response is empty", "no candidates", "empty stream", "empty choices",
            "no choices", "thought-only response", "no assistant messages", "response was empty",
            "no output generated", "returned no content", "no content returned", "空响应", "返回为空",
            "返回内容为空",
        ),
        "field case FC-A101",
        "Model stream ended with empty response text.",
        trust=Trust.LOOSE,
    ),
)

CUT: Final = (
    Rule(
        "a body that Python's client found incomplete",
        ErrorType.STREAM_INTERRUPTED,
        ("payload is not completed", "TransferEncodingError", "ContentLengthError"),
        "aiohttp: the 400 in these texts is its own, not the server's",
        "Response payload is not completed: <TransferEncodingError: 400, message='Not enough data'>",
    ),
    Rule(
        "a stream that stopped before its end",
        ErrorType.STREAM_INTERRUPTED,
        (
            "stream ended", "ended without", "stream closed", "stream disconnected", "stream was interrupted",
            "stream interrupted", "stream_read_error", "stream http 2 failed", "http/2 stream failed",
            "http2 stream", "http2_stream_error", "cut short after", "pending stream has been",
            "before message_stop", "terminal response event", "incomplete chunked read", "incomplete read",
            "IncompleteRead", "IncompleteMessage", "incomplete message", "StreamReset", "rst_stream", "goaway",
            "unexpected end of stream", "stream terminated", "stream aborted", "stream stall", "model stream error",
            "response ended prematurely", "ChunkedEncodingError", "before completion", "before a finish_reason",
            "unexpected eof", "stream envelope error", "decoding response body", "error reading response",
            "reading codex response body", "without sending any chunks", "finish ~ finish reason error $", "流中断",
            "流式响应中断",
        ),
        "field cases FC-A079 to FC-A083; Pi 1.6; OpenRouter's finish_reason 'error' (earendil-works/pi#9002)",
        "OpenAI Responses stream ended before a terminal response event",
        trust=Trust.LOOSE,
    ),
)

LINES: Final = (
    Rule(
        "a WebSocket that failed",
        ErrorType.NETWORK,
        (
            "websocket closed", "WebSocket closed", "websocket close", "WebSocket close", "websocket error",
            "WebSocket error", "websocket connection", "WebSocket connection", "websocket disconnected",
            "WebSocket disconnected",
        ),
        "field case FC-A077; Codex: a retry opens a new one; close code 1009 is a row of its own",
        "WebSocketCloseError: WebSocket closed 1006",
        trust=Trust.LOOSE,
    ),
    Rule(
        "a line that failed",
        ErrorType.NETWORK,
        (
            "econnreset", "econnrefused", "econnaborted", "epipe", "etimedout", "enotfound", "ehostunreach",
            "enetunreach", "enetdown", "ehostdown", "EAI_AGAIN", "getaddrinfo", "UND_ERR_SOCKET", "net::err",
            "err connection", "err network", "fetch failed", "failed to fetch", "network request failed",
            "network error", "networkerror", "network connection", "network is unreachable", "no route to host",
            "reason ~ request to \\w+ failed reason ", "connection error", "connection refused", "connection reset",
            "connection lost", "connection closed", "connection aborted", "connection abort", "connection dropped",
            "connection terminated", "connection failed", "connection was closed", "connection attempts failed",
            "closed connection", "closed the connection", "peer closed", "end closed", "server disconnected",
            "other side closed", "socket hang up", "socket connection was closed", "socket closed", "socket error",
            "socket disconnected", "broken pipe", "premature close", "unable to connect", "could not connect",
            "failed to connect", "cannot connect", "can't connect", "actively refused", "error sending request",
            "dial tcp", "no such host", "name or service not known", "name resolution", "nodename nor servname",
            "dns error", "failed to lookup address", "could not resolve host", "upstream connect",
            "reset before headers", "http2 request did not get", "bad record mac", "tlsv1 alert", "ssl alert",
            "tls alert", "handshake failure", "tunneling socket", "proxy connection", "eof occurred in violation",
            "ssl handshake", "ConnectError", "ReadError", "RemoteProtocolError", "APIConnectionError",
            "ClientConnectorError",
        ),
        "field cases FC-A074, FC-A076, FC-A125; Node, undici, Bun, Python, Go, Rust, Envoy",
        "request to https://oauth2.example.invalid/token failed, reason: ",
        trust=Trust.LOOSE,
    ),
    Rule(
        "a whole message that says no more than that it stopped",
        ErrorType.NETWORK,
        (
            "terminated ~ ^ (?:error |type error ){0,4}terminated (?:$|other side closed|body|und )",
            "load ~ ^ (?:type error )?load failed $",
        ),
        "field case FC-A073: undici's word for a body that was cut; a longer sentence with 'terminated' is not this",
        "terminated",
        trust=Trust.LOOSE,
    ),
    Rule(
        "a line that failed, in other languages",
        ErrorType.NETWORK,
        (
            "网络错误", "网络异常", "网络连接", "连接被", "连接失败", "连接错误", "连接中断", "连接断开",
            "无法连接", "积极拒绝", "远程主机", "ネットワークエラー", "接続エラー", "接続が", "연결 거부", "연결이",
            "네트워크 오류", "ошибка сети", "соединение", "connexion refusée", "verbindung verweigert",
            "conexión rechazada",
        ),
        "localised systems and relays",
        "网络错误:连接被重置",
        trust=Trust.LOOSE,
    ),
)

LATE: Final = (
    Rule(
        "timed out",
        ErrorType.TIMEOUT,
        (
            "timed out", "time out", "timedout", "timeout", "timeouts", "esockettimedout", "deadline exceeded",
            "deadline expired", "took too long", "timed-out", "no data received for", "did not respond within",
            "no response within", "stream idle",
        ),
        "every runtime; also where an abort was caused by it (field case FC-A127)",
        "The operation was aborted due to timeout",
        unless=("cannot read properties", "is not a function", "is not defined"),
        trust=Trust.LOOSE,
    ),
    Rule(
        "timed out, in other languages",
        ErrorType.TIMEOUT,
        (
            "超时", "タイムアウト", "시간 초과", "время ожидания", "таймаут", "délai d'attente", "délai dépassé",
            "zeitüberschreitung", "tiempo de espera",
        ),
        "localised systems and relays",
        "请求超时,请稍后重试",
        trust=Trust.LOOSE,
    ),
)

FAILING: Final = (
    Rule(
        "a router says that its provider failed",
        ErrorType.SERVER_ERROR,
        ("provider returned error", "provider returned an error"),
        "OpenRouter; Pi 1.6 retries it even with 400, unless what it passes on is a refusal",
        "Provider returned an error: 400 bad upstream request",
        trust=Trust.FIRM,
    ),
    Rule(
        "the server says that it may be tried again",
        ErrorType.SERVER_ERROR,
        (
            "retry your request", "try your request again", "please retry or report", "retry delay",
            "try again shortly", "temporary failure", "temporarily unavailable", "currently unavailable",
            "subscription_sharing_usage_unavailable", "subscription_sharing_user_unavailable",
        ),
        "OpenAI, Bedrock, Google; Pi 1.6",
        "An error occurred. You can retry your request, or contact us if the error persists.",
        trust=Trust.FIRM,
    ),
    Rule(
        "the server failed",
        ErrorType.SERVER_ERROR,
        (
            "internal server error", "server error", "internal error", "InternalError", "InternalServerException",
            "bad gateway", "service unavailable", "service is unavailable", "service temporarily unavailable",
            "gateway error", "api ~ type api error ", "upstream request failed", "upstream_request_failed",
            "unable to forward upstream", "upstream unavailable", "upstream error", "upstream_error",
            "no healthy upstream", "had an error processing", "had an error while processing",
            "error occurred while processing", "unexpected error during processing", "web server is returning",
            "web server is down", "origin is unreachable", "ModelErrorException", "failed to process the request",
            "backend error", "backend_error", "EngineDeadError", "llama runner", "model has crashed",
            "internal ~ status internal ",
        ),
        "every provider; OpenAI server_error, Anthropic api_error, Google INTERNAL, Cloudflare, Ollama, vLLM",
        "Error Code server_error: The server had an error while processing your request.",
        trust=Trust.LOOSE,
    ),
    Rule(
        "the server failed, in other languages",
        ErrorType.SERVER_ERROR,
        (
            "内部错误", "服务器错误", "服务错误", "系统错误", "服务异常", "系统异常", "服务不可用",
            "服务暂时不可用", "服务暂不可用",
            "サーバーエラー", "내부 오류", "서버 오류", "ошибка сервера",
        ),
        "relays",
        "系统异常,请联系管理员",
        trust=Trust.LOOSE,
    ),
)
