"""Rows about limits of an account or a rate: throttles, bills, quotas. The order within each tuple is part of the rule.

A throttle clears by waiting and may be tried again; a bill or a quota does not, whatever the HTTP status says.
"""

from typing import Final

from compass_otel.classification_kinds import Rule, Trust
from compass_otel.classification_words import ErrorType

# fmt: off
# The wordings of a row read as a paragraph; one a line they would hide the table.

_HOUR_S: Final = 3600.0

_PERIODS: Final = ("per day", "daily", "per week", "weekly", "per month", "monthly", "billing cycle")

ENTITLEMENTS: Final = (
    Rule(
        "extra usage must be bought",
        ErrorType.BILLING,
        ("extra usage", "long context beta"),
        "field cases FC-A032, FC-A065: an entitlement, though it comes as 429 rate_limit_error or as 400",
        '429 {"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context"}}',
    ),
    Rule(
        "not part of the plan",
        ErrorType.PERMISSION,
        (
            "not included in your", "plan does not include", "not available on your plan", "plan does not support",
            "subscription does not", "not available for your plan",
        ),
        "plans that answer an entitlement as 429 or 403; Zhipu 1311 in English",
        "429 GLM-5 is not included in your current subscription plan",
    ),
    Rule(
        "prepayment that is only held by running requests",
        ErrorType.RATE_LIMIT,
        ("in-flight", "try again later", "retry after", "retry in", "try ~ try again in \\d", "temporarily"),
        "field case FC-A061; OpenRouter in-flight budget; NousResearch/hermes-agent#102517",
        '402 {"message":"Over your credits, given your in-flight requests","headers":{"Retry-After":"120"}}',
        unless=("insufficient", "weekly", "monthly", "per month", "more credits", "top up", "payment required"),
        statuses=frozenset({402}),
    ),
)

DISGUISED_THROTTLES: Final = (
    Rule(
        "upstream of a relay is full",
        ErrorType.OVERLOADED,
        ("负载已饱和", "负载过高", "访问量过大", "请求量过大"),
        "new-api and one-api relays, which call it insufficient_quota: songquanpeng/one-api#330; Zhipu 1305",
        "429 {'error': {'message': '当前分组上游负载已饱和,请稍后再试', 'type': 'insufficient_quota'}}",
    ),
    Rule(
        "a day's tokens are used up",
        ErrorType.QUOTA,
        ("too many tokens per day", "tokens per day limit exceeded"),
        "Amazon Bedrock and Cerebras daily caps: 'per day' outranks the throttle it is worded as (field case FC-A044)",
        "ThrottlingException: Too many tokens per day, please wait before trying again.",
    ),
    Rule(
        "throttled by AWS",
        ErrorType.RATE_LIMIT,
        ("ThrottlingException", "Throttling error", "was throttled", "TooManyRequestsException"),
        "field cases FC-A034, FC-A142: 'Too many tokens' of a throttle is no overflow",
        "ThrottlingException: Too many tokens, please wait before trying again.",
    ),
    Rule(
        "DashScope tokens per minute",
        ErrorType.RATE_LIMIT,
        ("Throttling.AllocationQuota", "Throttling.RateQuota", "Throttling.BurstRate", "error code token-limit"),
        "Alibaba Model Studio error codes, section token-limit; can1357/oh-my-pi#8476",
        "429 You exceeded your current quota. See: https://help.example/zh/model-studio/error-code#token-limit",
        unless=("free",),
    ),
    Rule(
        "a rate per minute or second",
        ErrorType.RATE_LIMIT,
        ("tokens per min", "requests per min", "per-minute", "per second", "tpm", "rpm"),
        "OpenAI, Groq and Cerebras rate limits; their 'too many tokens processed' is no overflow",
        "429 Tokens per minute limit exceeded - too many tokens processed.",
        beside=("limit", "limits", "exceed", "exceeded", "reached", "quota", "429"),
        unless=("limit ~ limit(?: value)? 0 ", "per day", "PerDay", "insufficient balance", "insufficient credits"),
        trust=Trust.FIRM,
    ),
    Rule(
        "quota that the provider says clears within the hour",
        ErrorType.RATE_LIMIT,
        (
            "exceeded your current quota", "quota exceeded", "resource exhausted", "quota will reset",
            "exhausted your capacity",
        ),
        "Google RESOURCE_EXHAUSTED with RetryInfo; its permanent sibling says 'limit: 0' (field case FC-A043)",
        '{"error":{"code":429,"message":"Quota exceeded for metric: requests, limit: 15. Please retry in 34.07s."}}',
        beside=("retry in", "retryDelay", "quota will reset", "quotaResetDelay"),
        unless=(*_PERIODS, "limit ~ limit(?: value)? 0 ", "insufficient_quota"),
        within_s=_HOUR_S,
    ),
    Rule(
        "a stated delay that the agent found too long",
        ErrorType.RATE_LIMIT,
        ("retry delay of", "retry.maxDelayMs", "requested ~ requested \\d+m?s (?:retry delay|wait) "),
        "pi-ai: the cap on retry delays; 'exceeds the limit of 60s' is a time and no size",
        "Retry delay of 120s exceeds the limit of 60s",
        unless=(*_PERIODS,),
    ),
    Rule(
        "rate codes of Zhipu and MiniMax",
        ErrorType.RATE_LIMIT,
        ("code ~ code (?:1302|1303|1002) ", "limit ~ limit exceeded 1002 "),
        "Zhipu error codes 1302, 1303; MiniMax status 1002; field case FC-A049",
        '{"error":{"code":"1302","message":"您的账户已达到速率限制,请您控制请求频率"}}',
    ),
    Rule(
        "throttled, in other languages",
        ErrorType.RATE_LIMIT,
        (
            "速率限制", "请求频率", "频率过高", "频率限制", "频率超", "过于频繁", "太频繁", "请求过多",
            "请求数过多", "请求次数过多", "并发数", "并发过高", "并发限制", "并发请求", "限流", "每分钟",
            "レート制限", "リクエストが多すぎ", "요청이 너무 많", "속도 제한", "요청 한도",
            "слишком много запросов", "лимит запросов", "trop de requêtes", "demasiadas solicitudes",
            "muitas solicitações", "zu viele anfragen",
        ),
        "field case FC-A049 and relays",
        "请求过于频繁,请稍后重试",
        unless=("余额", "欠费", "充值", "套餐", "每日", "每天", "每周", "每月"),
    ),
)

BILLS: Final = (
    Rule(
        "credits are used up",
        ErrorType.BILLING,
        (
            "credit balance", "insufficient credits", "out of credits", "no credits", "not enough credits",
            "credits exhausted", "credits have been exhausted", "requires more credits", "can only afford",
            "purchase credits", "available credits", "included credits", "CreditsError", "credit limit",
            "no usable credits", "top up",
        ),
        "field cases FC-A062, FC-A064; Anthropic, OpenRouter, Hugging Face, xAI",
        "402 This request requires more credits, or fewer max_tokens.",
    ),
    Rule(
        "no money on the account",
        ErrorType.BILLING,
        (
            "insufficient balance", "insufficient account balance", "balance is insufficient", "balance exhausted",
            "balance depleted", "insufficient funds", "insufficient account funds", "insufficient usd",
            "not enough balance", "recharge", "arrearage", "in arrears", "overdue", "AccountOverdue",
            "good standing", "payment required", "payment_required", "valid payment method",
            "enter a payment method", "out of funds", "billing_not_active", "billing hard limit", "billing_error",
            "spending limit", "spend limit", "spend cap", "out of budget", "budget has been exceeded",
            "budget exceeded", "deactivated_workspace",
        ),
        "field case FC-A047; DeepSeek, MiniMax, Moonshot, DashScope Arrearage, xAI spending-limit, LiteLLM budgets",
        "402 Insufficient Balance",
    ),
    Rule(
        "no money, in other languages",
        ErrorType.BILLING,
        (
            "余额不足", "余额已", "账户余额", "欠费", "充值", "无可用资源包", "预扣费", "额度不足", "费用不足",
            "残高不足", "잔액", "недостаточно средств", "solde insuffisant", "saldo insuficiente", "guthaben",
        ),
        "field case FC-A050; Zhipu 1113; new-api and one-api relays",
        "429 余额不足或无可用资源包,请充值。",
    ),
    Rule(
        "billing codes of Zhipu",
        ErrorType.BILLING,
        ("code ~ code 1113 ",),
        "Zhipu error code 1113",
        '429 {"error":{"code":"1113","message":"Your account is short"}}',
    ),
)

QUOTAS: Final = (
    Rule(
        "quota of the account",
        ErrorType.QUOTA,
        (
            "insufficient_quota", "exceeded your current quota", "exceeded_current_quota", "quota exceeded",
            "exceeded your quota", "exceeded the quota", "quota has been exceeded", "quota has been exhausted",
            "quota exhausted", "out of quota", "exhausted your", "quota will reset", "ServiceQuotaExceeded",
            "quota is not enough", "free quota", "have no quota", "AllocationQuota",
        ),
        "OpenAI insufficient_quota, Google QUOTA_EXHAUSTED, Copilot quota_exceeded; Pi 1.6 denies a retry",
        "429 You exceeded your current quota, please check your plan and billing details.",
    ),
    Rule(
        "usage limit of a plan",
        ErrorType.QUOTA,
        (
            "usage limit", "UsageLimitError", "specified API usage limit", "hit your limit", "hit your usage",
            "usage_not_included", "session limit", "weekly limit", "monthly limit", "daily limit",
            "weekly rate limit", "hour ~ 5 hour limit", "limit for your plan", "free limit", "trial key",
            "regain access", "usage cap", "premium requests", "token ~ (?:daily|weekly|monthly) token limit",
        ),
        "ChatGPT and Claude plans, OpenCode, Kimi, Cohere trial keys; they reset after hours or days, not seconds",
        "You have hit your ChatGPT usage limit (plus plan). Try again in ~180 min.",
        unless=("subscription_sharing_usage_unavailable",),
        trust=Trust.FIRM,
    ),
    Rule(
        "usage limit, in a body that calls itself an invalid request",
        ErrorType.QUOTA,
        ("reached your specified API usage limit", "regain access on"),
        "Anthropic: the limit that the organisation set itself comes as 400 invalid_request_error",
        '400 {"error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}',
    ),
    Rule(
        "a limit per day or longer",
        ErrorType.QUOTA,
        _PERIODS,
        "field case FC-A044: 'per day' outranks RATE_LIMIT_EXCEEDED; OpenRouter free-models-per-day",
        "429 Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
        beside=("limit", "limits", "quota", "exceeded", "exhausted", "reached", "used", "allocation", "429"),
        unless=("try ~ try again in (?:about |around )?\\d",),
        trust=Trust.FIRM,
    ),
    Rule(
        "used up until a reset, in other languages",
        ErrorType.QUOTA,
        (
            "使用上限", "用量上限", "额度已", "额度用", "额度耗", "配额", "限额", "次数已用", "套餐", "每日",
            "每周", "每月", "クォータ", "利用上限", "할당량", "사용 한도", "квота",
        ),
        "field case FC-A052: shown with its reset time, which has no time zone and so is no delay",
        "429 您已达到每周/每月使用上限,您的限额将在 2026-02-28 22:35:18 重置。",
    ),
    Rule(
        "quota codes of Zhipu",
        ErrorType.QUOTA,
        ("code ~ code (?:1304|1308|1309|1310|1311|1313|2056) ",),
        "Zhipu error codes 1304 to 1313; MiniMax 2056; Pi 1.6 denies a retry of 1308",
        '429 {"error":{"code":"1308","message":"Limit reached for 5 hour window"}}',
    ),
    Rule(
        "any other word of billing",
        ErrorType.BILLING,
        ("billing", "available balance"),
        "Pi 1.6 denies a retry wherever these stand; in an address they do not count",
        "Please check your billing page before the next request",
    ),
)

THROTTLES: Final = (
    Rule(
        "rate limit",
        ErrorType.RATE_LIMIT,
        (
            "rate limit", "ratelimit", "rate limited", "too many requests", "too many concurrent",
            "concurrency limit", "concurrent connections", "request limit reached", "resource exhausted",
            "resource has been exhausted", "slow down", "rate increased too quickly", "throttling", "throttled",
            "model_cooldown", "limit_burst_rate", "requests too fast",
        ),
        "every provider; in Pi 1.6 these words also exclude an overflow",
        "429 Too many requests: rate limit exceeded",
        trust=Trust.FIRM,
    ),
)
