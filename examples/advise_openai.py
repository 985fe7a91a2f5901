"""Tell the model that its last run failed, in a host that speaks the OpenAI API.

Runs offline: `OverloadedService` stands for the `openai` client, and fails the first prompt. In a real host replace it
by `OpenAI().chat.completions.create(model=..., messages=...)`; nothing else changes.

Run: python examples/advise_openai.py
"""

import time

from compass_otel.advisor import ErrorAdvisor
from compass_otel.events import AssistantMessage, MessageEnded, PromptSettled
from compass_otel.renderers import render_openai_chat

MODEL = "gpt-example"


class OverloadedService:
    """Fails once, then answers, and shows what it was sent."""

    def __init__(self) -> None:
        self.calls = 0

    def create(self, messages: list[dict[str, str]]) -> str:
        """Answer a request as a chat service does."""
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError('503 {"error":{"message":"The engine is currently overloaded"}}')
        print("the request holds:")
        for message in messages:
            print(f"  {message['role']:>9}: {message['content']}")
        return "Here is the rest."


def prompt(advisor: ErrorAdvisor, service: OverloadedService, history: list[dict[str, str]], text: str) -> None:
    """One turn of the host: ask, keep the answer, and let the advisor see how it went."""
    history.append({"role": "user", "content": text})
    # The notes go into this request only; `history` never holds them.
    request = render_openai_chat(history, advisor.advise(history, f"openai/{MODEL}"))
    try:
        answer = service.create(request)
    except ConnectionError as error:
        failed = AssistantMessage(provider="openai", model=MODEL, stop_reason="error", error_message=str(error))
        advisor.observe(MessageEnded(time.time_ns(), failed))
    else:
        history.append({"role": "assistant", "content": answer})
        advisor.observe(MessageEnded(time.time_ns(), AssistantMessage(stop_reason="stop", text=answer)))
    advisor.observe(PromptSettled(at_ns=time.time_ns()))


def main() -> None:
    """Run two prompts, of which the first fails."""
    advisor, service = ErrorAdvisor(lists_carry_failures=False), OverloadedService()
    history = [{"role": "system", "content": "Be brief."}]
    prompt(advisor, service, history, "List the steps.")
    prompt(advisor, service, history, "And the rest?")
    print(f"the history holds: {[message['role'] for message in history]}")


if __name__ == "__main__":
    main()
