"""Rows about size: a conversation over the model's window, a request over a limit in bytes or in one rate window.

Waiting helps none of them; a shorter conversation does. Numbers over a limit of pictures or pages are not among them.
"""

from typing import Final

from compass_otel.classification_kinds import Rule, Trust
from compass_otel.classification_words import ErrorType

# fmt: off
# The wordings of a row read as a paragraph; one a line they would hide the table.

_MEDIA: Final = (
    "image", "images", "picture", "pictures", "media", "page", "pages", "pdf", "video", "videos", "audio", "attachment",
    "attachments", "file", "files", "document", "documents", "tools",
)

MEDIA: Final = (
    Rule(
        "too many or too large pictures, pages, files",
        ErrorType.INVALID_REQUEST,
        (
            "too much media", "too many images", "image exceeds", "images exceed", "image too large",
            "image is too large", "image was too large", "image dimensions", "image size exceeds",
            "dimensions exceed", "many-image requests", "too many documents", "pdf pages", "too many pages",
        ),
        "field case FC-A022: not the conversation is too long, its pictures are too many; compaction fails too",
        "400 too many images in request: 25 exceeds the limit of 20",
        trust=Trust.CLIENT,
    ),
)

RATE_SIZES: Final = (
    Rule(
        "one request is larger than the rate allows",
        ErrorType.PAYLOAD_TOO_LARGE,
        ("request too large for",),
        "field case FC-A040, which must hold for 413 and 429: no wait makes a request of 41234 fit a limit of 30000",
        "429 Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41234.",
        beside=("requested", "tpm", "tokens per min"),
    ),
    Rule(
        "a frame or a buffer is too small for the request",
        ErrorType.PAYLOAD_TOO_LARGE,
        (
            "message too big", "1009 ~ (?:code|closed|close) 1009 ", "message larger than max",
            "exceeded request buffer limit", "message length too large",
        ),
        "field cases FC-A016 (disputed, and preferred so there), FC-A020: WebSocket close 1009, gRPC message size",
        "WebSocket closed before response.completed (code 1009: message too big)",
    ),
)

WINDOWS: Final = (
    Rule(
        "Anthropic",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "prompt is too long", "prompt too long", "exceed context limit", "exceeds context limit",
            "exceeds model context",
        ),
        "field cases FC-A001, FC-A010, FC-A017; also Fireworks, z.ai",
        '400 {"error":{"type":"invalid_request_error","message":"prompt is too long: 225981 tokens > 200000 maximum"}}',
    ),
    Rule(
        "OpenAI and those who speak its wire",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "exceeds the context window", "exceeds the model's context window",
            "exceeds this model's context window", "context length exceeded", "context window exceeded",
            "maximum context",
        ),
        "OpenAI; LiteLLM ContextWindowExceededError; vLLM, DeepSeek, OpenRouter; field cases FC-A004, FC-A011",
        "400 This model's maximum context length is 65536 tokens. However, you requested 70000 tokens.",
        unless=("string_above_max_length",),
    ),
    Rule(
        "Google and Bedrock",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "exceeds the maximum number of tokens", "maximum number of input tokens", "input is too long",
            "too many input tokens", "exceeds ~ input token count (?:\\w+ ){0,6}exceeds the maximum",
        ),
        "Gemini 400 INVALID_ARGUMENT; Bedrock ValidationException",
        "ValidationException: Input is too long for requested model.",
        unless=("rate", "per minute"),
    ),
    Rule(
        "Groq, xAI, Copilot, Cohere, Kimi",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "reduce the length of", "maximum prompt length", "model_max_prompt_tokens_exceeded",
            "prompt token count", "total tokens exceed", "total number of tokens in the prompt",
            "exceeded model token limit", "context ~ supports only \\d+k? (?:token )?context",
        ),
        "field cases FC-A008, FC-A028; MoonshotAI/kimi-code#2655",
        "400 This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ),
    Rule(
        "local servers",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "available context size", "exceed_context_size", "context size has been exceeded",
            "configured context size", "greater than the context length", "longer than the model's context length",
            "exceeds the context length", "exceeded max context", "exceeds maximum context", "max context size",
            "context length of only", "longer than the maximum model length", "max_model_len",
            "maximum model length", "context shift is disabled",
            "least ~ max (?:completion )?tokens must be at least 1 got [1-9]", "greater than max_seq_len",
            "inputs ~ inputs (?:tokens max new tokens must be|must have less than)", "n_ctx",
            "mid-generation context overflow",
        ),
        "llama.cpp, LM Studio, Ollama, vLLM, SGLang, TGI, TabbyAPI; field cases FC-A005, FC-A007",
        "400 request (124071 tokens) exceeds the available context size (123904 tokens), try increasing it",
    ),
    Rule(
        "Mistral, MiniMax, GLM, DashScope, Poolside",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "too large for model with", "too many tokens overall", "context window exceeds", "prompt exceeds max",
            "code ~ code 1261 ", "tokens in request more than max tokens", "range of input length should be",
            "maximum allowed input length", "maximum input length",
        ),
        "Pi 1.6; field case FC-A029",
        "400 <400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    ),
    Rule(
        "a context that is exceeded, in any other order of words",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "context ~ exceed(?:s|ed|ing)? (?:\\w+ ){0,6}context (?:window|length|size|limit)",
            "context ~ context (?:window|length|size|limit) (?:\\w+ ){0,4}(?:exceed|overflow|too |is full)",
            "context ~ (?:larger|longer|bigger|greater) than (?:\\w+ ){0,5}context (?:window|length|size|limit)",
            "context ~ (?:prompt|input|request|message)s? (?:\\w+ ){0,5}too (?:long|large) (?:\\w+ ){0,5}context",
            "prompt too large", "prompt is too large", "context too large", "context is too large",
            "context too long", "context overflow", "prompt filled the context", "conversation is too long",
            "conversation too long", "chat history exceeds", "exceed the configured limit", "input token limit",
            "prompt_tokens_exceeded",
        ),
        "gateways and local servers of every kind",
        "Conversation has exceeded the model's context window",
    ),
    Rule(
        "too long, in other languages",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "上下文长度", "上下文超", "超出上下文", "上下文窗口", "超过最大长度", "超出最大长度", "长度超过",
            "长度超出", "长度超限", "超长", "输入过长", "内容过长", "上下文过长", "提示词过长", "输入长度", "tokens 超",
            "コンテキスト長", "コンテキストウィンドウ", "컨텍스트 길이", "длина контекста", "длины контекста",
            "longueur du contexte", "kontextlänge", "longitud del contexto",
        ),
        "Zhipu 1261, relays",
        "400 输入长度超过模型最大上下文长度",
    ),
)

BYTES: Final = (
    Rule(
        "the request is too large in bytes",
        ErrorType.PAYLOAD_TOO_LARGE,
        (
            "request_too_large", "request entity too large", "entity too large", "payload too large",
            "content too large", "body too large", "body is too large", "exceeds the maximum size",
            "exceeds maximum size", "maximum request size", "payload size exceeds", "request size limit",
            "length limit exceeded", "maximum request body", "request is too large", "request size exceeds",
            "string ~ string too long expected a string with maximum length \\d{6,}", "too many messages",
            "array ~ invalid (?:messages|input) array too long",
        ),
        "Anthropic request_too_large, Gemini, nginx, Express, axum; field case FC-A019",
        "<html><head><title>413 Request Entity Too Large</title></head></html>",
    ),
)

UNSURE_WINDOWS: Final = (
    Rule(
        "tokens over a limit that is not named",
        ErrorType.CONTEXT_OVERFLOW,
        ("too many tokens", "token limit exceeded", "tokens exceed"),
        "Pi 1.6's fallback; not where the same words are a throttle or the cap of a plan",
        "400 too many tokens in the request",
        unless=("max_tokens",),
        trust=Trust.CLIENT,
    ),
    Rule(
        "a count of tokens over what the model takes",
        ErrorType.CONTEXT_OVERFLOW,
        (
            "tokens ~ tokens (?:\\w+ ){0,6}(?:exceeds?|(?:larg|great|long)er than) (?:\\w+ ){0,4}(?:model|limit|max)",
            "token ~ token (?:count|length) (?:\\w+ ){0,3}exceeds? (?:\\w+ ){0,4}(?:model|limit|max)",
            "requested ~ requested (?:about )?\\d+ tokens (?:\\w+ ){0,6}(?:supports|allows|maximum|limit)",
        ),
        "gateways that name the count and the limit in their own words",
        "400 The number of input tokens (210000) is larger than the model limit of 200000",
        unless=("max_tokens", "output tokens", "max_completion_tokens", "budget_tokens", "max_new_tokens"),
        trust=Trust.CLIENT,
    ),
    Rule(
        "a count over the limit of a number",
        ErrorType.CONTEXT_OVERFLOW,
        ("exceeds ~ exceeds the limit of \\d",),
        "GitHub Copilot; Pi 1.6",
        "400 prompt of 146270 exceeds the limit of 128000",
        unless=(*_MEDIA, "characters", "chars", "name", "description", "functions", "parameters", "properties"),
        trust=Trust.CLIENT,
    ),
    Rule(
        "413",
        ErrorType.PAYLOAD_TOO_LARGE,
        (),
        "HTTP: content too large, whatever the body says; Pi 1.6",
        'github-copilot API error (413): {"message":"failed to parse request","code":""}',
        statuses=frozenset({413}),
    ),
)
