"""Rows about requests that were refused for what they are: a filter, a key, a right, a name, a field; and cancels.

The same request is refused again, so none of these may be retried.
"""

from typing import Final

from compass_otel.classification_kinds import Rule, Trust
from compass_otel.classification_words import Advice, ErrorType

# fmt: off
# The wordings of a row read as a paragraph; one a line they would hide the table.

_NOTHING_MORE: Final = (
    "^ (?:error |abort error |tool execution was aborted ){0,4}(?:the |this |your )?"
    "(?:request|operation|response|generation|call|fetch|turn|run|execution|completion|signal|task|prompt|query|job|"
    "agent|session)? ?(?:was |is |has been )?(?:aborted|cancelled|canceled|interrupted)"
    "(?: without reason| before (?:\\w+ ){1,6}\\w+| by (?:the )?(?:client|caller|host|agent|extension))? $"
)
"""A whole message that says that something was stopped, and neither why nor what went wrong."""

FILTERS: Final = (
    Rule(
        "filtered content",
        ErrorType.CONTENT_FILTER,
        (
            "content_filter", "content management policy", "ResponsibleAIPolicyViolation", "content policy",
            "content_policy", "blocked by content", "guardrail_intervened", "guardrail intervened",
            "DataInspectionFailed", "data_inspection_failed", "inappropriate content", "prohibited_content",
            "blocked due to safety", "blocked by safety",
            "finish ~ finish reason (?:safety|recitation|blocklist|spii|image safety|refusal|sensitive) ",
            "blockReason",
        ),
        "field cases FC-A092, FC-A095; OpenAI, Azure, Gemini finish reasons, DashScope, Bedrock guardrails",
        "Provider finish_reason: content_filter",
    ),
    Rule(
        "refused by a safety system",
        ErrorType.CONTENT_FILTER,
        (
            "refusal ~ ^ (?:error )?refusal ", "reason ~ stop reason (?:refusal|sensitive|safety) ",
            "flagged as potentially", "prompt was flagged", "request was flagged", "content was flagged",
            "flagged for possible", "trusted access for cyber", "cyber_policy", "flagged by", "violate our usage",
            "violates our usage polic", "violating our usage polic", "violates usage guidelines",
            "our safety system", "the safety system", "considered high risk", "input new_sensitive",
            "output new_sensitive",
        ),
        "field case FC-A094; OpenAI, Anthropic, xAI, Moonshot, MiniMax",
        "400 Your request was flagged as potentially violating our usage policy.",
    ),
    Rule(
        "filtered, in other languages",
        ErrorType.CONTENT_FILTER,
        (
            "敏感内容", "敏感词", "敏感信息", "不安全或敏感", "内容安全", "违规内容", "内容违规", "涉嫌违规",
            "不当内容", "审核不通过", "审核未通过", "安全审核", "风险内容", "不適切なコンテンツ", "부적절한",
        ),
        "Zhipu 1301, DashScope, relays",
        "400 系统检测到输入或生成内容可能包含不安全或敏感内容",
    ),
)

CANCELS: Final = (
    Rule(
        "somebody stopped it",
        ErrorType.OTHER,
        (
            "APIUserAbortError", "KeyboardInterrupt", "aborted by the user", "aborted by user", "cancelled by user",
            "cancelled by the user", "canceled by user", "canceled by the user", "interrupted by user",
            "interrupted by the user", "terminated by user", "terminated by the user", "stopped by user",
            "stopped by the user", "user aborted", "user cancelled", "user canceled", "user interrupted",
        ),
        "field case FC-A073: 'process terminated by user' is no network failure",
        "Process terminated by user",
        trust=Trust.LOOSE,
        advice=Advice.ABORTED,
    ),
    Rule(
        "aborted, and nothing more is said",
        ErrorType.OTHER,
        (
            f"aborted ~ {_NOTHING_MORE}", f"cancelled ~ {_NOTHING_MORE}", f"canceled ~ {_NOTHING_MORE}",
            f"interrupted ~ {_NOTHING_MORE}",
        ),
        "field cases FC-A091, FC-A112: nobody need have pressed anything, and it is no provider failure either",
        "This operation was aborted",
        trust=Trust.LOOSE,
        advice=Advice.ABORTED,
    ),
)

CERTIFICATES: Final = (
    Rule(
        "a certificate that is not trusted",
        ErrorType.NETWORK,
        (
            "self signed certificate", "self-signed certificate", "SELF_SIGNED_CERT",
            "unable to verify the first certificate", "unable to verify leaf signature",
            "unable to get local issuer", "unable to get issuer", "certificate verify failed",
            "certificate has expired", "CERT_HAS_EXPIRED", "certificate is not yet valid", "x509",
            "invalid peer certificate", "certificate signed by unknown authority", "TLS_CERT_ALTNAME_INVALID",
            "certificate's altnames", "invalid ssl certificate", "UNKNOWN_CERTIFICATE_VERIFICATION_ERROR",
            "wrong version number", "unknown ca", "certificate unknown", "certificate is not trusted",
        ),
        "field case FC-A088: a setting to mend; inside 'fetch failed: ...' the inner reason wins; sindresorhus/got#208",
        "fetch failed: self signed certificate in certificate chain (SELF_SIGNED_CERT_IN_CHAIN)",
        advice=Advice.OTHER,
    ),
)

KEYS: Final = (
    Rule(
        "key or login not accepted",
        ErrorType.AUTH,
        (
            "invalid api key", "invalid_api_key", "incorrect api key", "api key not valid", "api key is invalid",
            "api key is not", "key appears to be invalid", "no api key", "missing api key", "api key not found",
            "api key is missing", "api key has been", "api key expired", "key has been disabled",
            "key has been revoked", "invalid x-api-key", "invalid key", "invalid access token", "invalid token",
            "invalid bearer", "invalid credentials", "token expired", "token has expired", "token is expired",
            "token_invalidated", "token revoked", "expired token", "session expired", "authentication_error",
            "authentication failed", "authentication fails", "authentication required", "authentication parameter",
            "invalid authentication", "failed to authenticate", "could not authenticate", "re-authenticate",
            "AuthenticationError", "unauthenticated", "unauthorized", "authorization required",
            "invalid authorization", "could not load credentials", "unable to locate credentials", "no credentials",
            "CredentialsProviderError", "UnrecognizedClientException", "InvalidSignatureException",
            "signature ~ signature we calculated", "security token included in the request", "invalid_grant",
            "login required", "please log in", "please login", "InvalidClientTokenId", "unauthorized_client",
        ),
        "field cases FC-A067, FC-A068, FC-A070; every provider, AWS credentials, OAuth",
        "Failed to authenticate: OAuth session expired and could not be refreshed",
        trust=Trust.CLIENT,
    ),
    Rule(
        "key or login not accepted, in other languages",
        ErrorType.AUTH,
        (
            "无效的令牌", "令牌无效", "令牌已过期", "令牌状态", "密钥无效", "无效的密钥", "密钥错误", "key 无效",
            "key无效", "无效的api", "无效的 api", "token 已过期",
            "身份验证失败", "身份认证失败", "鉴权失败", "认证失败", "未授权", "未登录",
            "認証に失敗", "認証エラー", "인증 실패", "неверный ключ", "clé api invalide", "ungültiger api",
            "clave de api no válida",
        ),
        "Zhipu, new-api and one-api relays",
        "401 无效的令牌",
        trust=Trust.CLIENT,
    ),
)

NAMES: Final = (
    Rule(
        "a reference to an item that the provider no longer holds",
        ErrorType.INVALID_REQUEST,
        ("item with id", "previous response", "previous_response"),
        "field case FC-A104: must not look like a missing model",
        "404 Item with id 'rs_EXAMPLE000000' not found. Items are not persisted.",
        beside=("not found", "expired", "invalid", "stale"),
        trust=Trust.CLIENT,
    ),
    Rule(
        "no such model or endpoint",
        ErrorType.NOT_FOUND,
        (
            "model_not_found", "model not found", "no such model", "unknown model", "not a valid model",
            "not_found_error", "DeploymentNotFound", "does not exist", "ModelNotFound", "no endpoints found",
            "try pulling it", "invalid model", "unsupported model", "model_not_supported", "model is not supported",
            "requested model is not", "model_decommissioned", "has been decommissioned", "no longer available",
            "404 page not found", "model ~ model (?:\\w+ ){1,6}not found", "模型不存在", "找不到模型", "模型未找到",
            "モデルが見つかりません",
        ),
        "Azure, OpenAI, Ollama, OpenRouter, Groq",
        'model "qwen3" not found, try pulling it first',
        unless=("data policy", "guardrail"),
        trust=Trust.CLIENT,
    ),
)

RIGHTS: Final = (
    Rule(
        "no right to this model, place or organisation",
        ErrorType.PERMISSION,
        (
            "permission_error", "permission denied", "PERMISSION_DENIED", "have permission", "not have access",
            "don't have access", "no access to", "access denied", "AccessDenied", "forbidden",
            "region, or territory", "unsupported_country", "location is not supported", "region is not supported",
            "not available in your", "organization has been disabled", "organization has been restricted",
            "account has been disabled", "account has been deactivated", "account_deactivated",
            "account is disabled", "not enabled for your", "only authorized for use with",
            "insufficient permissions", "insufficient scope", "just a moment", "attention required",
            "you have been blocked", "active grok subscription", "not available on the free",
            "guardrail restrictions", "data policy", "enable javascript and cookies", "must be verified",
            "request was blocked", "requires a paid plan", "upgrade your plan", "access terminated",
        ),
        "field case FC-A071: the inner code outranks 'Upstream request failed'; Cloudflare; OpenRouter privacy",
        "Error from provider: Upstream request failed: [unsupported_country_region_territory] Country not supported",
        trust=Trust.CLIENT,
    ),
    Rule(
        "no right, in other languages",
        ErrorType.PERMISSION,
        (
            "无权访问", "拒绝访问", "访问被拒绝", "无权限", "没有权限", "权限不足", "禁止访问", "不支持的地区",
            "アクセスが拒否", "権限がありません", "권한이 없",
        ),
        "relays",
        "403 该令牌无权访问模型 gpt-x",
        trust=Trust.CLIENT,
    ),
)

FIELDS: Final = (
    Rule(
        "a request that is wrong in itself",
        ErrorType.INVALID_REQUEST,
        (
            "invalid_request_error", "BadRequestError", "INVALID_ARGUMENT", "invalid argument",
            "ValidationException", "validation ~ ^ validation error ", "invalid params", "invalid parameter",
            "invalid_parameter", "unsupported parameter", "unsupported_parameter", "unknown parameter",
            "unsupported value", "invalid value", "unrecognized request argument", "unprocessable entity",
            "should match pattern", "extra inputs are not permitted", "missing required", "tool_use ids",
            "must be followed by", "thinking blocks", "param incorrect", "invalid schema",
            "not supported with this model", "failed to call a function", "tool_use_failed", "bad request",
            "could not parse the json body", "failed to deserialize the json body", "failed to parse grammar",
            "FAILED_PRECONDITION", "malformed input request", "method not allowed", "invalid json body",
            "invalid url", "failed to parse url", "unsupported protocol", "invalid_encrypted_content",
        ),
        "field cases FC-A097, FC-A098, FC-A103, FC-A106; every provider's own word for it",
        '{"type":"error","error":{"type":"invalid_request_error","message":"messages.1: Expected `thinking`"}}',
        trust=Trust.CLIENT,
    ),
    Rule(
        "a request that is wrong in itself, in other languages",
        ErrorType.INVALID_REQUEST,
        (
            "参数错误", "参数无效", "无效参数", "无效的参数", "参数不正确", "参数有误", "请求参数", "请求格式",
            "パラメータが無効", "잘못된 요청",
        ),
        "Zhipu 1210, relays",
        "400 API 调用参数有误,请检查文档。",
        trust=Trust.CLIENT,
    ),
)
