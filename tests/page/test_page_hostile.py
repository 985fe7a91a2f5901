"""Whatever a recording says: the page runs none of it, loads nothing, and shows it as text."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from page.pages import ACTIVE, DECEPTIVE, every_kind, page_of, recorded
from view_samples import event, failed_chat, root, run, span

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from page.chromium import Browser, Tab

pytestmark = pytest.mark.browser

LINES = "[...document.querySelectorAll('#runs li > button')]"
ROWS = "for (const each of document.querySelectorAll('main details')) each.open = true;"
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
# Opens every run and every row, so that all that a person could see has been made.
OPEN_ALL = f"for (const line of {LINES}) {{ line.click(); {ROWS} }} {FRAME}"
OURS = {
    *(
        "A",
        "ARTICLE",
        "BLOCKQUOTE",
        "BUTTON",
        "CAPTION",
        "DD",
        "DETAILS",
        "DIV",
        "DL",
        "DT",
        "FOOTER",
        "H1",
        "H2",
        "H3",
    ),
    *(
        "HEADER",
        "INPUT",
        "KBD",
        "LABEL",
        "LI",
        "MAIN",
        "NAV",
        "NOSCRIPT",
        "OL",
        "OPTION",
        "P",
        "PRE",
        "SCRIPT",
        "SEARCH",
    ),
    *("SECTION", "SELECT", "SPAN", "SUMMARY", "TABLE", "TBODY", "TD", "TH", "TIME", "TR", "UL"),
}


def opened(browser: Browser, file: Path) -> Tab:
    """Open a page and everything in it."""
    tab = browser.tab().open(file.as_uri())
    tab.evaluate(OPEN_ALL)
    return tab


def assert_inert(tab: Tab, scripts: int) -> None:
    """Nothing ran, nothing was loaded, no element is there that the page did not make itself."""
    assert tab.evaluate("window.ran") is None
    assert tab.evaluate("document.scripts.length") == scripts
    assert set(tab.evaluate("[...new Set([...document.body.querySelectorAll('*')].map((e) => e.tagName))]")) <= OURS
    names = tab.evaluate("[...new Set([...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames()))]")
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcdoc", "action", "formaction")]
    assert len(tab.events("Network.requestWillBeSent")) == 1
    assert tab.events("Runtime.exceptionThrown") == []
    assert tab.events("Log.entryAdded") == []
    assert tab.events("Page.javascriptDialogOpening") == []


def hostile_run(text: str) -> dict[str, Any]:
    """Give a run that says *text* wherever a recording can say anything."""
    facts = {"gen_ai.tool.name": text, "compass.tool.diff.paths": [text, text], text: text}
    tool = span(f"execute_tool {text}", 1, 20, attributes=facts)
    told = event("compass.advisor.note", 30, compass__advisor__text=text)
    chat = failed_chat(30, 90, text, error__type=text, gen_ai__request__model=text)
    chat["events"] = [told, event(text, 40, **{text: text})]
    made = run(
        "failed", root(100, gen_ai__agent__name=text, gen_ai__conversation__id=text), tool, chat, error_type=text
    )
    made["trace_id"] = text
    return made


def test_active_content_in_every_place_is_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    """Scripts, handlers, frames and addresses in names, messages, keys and notes run nothing and are readable."""
    file = tmp_path / "runs.html"
    file.write_bytes(page_of(hostile_run(text) for text in ACTIVE))
    tab = browser.tab().open(file.as_uri())
    seen = ""
    for at in range(len(ACTIVE)):
        tab.evaluate(f"{LINES}[{at}].click(); {ROWS} {FRAME}")
        seen += tab.evaluate("document.querySelector('main').textContent")
    for text in ACTIVE:
        assert seen.count(text) > 5, text
    tab.evaluate(OPEN_ALL)
    assert_inert(tab, scripts=len(ACTIVE) + 2)
    tab.close()


def test_texts_that_pass_for_others_are_shown_as_what_they_are(browser: Browser, tmp_path: Path) -> None:
    """Bidi marks, terminal sequences and invisibles never reach the document; their codes stand in their place."""
    file = tmp_path / "runs.html"
    file.write_bytes(page_of([hostile_run(DECEPTIVE)]))
    tab = opened(browser, file)
    shown = tab.evaluate("document.body.innerText") + tab.evaluate("document.title")
    assert not set(DECEPTIVE) - set("safegnp.exe red title abc[310m;]") & set(shown)
    assert "safe\\u202egnp.exe" in shown
    assert "\\u001b[31mred" in shown
    assert "\\ue0041" in shown
    assert_inert(tab, scripts=3)
    tab.close()


def test_a_hostile_recording_is_harmless_from_end_to_end(browser: Browser, tmp_path: Path) -> None:
    """The same texts in a real stream, read by the real command."""
    page = recorded(tmp_path, "\n".join((*ACTIVE, DECEPTIVE)), model="<img src=x onerror=window.ran=11>")
    tab = opened(browser, page)
    text = tab.evaluate("document.querySelector('main').innerText")
    assert ACTIVE[0] in text
    assert "<img src=x onerror=window.ran=11>" in text
    assert_inert(tab, scripts=3)
    tab.close()


def test_a_huge_message_leaves_the_page_usable(browser: Browser, tmp_path: Path) -> None:
    """A megabyte of error text costs a screen of it, and no sideways scrolling."""
    page = recorded(tmp_path, "503 " + "x" * 1_000_000)
    assert page.stat().st_size < 100_000
    tab = browser.tab(width=400).open(page.as_uri())
    tab.evaluate(OPEN_ALL)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    assert tab.evaluate("document.querySelector('main pre').getBoundingClientRect().height") < 300
    assert_inert(tab, scripts=3)
    tab.close()


@pytest.fixture(name="server")
def _server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    body = page_of(every_kind())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_from_a_server_asks_for_itself_alone(browser: Browser, server: tuple[str, list[str]]) -> None:
    """One request, the page: no icon, no font, no picture."""
    address, asked = server
    tab = browser.tab().open(f"{address}/runs.html")
    tab.evaluate(OPEN_ALL)
    assert_inert(tab, scripts=8)
    assert asked == ["/runs.html"]
    tab.close()


@pytest.mark.parametrize(
    "attempt",
    [
        "fetch('{0}/fetch').catch(() => 0)",
        "new Promise((done) => {{ const i = new Image(); i.onload = i.onerror = done; i.src = '{0}/image'; }})",
        "{{ const s = document.createElement('script'); s.append('window.ran = 12'); document.body.append(s); }}",
        "try {{ document.body.innerHTML = '<img src={0}/inner>'; }} catch {{}}",
        "try {{ window.eval('window.ran = 13'); }} catch {{}}",
        "try {{ document.body.setAttribute('onclick', 'window.ran = 14'); }} catch {{}} document.body.click()",
        "try {{ navigator.sendBeacon('{0}/beacon'); }} catch {{}}",
    ],
)
def test_the_policy_stops_what_the_script_should_ever_be_made_to_do(
    browser: Browser, server: tuple[str, list[str]], attempt: str
) -> None:
    """Even code inside the page loads nothing and adds no script: the policy is a second wall behind the first."""
    address, asked = server
    tab = browser.tab().open(f"{address}/runs.html")
    tab.evaluate(attempt.format(address))
    tab.evaluate(FRAME)
    assert tab.evaluate("window.ran") is None
    assert asked == ["/runs.html"]
    tab.close()
