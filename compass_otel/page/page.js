"use strict";
// Every text of a recording goes through `shown` and into a text node. No markup is ever made from data: the page's
// policy forbids it (trusted types), and nothing here would know how.
{
  const AT_ONCE = 200; // runs listed at a time; the rest waits behind a button
  const LONG_CHARS = 1200;
  const NARROW = matchMedia("(max-width: 54rem)");
  const LOUD = new Set(["failed", "retried", "went_on", "cancelled", "incomplete", "tool_failed", "not_executed", "empty"]);
  // Controls, bidi marks and invisibles: they could make a text look like another one.
  const DECEPTIVE =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

  const byId = (id) => document.getElementById(id);
  const data = (id) => JSON.parse(byId(id).textContent);
  const index = data("index");
  for (const run of index.runs) run.text = run.text.toLowerCase();

  // ---- elements ----

  const shown = (text) =>
    String(text).replace(DECEPTIVE, (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));

  /** Make an element: `kind` is "tag.class.class", `content` a text, an element, or a list of them. */
  function make(kind, content = [], attributes = {}) {
    const [tag, ...classes] = kind.split(".");
    const made = document.createElement(tag);
    if (classes.length) made.className = classes.join(" ");
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    for (const part of [content].flat()) {
      if (part) made.append(part instanceof Node ? part : document.createTextNode(shown(part)));
    }
    return made;
  }

  const text = (value) => make("span.text", value, { dir: "auto" });
  const dots = (kind, values) => make(kind + ".dots", values.filter(Boolean).map((v) => (v instanceof Node ? v : text(v))));
  const fateClass = (fate) => (fate === "empty" ? "empty_answer" : fate);
  const mark = (fate) => make("span.mark." + fateClass(fate), index.fates[fate].mark, { "aria-hidden": "true" });
  const unseen = (words) => make("span.unseen", words);
  const upper = (word) => word.charAt(0).toUpperCase() + word.slice(1);
  const counted = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

  const two = (n) => String(n).padStart(2, "0");
  const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const minuteOf = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
  const clockOf = (at) => `${minuteOf(at)}:${two(at.getSeconds())}`;

  /** A time in the reader's zone: "clock" alone, to the "minute", or whole; nothing where none is known. */
  function when(ms, form = "whole") {
    if (!ms) return null;
    const at = new Date(ms);
    const words = { clock: clockOf(at), minute: `${dayOf(at)} ${minuteOf(at)}`, whole: `${dayOf(at)} ${clockOf(at)}` };
    return make("time", words[form], { datetime: at.toISOString() });
  }

  // ---- the list ----

  const starts = index.runs.map((run) => run.start_ms).filter(Boolean).sort((a, b) => a - b);
  const ONE_DAY = new Set([starts[0], starts.at(-1)].map((ms) => dayOf(new Date(ms)))).size === 1;

  const chosen = { fates: new Set(), type: "", words: [] };
  let matching = index.runs;
  let listed = 0;
  let current = null; // the opened run's line

  function applies(run) {
    return (
      (!chosen.fates.size || chosen.fates.has(run.fate)) &&
      (!chosen.type || run.types.includes(chosen.type)) &&
      chosen.words.every((word) => run.text.includes(word))
    );
  }

  function listAgain() {
    matching = index.runs.filter(applies);
    listed = 0;
    byId("runs").replaceChildren();
    listMore();
    const all = index.runs.length;
    byId("matching").textContent =
      matching.length === all ? counted(all, "run") : `${matching.length.toLocaleString("en")} of ${counted(all, "run")}`;
    if (!matching.length) byId("runs").append(make("p.empty.soft", "No run matches."));
  }

  function listMore() {
    const runs = byId("runs");
    runs.querySelector(".more")?.remove();
    for (const run of matching.slice(listed, listed + AT_ONCE)) groupFor(runs, run.fate).append(make("li", lineOf(run)));
    listed = Math.min(listed + AT_ONCE, matching.length);
    if (listed < matching.length) {
      const more = make("button.more", `Show more (${(matching.length - listed).toLocaleString("en")} left)`, { type: "button" });
      more.addEventListener("click", () => {
        const first = listed;
        listMore();
        lines()[first].focus();
      });
      runs.append(more);
    }
    keepOneTabStop();
  }

  function groupFor(runs, fate) {
    const id = "group-" + fate;
    let list = byId(id);
    if (!list) {
      const count = matching.reduce((sum, run) => sum + (run.fate === fate), 0);
      list = make("ol", [], { id, "aria-labelledby": id + "-name" });
      runs.append(make("h3", `${upper(index.fates[fate].word)} · ${count.toLocaleString("en")}`, { id: id + "-name" }), list);
    }
    return list;
  }

  function lineOf(run) {
    const title = make("span.title.text", [unseen(index.fates[run.fate].word + ": "), run.title], { dir: "auto" });
    const parts = [make("span.line", [title, when(run.start_ms, ONE_DAY ? "clock" : "minute")])];
    if (run.why) parts.push(make("span.why.text", [unseen(", "), run.why], { dir: "auto" }));
    parts.push(make("span.about", [unseen(". "), dots("span", run.about)]));
    const line = make("button", [mark(run.fate), make("span", parts)], { type: "button" });
    line.run = run;
    if (run === current) line.setAttribute("aria-current", "true");
    line.addEventListener("click", () => open(run, { go: NARROW.matches }));
    return line;
  }

  const lines = () => [...byId("runs").querySelectorAll("li > button")];

  /** The list is one stop of the Tab key: the opened run, else the first. Arrows move inside it. */
  function keepOneTabStop(stop) {
    const all = lines();
    const wanted = stop ?? all.find((line) => line.run === current) ?? all[0];
    for (const line of all) line.tabIndex = line === wanted ? 0 : -1;
  }

  function step(by) {
    let all = lines();
    const at = all.findIndex((line) => line === document.activeElement);
    const from = at >= 0 ? at : all.findIndex((line) => line.run === current);
    if (from + by >= all.length && listed < matching.length) {
      listMore();
      all = lines();
    }
    const line = all[Math.min(Math.max(from + by, 0), all.length - 1)];
    if (!line) return;
    keepOneTabStop(line);
    if (!document.body.classList.contains("opened") || !NARROW.matches) line.focus();
    if (!NARROW.matches || document.body.classList.contains("opened")) open(line.run);
  }

  // ---- a run ----

  function open(run, { go = false } = {}) {
    const block = byId("run-" + run.number);
    if (!block) {
      // The page shows its list while the rest of the file is still being read.
      document.addEventListener("DOMContentLoaded", () => open(run, { go }), { once: true });
      return;
    }
    current = run;
    for (const line of lines()) {
      if (line.run === run) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
      if (line.run === run) line.scrollIntoView({ block: "nearest" });
    }
    keepOneTabStop();
    document.body.classList.add("opened");
    byId("run").replaceChildren(...pageOf(JSON.parse(block.textContent)));
    history.replaceState(null, "", "#run-" + run.number);
    scrollTo(0, 0);
    if (go) byId("run").querySelector("h2").focus({ preventScroll: true });
  }

  function close() {
    document.body.classList.remove("opened");
    (lines().find((line) => line.run === current) ?? lines()[0])?.focus();
  }

  function pageOf(page) {
    const back = make("button.back", "← All runs", { type: "button" });
    back.addEventListener("click", close);
    const heading = make("h2." + page.fate, [mark(page.fate), " " + upper(index.fates[page.fate].word) + " · ", text(page.agent)], { tabindex: "-1" });
    const facts = [...page.models, when(page.start_ms), page.length, ...page.totals];
    const parts = [back, heading];
    if (page.headline) parts.push(make("p.headline." + page.fate, text(page.headline)));
    parts.push(dots("p.facts", facts), idsOf(page));
    if (page.failures.length) parts.push(failuresOf(page));
    parts.push(timelineOf(page));
    if (page.notes.length) parts.push(notesOf(page.notes));
    return parts;
  }

  function idsOf(page) {
    const pairs = [["session", page.session], ["trace", page.trace], ["read from", page.source]];
    return make("dl.ids", pairs.filter(([, value]) => value).map(([name, value]) => [make("dt", name), make("dd", text(value))]).flat());
  }

  function section(title, content) {
    const id = "part-" + title.replace(/\W+/g, "-").toLowerCase();
    return make("section", [make("h3", title, { id }), content].flat(), { "aria-labelledby": id });
  }

  function failuresOf(page) {
    const [first, ...rest] = page.failures;
    const title = first.fate === "cancelled" ? "What was cancelled" : page.headline ? "What failed" : "What failed on the way";
    return section(title, [cardOf(first, first.steps), ...rest.map((each) => cardOf(each, each.steps, true))]);
  }

  /** A failure as a card; `folded` hides its message behind a button of its own. */
  function cardOf(card, steps, folded = false) {
    const parts = [make("p.said", dots("span", card.facts))];
    const message = make("pre" + (card.message.length > LONG_CHARS ? ".long" : ""), card.message, { dir: "auto" });
    if (message.classList.contains("long")) {
      for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", "The whole message"]]) message.setAttribute(name, value);
    }
    const led = steps.filter((each) => each.next).map((each) => make("li", [each.attempt && make("span.soft", each.attempt), text("→ " + each.next)]));
    if (!folded) parts.push(message);
    if (led.length) parts.push(make("ul.steps", led));
    if (folded) parts.push(make("details", [make("summary", "Message"), message]));
    return make("div.card." + fateClass(card.fate), parts);
  }

  function notesOf(notes) {
    const would = notes.every((note) => note.would);
    const title = would ? "What the model would be told" : "What the model was told";
    const said = "No note was recorded. With the error advisor in the agent, the next request would have carried this:";
    return section(title, [would && make("p.soft", said), ...notes.map((note) => make("blockquote.told.text", note.text, { dir: "auto" }))]);
  }

  // ---- the timeline ----

  const percent = (share) => (share * 100).toFixed(3) + "%";

  function placed(kind, left, width) {
    const made = make(kind);
    made.style.setProperty("--left", percent(left));
    made.style.setProperty("--width", percent(width));
    return made;
  }

  function timelineOf(page) {
    const ticks = page.timeline.ticks.map((tick) => {
      const made = placed("span.tick" + (tick.left > 0.85 ? ".edge" : ""), tick.left, 0);
      made.append(shown(tick.words));
      return made;
    });
    const scale = make("div.grid.scale", [make("span"), make("div", ticks), make("span")], { "aria-hidden": "true" });
    const rows = make("ol.rows", page.timeline.rows.map((row) => rowOf(row, 0)));
    const parts = [make("div.timeline", [scale, rows])];
    if (page.hidden) parts.unshift(make("p.soft", page.hidden));
    return section("Timeline", parts);
  }

  function rowOf(row, depth) {
    const summary = make("summary.grid", [nameOf(row, depth), trackOf(row), make("span.number", row.length)]);
    const details = make("details", summary);
    // What is inside a row is made when it is opened: a long run has thousands of attributes.
    details.addEventListener("toggle", () => details.children.length === 1 && details.append(insideOf(row)));
    const below = row.rows.length ? make("ol", row.rows.map((each) => rowOf(each, depth + 1))) : null;
    return make("li", [details, below]);
  }

  function nameOf(row, depth) {
    const quiet = ["completed", "note", "open"].includes(row.fate);
    const name = make("span.name." + fateClass(row.fate), [mark(row.fate), text(row.name)]);
    name.style.setProperty("--depth", depth);
    const facts = quiet ? [] : [index.fates[row.fate].word];
    if (row.card) facts.push(...row.card.facts.slice(1).filter((fact) => fact !== "attempt 1" && !/retryable$/.test(fact)));
    if (facts.length) name.append(dots("span.why", facts));
    const details = row.details.filter((detail) => !facts.includes(detail));
    if (details.length) name.append(dots("span.extra", details));
    name.append(unseen(row.kind === "note" ? `, ${row.begins} into the run` : `, begins ${row.begins} into the run, took `));
    return name;
  }

  function trackOf(row) {
    const track = make("span.track." + fateClass(row.fate), [], { "aria-hidden": "true" });
    if (row.kind === "note" || (!row.length && !row.width)) {
      track.append(placed("span.point", row.left, 0));
      return track;
    }
    const look = LOUD.has(row.fate) ? ".loud" : row.kind === "execute_tool" ? ".tooled" : "";
    const whole = row.kind === "invoke_agent" ? ".whole" : "";
    const bar = placed("span.bar" + look + whole, row.left, row.width);
    bar.style.setProperty("--room", percent(1 - row.left));
    track.append(bar);
    if (row.wait) track.append(placed("span.wait", row.left + row.width, row.wait));
    return track;
  }

  function insideOf(row) {
    const parts = [];
    if (row.card) parts.push(cardOf(row.card, [{ attempt: "", next: row.card.next }]));
    if (Object.keys(row.attributes).length) parts.push(tableOf("Attributes", row.attributes));
    for (const event of row.events) parts.push(tableOf(`Event ${event.name}, ${event.at} into the run`, event.attributes));
    if (!parts.length) parts.push(make("p.soft", `${row.begins} into the run`));
    return make("div.inside", parts);
  }

  function tableOf(caption, attributes) {
    const rows = Object.entries(attributes).map(([key, value]) => make("tr", [make("th", text(key), { scope: "row" }), make("td", text(value))]));
    return make("table", [make("caption", caption), make("tbody", rows)]);
  }

  // ---- filters and keys ----

  function setUpFilters() {
    const counts = {};
    const types = {};
    for (const run of index.runs) {
      counts[run.fate] = (counts[run.fate] ?? 0) + 1;
      for (const type of run.types) types[type] = (types[type] ?? 0) + 1;
    }
    const fates = Object.keys(index.fates).filter((fate) => counts[fate]);
    const order = [...new Set(index.runs.map((run) => run.fate))];
    for (const fate of order.filter((each) => fates.includes(each))) {
      const button = make("button." + fate, [mark(fate), ` ${index.fates[fate].word} ${counts[fate].toLocaleString("en")}`], { type: "button", "aria-pressed": "false" });
      button.addEventListener("click", () => {
        const on = !chosen.fates.delete(fate);
        if (on) chosen.fates.add(fate);
        button.setAttribute("aria-pressed", String(on));
        listAgain();
      });
      byId("outcomes").append(button);
    }
    for (const type of Object.keys(types).sort()) byId("type").append(make("option", `${type} (${types[type].toLocaleString("en")})`, { value: type }));
    byId("type").addEventListener("change", () => {
      chosen.type = byId("type").value;
      listAgain();
    });
    byId("words").addEventListener("input", () => {
      chosen.words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
      listAgain();
    });
  }

  function setUpHead() {
    const worst = index.runs[0]?.fate;
    const count = index.runs.filter((run) => run.fate === worst).length;
    const all = index.runs.length;
    const told = count < all ? `${count.toLocaleString("en")} of ${counted(all, "run")} ${index.fates[worst].word}` : `${counted(all, "run")}`;
    document.querySelector("h1").textContent = all && count === all ? `${counted(all, "run")}, all ${index.fates[worst].word}` : told;
    const [first, last] = [starts[0], starts.at(-1)];
    if (starts.length) byId("overview").append(when(first));
    if (first !== last) byId("overview").append(" to ", when(last, ONE_DAY ? "clock" : "whole"));
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input[type=search], select");
    const inList = event.target.closest("#runs");
    if (event.key === "Escape") return onEscape(typing);
    if (typing) return undefined;
    const letters = byId("letters").checked;
    const moves = { ...(letters && { j: 1, k: -1 }), ...(inList && { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }) };
    if (event.key in moves) {
      event.preventDefault();
      step(moves[event.key]);
    } else if (event.key === "/" && letters) {
      event.preventDefault();
      if (NARROW.matches) document.body.classList.remove("opened");
      byId("words").focus();
    } else if (event.key === "Enter" && inList && event.target.run) {
      event.preventDefault();
      open(event.target.run, { go: true });
    }
    return undefined;
  }

  function onEscape(typing) {
    if (typing && byId("words").value) {
      byId("words").value = "";
      byId("words").dispatchEvent(new Event("input"));
    } else {
      close();
    }
  }

  function start() {
    setUpHead();
    setUpFilters();
    listAgain();
    byId("closing").append(...index.closing.map((line) => make("p", line)));
    document.addEventListener("keydown", onKey);
    // For whoever measures how fast the page is: the first frame with the list in it.
    requestAnimationFrame(() => setTimeout(() => performance.mark("runs-listed")));
    document.addEventListener("DOMContentLoaded", () => {
      const named = index.runs.find((run) => "#run-" + run.number === location.hash);
      if (named) open(named);
      else if (!NARROW.matches && index.runs.length) open(index.runs[0]);
    });
  }

  start();
}
