"""The page as a person meets it: found, filtered, walked by keyboard, heard, read in the dark, on paper, on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from page.pages import NOTE, many, page_of

if TYPE_CHECKING:
    from pathlib import Path

    from page.chromium import Browser, Tab

pytestmark = pytest.mark.browser

MANY = 2000
OPEN_WITHIN_MS = 2000
LINES = "[...document.querySelectorAll('#runs li > button')]"
STOP = (
    "(({tagName, id, innerText}) => tagName + '.' + (id || innerText.replace(/\\s+/g, ' ').trim()))"
    "(document.activeElement)"
)
# The contrast of every text in view with what is painted behind it, by the formula of WCAG 2.
CONTRASTS = """
(() => {
  const channels = (c) => (c.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = channels(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const found = [];
  for (const e of document.body.querySelectorAll("*")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility() || e.closest("script, .unseen, noscript, option")) continue;
    const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.slice(0, 30), e.className]);
  }
  return found.sort((a, b) => a[0] - b[0]);
})()
"""


@pytest.fixture(name="tab")
def _tab(browser: Browser, every_page: str) -> Any:
    tab = browser.tab().open(every_page)
    yield tab
    tab.close()


def titles(tab: Tab) -> list[str]:
    """Give the first line of each run in the list."""
    shown: list[str] = tab.evaluate(f"{LINES}.map((line) => line.querySelector('.title').textContent)")
    return shown


def main_text(tab: Tab) -> str:
    """Give what is shown of the opened run."""
    text: str = tab.evaluate("document.querySelector('main').innerText")
    return text


def test_failures_stand_first_and_the_first_is_open(tab: Tab) -> None:
    """What needs a person comes first; on a wide screen it is opened already, with its card and its timeline."""
    words = [title.partition(":")[0] for title in titles(tab)]
    assert words == ["failed", "incomplete", "cancelled", "still open", "completed", "completed"]
    text = main_text(tab)
    assert "Failed · pi 1.6.0" in text
    assert "overloaded, HTTP 503, gave up after 2 attempts" in text
    assert "The server is overloaded, please try again later." in text
    assert "attempt 1" in text
    assert "retried after 60 ms: attempt 2" in text
    assert tab.evaluate("document.querySelectorAll('.rows summary').length") == 3


def test_a_row_opens_to_its_attributes_and_events(tab: Tab) -> None:
    """Each row of the timeline is a disclosure with the failure whole and every attribute of the span."""
    tab.evaluate("[...document.querySelectorAll('.rows summary')].at(-1).click()")
    tab.wait("document.querySelector('.inside')")
    inside = tab.evaluate("document.querySelector('.inside').innerText")
    for told in ("compass.session_error.status", "503", "gave up after 2 attempts"):
        assert told in inside


def test_what_the_model_was_told_is_shown(tab: Tab) -> None:
    """A recorded note stands in a section of its own; of a failed run without one, what it would have been."""
    assert "What the model would be told" in main_text(tab)
    tab.evaluate(f"{LINES}.at(-1).click()")
    tab.evaluate(f"{LINES}.find((line) => line.run.title === 'completed' && !line.run.why).click()")
    text = main_text(tab)
    assert "What the model was told" in text
    assert text.count(NOTE) == 2  # in its section and in its place in the timeline


def test_filters_narrow_the_list_and_say_so(tab: Tab) -> None:
    """Outcome, error type and words apply together; the number of matches is announced."""
    tab.evaluate("document.querySelector('#outcomes button.completed').click()")
    assert [title.partition(":")[0] for title in titles(tab)] == ["completed", "completed"]
    assert tab.evaluate("document.querySelector('[role=status]').textContent") == "2 of 6 runs"
    tab.evaluate("document.getElementById('type').value = 'overloaded'")
    tab.evaluate("document.getElementById('type').dispatchEvent(new Event('change'))")
    assert titles(tab) == ["completed: completed, after 1 retry"]
    tab.evaluate("document.querySelector('#outcomes button.completed').click()")
    assert len(titles(tab)) == 2
    tab.press("/")
    tab.type("503 GAVE")
    assert titles(tab) == ["failed: overloaded, HTTP 503"]
    tab.type(" nothing like it")
    assert titles(tab) == []
    assert "No run matches" in tab.evaluate("document.getElementById('runs').innerText")
    tab.press("Escape")
    assert len(titles(tab)) == 2


def test_the_keyboard_reaches_everything(tab: Tab) -> None:
    """Tab goes through filters, list and rows in their order, and whatever has the focus shows it."""
    stops: list[str] = []
    while True:
        tab.press("Tab")
        stop = tab.evaluate(STOP)
        if stop in stops or stop.startswith("BODY"):
            break
        stops.append(stop)
        style = "getComputedStyle(document.activeElement)"
        assert tab.evaluate(f"{style}.outlineStyle !== 'none' && parseFloat({style}.outlineWidth) >= 2"), stop
    order = ["A.Skip to the runs", "A.Skip to the opened run", "BUTTON.✖", "INPUT.words", "SELECT.type", "SUMMARY.✖"]
    places = [next(at for at, stop in enumerate(stops) if stop.startswith(wanted)) for wanted in order]
    assert places == sorted(places)
    assert stops[-1] == "SUMMARY.Keyboard"
    assert len([stop for stop in stops if stop.startswith("SUMMARY.")]) == 3 + 1
    # The list is one stop: what is in it is for the arrows.
    assert len([stop for stop in stops if stop.startswith("BUTTON.")]) == 5 + 1


def test_the_keys_move_open_and_go_back(tab: Tab) -> None:
    """What the foot of the page says of j, k, arrows, Home, End, Enter and Escape is what they do."""
    tab.evaluate(f"{LINES}[0].focus()")
    tab.press("j")
    assert "Incomplete · pi" in main_text(tab)
    tab.press("ArrowDown", "ArrowDown", "k")
    assert "Cancelled · pi" in main_text(tab)
    assert tab.evaluate(f"{LINES}.indexOf(document.activeElement)") == 2
    tab.press("End")
    assert tab.evaluate(f"{LINES}.indexOf(document.activeElement)") == 5
    tab.press("Home", "Enter")
    assert tab.evaluate("document.activeElement.tagName") == "H2"
    tab.press("Tab", "Enter")
    tab.wait("document.querySelector('.inside')")
    tab.press("Escape")
    assert tab.evaluate(f"{LINES}.indexOf(document.activeElement)") == 0


def test_single_letters_can_be_switched_off(tab: Tab) -> None:
    """Who speaks to the computer can switch the one-letter keys off, and they never act while a person types."""
    tab.press("/")
    tab.type("j")
    assert tab.evaluate("document.getElementById('words').value") == "j"
    tab.press("Escape", "Escape")
    tab.evaluate("document.getElementById('letters').click()")
    tab.press("j")
    assert "Failed · pi" in main_text(tab)


def test_a_screen_reader_finds_landmarks_and_names(tab: Tab) -> None:
    """Banner, navigation, search, main and foot are there, and everything that can be used has a name."""
    tab.evaluate("document.getElementById('keys').open = true")
    heard = tab.named()
    roles = [role for role, _ in heard]
    for landmark in ("banner", "navigation", "search", "main", "contentinfo", "status"):
        assert roles.count(landmark) == 1, landmark
    usable = {"button", "link", "searchbox", "combobox", "checkbox", "DisclosureTriangle", "heading", "region"}
    nameless = [role for role, name in heard if role in usable and not name.strip()]
    assert nameless == []
    names = {name for role, name in heard if role in ("button", "DisclosureTriangle")}
    assert any(name.startswith("failed: overloaded, HTTP 503") and "gave up after 2 attempts" in name for name in names)
    assert any("begins 120 ms into the run, took 40 ms" in name for name in names)
    assert [name for role, name in heard if role == "heading"][:2] == ["1 of 6 runs failed", " Failed · pi 1.6.0"]
    assert tab.evaluate("document.documentElement.lang") == "en"
    assert tab.evaluate(f"{LINES}.map((line) => line.getAttribute('aria-current'))")[:2] == ["true", None]


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read_in_light_and_in_dark(browser: Browser, every_page: str, *, dark: bool) -> None:
    """The page follows the system's choice, and every text has a contrast of at least 4.5 to what is behind it."""
    tab = browser.tab(dark=dark).open(every_page)
    ground = tab.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
    assert all(channel < 64 for channel in ground) if dark else all(channel > 192 for channel in ground)
    for at in range(6):
        tab.evaluate(f"{LINES}[{at}].click(); for (const d of document.querySelectorAll('details')) d.open = true")
        tab.wait("document.querySelector('.inside')")
        lowest = tab.evaluate(CONTRASTS)
        assert len(lowest) > 40
        assert lowest[0][0] >= 4.5, lowest[:3]
    tab.close()


def test_on_a_phone_list_and_run_take_turns(browser: Browser, every_page: str) -> None:
    """At 400 pixels nothing is cut sideways; opening a run shows it alone, and a button leads back to its line."""
    tab = browser.tab(width=400).open(every_page)
    fits = "document.documentElement.scrollWidth <= innerWidth"
    assert tab.evaluate(fits)
    assert tab.evaluate("getComputedStyle(document.querySelector('main')).display") == "none"
    tab.evaluate(f"{LINES}[2].click()")
    assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert tab.evaluate("document.activeElement.tagName") == "H2"
    tab.evaluate("for (const d of document.querySelectorAll('main details')) d.open = true")
    tab.wait("document.querySelector('.inside')")
    assert tab.evaluate(fits)
    tab.evaluate("document.querySelector('.back').click()")
    assert tab.evaluate(f"{LINES}.indexOf(document.activeElement)") == 2
    tab.close()


def test_on_paper_the_opened_run_stands_alone(browser: Browser, every_page: str) -> None:
    """Printing leaves out what is for the hand, and prints the run; after Escape it prints the list."""
    tab = browser.tab(media="print").open(every_page)
    shown = "['nav', 'search', 'main', '#keys'].filter((each) => document.querySelector(each).checkVisibility())"
    assert tab.evaluate(shown) == ["main"]
    assert tab.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    tab.press("Escape")
    assert tab.evaluate("document.querySelector('#runs li').checkVisibility()")
    tab.close()


def test_a_link_to_a_run_opens_it(browser: Browser, every_page: str) -> None:
    """The address names the opened run, so it can be kept."""
    tab = browser.tab().open(f"{every_page}#run-3")
    assert "Cancelled · pi" in main_text(tab)
    tab.press("k")
    assert tab.evaluate("location.hash") == "#run-4"
    tab.close()


def test_two_thousand_runs_open_in_under_two_seconds(browser: Browser, tmp_path: Path) -> None:
    """From the start of navigation to the first frame with the list in it, and to the whole file read."""
    file = tmp_path / "runs.html"
    file.write_bytes(page_of(many(MANY, 12)))
    listed, whole = [], []
    for _ in range(3):
        tab = browser.tab().open(file.as_uri())
        listed.append(tab.evaluate("performance.getEntriesByName('runs-listed')[0].startTime"))
        whole.append(tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
        assert tab.evaluate("document.querySelector('h1').textContent") == "500 of 2,000 runs failed"
        assert len(titles(tab)) == 200
        tab.close()
    assert min(listed) < OPEN_WITHIN_MS
    assert min(whole) < OPEN_WITHIN_MS


def test_a_long_list_is_walked_to_its_end(browser: Browser, tmp_path: Path) -> None:
    """More runs come by the button, which hands on the focus, and by walking past the last one shown."""
    file = tmp_path / "runs.html"
    file.write_bytes(page_of(many(450, 3)))
    tab = browser.tab().open(file.as_uri())
    tab.evaluate("document.querySelector('.more').click()")
    assert tab.evaluate(f"{LINES}.indexOf(document.activeElement)") == 200
    tab.press("End", "j")
    assert len(titles(tab)) == 450
    assert tab.evaluate("document.querySelector('.more')") is None
    assert tab.evaluate(f"{LINES}.filter((line) => line.tabIndex === 0).length") == 1
    tab.close()


def test_a_page_without_runs_says_so(browser: Browser, tmp_path: Path) -> None:
    """Nothing to show is shown as nothing, without an error."""
    file = tmp_path / "runs.html"
    file.write_bytes(page_of([]))
    tab = browser.tab().open(file.as_uri())
    assert tab.evaluate("document.querySelector('h1').textContent") == "0 runs"
    assert tab.events("Runtime.exceptionThrown") == []
    tab.press("j", "Enter", "Escape")
    assert tab.events("Runtime.exceptionThrown") == []
    tab.close()
