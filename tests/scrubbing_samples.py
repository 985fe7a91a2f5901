"""Texts for the scrubbing tests: places where secrets stand, texts that hold none, and ways to write the same thing."""

import html
import json
import random
import string
import urllib.parse
from collections.abc import Callable

from compass_otel.scrubbing_patterns import TOKEN_FAMILIES, TokenFamily

NAMED_PLACES = r"""
api_key={}
"api_key": "{}"
{'api_key': '{}'}
{\"apiKey\":\"{}\",\"model\":\"m\"}
{\\\"apiKey\\\":\\\"{}\\\",\\\"model\\\":\\\"m\\\"}
x-api-key: {}
X-API-Key: {}
x-goog-api-key: {}
api-key: {}
xi-api-key={}
Ocp-Apim-Subscription-Key: {}
Authorization: Bearer {}
Authorization: {}
Authorization: Token {}
"Authorization": "Bearer {}"
('authorization', 'Bearer {}')
(b'x-api-key', b'{}')
['X-Api-Key', '{}']
Headers({'authorization': 'Bearer {}', 'accept': '*/*'})
map[Accept:[*/*] Authorization:[Bearer {}] X-Api-Key:[{}]]
{"name":"x-api-key","value":"{}"}
- name: OPENAI_API_KEY\n  value: {}
<add key="AccountKey" value="{}"/>
<password>{}</password>
<ns:apiKey>{}</ns:apiKey>
Authorization: Digest username="u", response="{}"
Cookie: sid={}; theme=dark
Set-Cookie: sid={}; Path=/; HttpOnly; Expires=Wed, 21 Oct 2026 07:28:00 GMT
"set-cookie": ["sid={}; Path=/", "b={}"]
cookie: theme=dark; sid={}|authorization: Bearer {}
curl -H 'Cookie: a=b; sid={}' https://svc.example
password={}
password: {}
PASSWORD = "{}"
db_password={}
dbPassword: {}
"clientSecret":"{}"
client_secret={}&grant_type=x
refresh_token={}
"refreshToken" : "{}"
access_token: {}
AWS_SECRET_ACCESS_KEY={}/abc+def
secretAccessKey: '{}'
DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==;EndpointSuffix=core.example
SharedAccessKeyName=Root;SharedAccessKey={}=
Server=db;User Id=sa;Password={};Database=x
postgres://user:{}@db.example:5432/x
postgresql+asyncpg://user:{}@db.example:5432/x
mongodb+srv://user:{}@cluster0.example/test?retryWrites=true
redis://:{}@localhost:6379/0
https://user:{}@host.example/path
https://{}@code.example/org/repo.git
https:\/\/user:{}@host.example\/path
https://svc.example/a?key={}
https://svc.example/a?api_key={}&x=1
https://svc.example/a?b=1&token={}#frag
https://svc.example/a?sig={}%3D&se=1
https://svc.example/a?X-Amz-Signature={}&X-Amz-SignedHeaders=host
https://svc.example/a?X-Goog-Signature={}
https://svc.example/a?Expires=1&Signature={}~x&Key-Pair-Id=APKA
https://svc.example/cb?code={}&state=1
https://svc.example/v1?session={}&page=2
https://svc.example/p;jsessionid={}?x=1
https:\/\/svc.example\/a?key={}\u0026page=2
{"url":"https://svc.example/a?b=1\u0026key\u003d{}"}
X-Vault-Token: {}
Private-Token: {}
x-amz-security-token: {}
--api-key {}
--token={}
--password '{}'
curl -u jane:{} https://svc.example
export OPENAI_API_KEY="{}"
openai.api_key = '{}'
Client(api_key='{}', model='m')
Config { api_key: Some("{}") }
api_key=SecretStr('{}')
Incorrect API key provided: {}.
Invalid API key: {}
The token '{}' has expired
secret: {}
"credentials": {"user": "u", "secret": "{}"}
'cookies': {'sid': '{}'}
passphrase='{} more words'
{"token":"{}"}
Bearer {}
PGPASSWORD={} psql
auth=('user', '{}')
//registry.example/:_authToken={}
:api_key => "{}"
{"error":"bad","detail":"password=\"{}\" rejected"}
"password":"ab\"{}"
'password': 'it\'s {}'
password=ab,{}
password=ab;{}
password=p@ss{}
{"api_keys":["{}","b"]}
""".strip().split("\n")
"""Where a secret is known by what stands around it; ``{}`` is its place."""

ORDINARY_TEXTS = r"""
max_tokens: 32000
"max_tokens": 32000, "total_tokens":5
token limit exceeded: 32000 tokens
context_length_exceeded
author: Jane Doe
"author": "Jane"
keyboard: qwerty
monkey=banana
password incorrect
Password is incorrect
invalid x-api-key
Your API key does not have permission to use the specified resource.
API key not valid. Please pass a valid API key.
token: unexpected EOF
Unexpected token 'h', "this is not json" is not valid JSON
auth-gateway 503: upstream unavailable
request to https://oauth2.example.invalid/token failed, reason:
primary_key=5 cache_key=abc123def456 sort_key: name
"key": "value1234abcd"
KeyError: 'api_key'
prompt_cache_key: 0a1b2c3d4e5f
idempotency_key: 123e4567-e89b-12d3-a456-426614174000
session_id=123e4567-e89b-12d3-a456-426614174000
"sessionId":"4bf92f3577b34da6a3ce929d0e0e4736"
"sessionKey":"agent:main:terminal"
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
request_id: req_011CSample0000000000
toolu_01EXAMPLEabcdefghijklmn
call_abc123DEF456ghi789
git 9fceb02d0ae598e95dc970b74767f19372d61af8
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
claude-sonnet-4-5-20250929 gpt-4o-mini-2024-07-18 o4-mini
/home/jane/proj-a/disk-usage.md /home/jane/proj-b/risk-report.md task-list.md ask-me.md
https://api.example/v1/chat/completions?page=2&limit=50
https://example.com:8080/path?email=a@b.com
postgres://localhost:5432/db
(using password: YES)
api_key=None
"password": null
Incorrect API key provided: sk-fake**key. You can find
Incorrect API key provided: sk-proj-********************************abcd.
password: must be at least 8 characters
password: ********
PWD=/home/jane/x
bearer token missing
WWW-Authenticate: Bearer realm="api", error="invalid_token"
basic auth is not supported
"token_type":"Bearer"
Invalid `signature` in `thinking` block
"thinkingSignature":"c2lnbmF0dXJl"
input_token_count: 12
cookies are disabled
secret_name: foo
eos_token: </s>
hf_hub_download npm_config_registry sk_buff_head_init
npm_lifecycle_event sk-learn scikit
1790000000000
2026-02-28 22:35:18
10.0.0.1:8080 2001:db8::1
chatcmpl-AbCdEf123456 msg_01AbCdEf resp_68af4030b7 run_abc
org-EXAMPLE0000000000000000
design: good signal: SIGTERM passed: 5 bypass: yes
docker://image:tag s3://bucket:name
user@example.com
git@github.com:org/repo.git
https://user@host.example/x
keys: [a, b]
--max-tokens 500 --model gpt-4o-mini --key-file a.txt
Authorization header is missing
authorization: required
The provided token is malformed
function signature: foo(a, b)
"usage":{"tokens":{"input":3}}
x-ratelimit-limit-tokens: 40000
{"pass": 12, "fail": 3}
apiKeyEnv: OPENAI_API_KEY
client = OpenAI(api_key=os.environ["OPENAI_API_KEY"])
apiKey: process.env.OPENAI_API_KEY
{"code": "invalid_api_key", "value": "gpt-4o-mini-2024-07-18"}
("invalid_token", "gpt-4o-mini-2024-07-18")
429 您的账户已达到速率限制 🐢 Превышен лимит 👩‍💻
""".strip().split("\n")
"""Nothing to hide in any of these."""


def json_text(text: str) -> str:
    """Write *text* as the value of a JSON object."""
    return json.dumps({"message": text})


def percent_text(text: str) -> str:
    """Percent-encode all of *text* that can be."""
    return urllib.parse.quote(text, safe="")


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json_text,
    "json in json": lambda text: json_text(json_text(text)),
    "percent": percent_text,
    "percent twice": lambda text: percent_text(percent_text(text)),
    "python repr": lambda text: repr({"m": text}),
    "bytes repr": lambda text: repr(text.encode()),
    "html": lambda text: html.escape(text, quote=True),
    "percent of json": lambda text: percent_text(json_text(text)),
    "json of percent": lambda text: json_text(percent_text(text)),
}

LINE_BREAKS = ("\n", "\r\n", "\\n", "\\r\\n", "\n    ", "\\\n", "=\n", "%0A")

_ALPHABETS = {
    "aws-key-id": string.ascii_uppercase + string.digits,
    "age": string.ascii_uppercase + string.digits,
}
_LENGTHS = {"jwt": 100, "facebook": 90, "easypost": 54, "anthropic": 101, "openai": 120, "sk-key": 48, "sendgrid": 66}
_HEXADECIMAL = {"firecrawl", "elevenlabs", "databricks", "pulumi", "rubygems", "sonar", "twilio"}


def random_token(family: TokenFamily, source: random.Random) -> tuple[str, str]:
    """Draw a token of *family* as its provider would: the token, and its random part."""
    hexadecimal = family.name in _HEXADECIMAL
    alphabet = "0123456789abcdef" if hexadecimal else _ALPHABETS.get(family.name, string.ascii_letters + string.digits)
    length = (
        48 if family.name == "elevenlabs" else 40 if hexadecimal else _LENGTHS.get(family.name, max(36, family.full))
    )
    body = "".join(source.choices(alphabet, k=length))
    if family.name == "jwt":
        body = f"{body[:20]}.eyJ{body[20:60]}.{body[60:]}"
    return source.choice(family.prefixes) + body, body


def leaked(secret: str, text: str, least: int = 8) -> list[str]:
    """List the pieces of *secret*, *least* characters long, that stand in *text*."""
    return [secret[at : at + least] for at in range(len(secret) - least + 1) if secret[at : at + least] in text]


FAMILIES = {family.name: family for family in TOKEN_FAMILIES}


def drawn_from(seed: int) -> random.Random:
    """Give a source of chance that a failing example can repeat."""
    return random.Random(seed)  # noqa: S311 (made-up secrets)
