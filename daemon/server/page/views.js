// SPDX-License-Identifier: BSD-2-Clause
// The views beside the overview: the trace, explain, and lists, over the JSON interface of
// admin.listen (docs/ADMIN.md). Loaded after page.js, whose functions it uses.
"use strict";

const ROWS_MAX = 1000; // of a list that are read
const TRACE_MAX = 200; // requests that are kept
const TRACE_WAITING_MAX = 300; // and that wait to be shown
const FLUSH_MS = 1000;

let view = "overview";
let mayOperate = false;

// ---- asking ----

function address(name, words, filters = {}) {
  const query = new URLSearchParams();
  for (const word of words) {
    query.append("argument", word);
  }
  for (const [key, value] of Object.entries(filters)) {
    if (value !== "") {
      query.append(key, value);
    }
  }
  const text = query.toString();
  return "api/" + name + (text !== "" ? "?" + text : "");
}

// The objects of an answer, at most ROWS_MAX: {rows, isCut, limit}. Errors are thrown.
async function lines(where, method = "GET") {
  const found = { rows: [], isCut: false, limit: "" };
  const answer = await fetch(where, { method, cache: "no-store", signal: AbortSignal.timeout(30000) });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";

  if (!(answer.headers.get("Content-Type") || "").startsWith("application/x-ndjson")) {
    throw new Error("status " + answer.status);
  }
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      throw new Error("the answer has no end");
    }
    const parts = (text + value).split("\n");
    text = parts.pop();
    for (const part of parts) {
      const item = JSON.parse(part);
      if (item.end === "error") {
        throw new Error(item.error);
      } else if (item.end === "ok") {
        found.limit = item.limit || "";
        return found;
      } else if (found.rows.length === ROWS_MAX) {
        found.isCut = true;
        reader.cancel();
        return found;
      }
      found.rows.push(item);
    }
  }
}

function sayResult(element, text, isBad = false) {
  element.classList.toggle("bad", isBad);
  say(element, text);
}

// Asks for a change, and says how it went.
async function change(element, done, name, words) {
  try {
    const { rows } = await lines(address(name, words), "POST");
    const wrong = rows.find((row) => row.error !== undefined);
    sayResult(element, wrong === undefined ? done : wrong.error, wrong !== undefined);
  } catch (error) {
    sayResult(element, error.message, true);
  }
  refresh();
}

// ---- facts ----

function facts(rows) {
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [key, value] of rows) {
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = key;
    text.textContent = value;
    list.append(term, text);
  }
  return list;
}

// The block of a traced request: "  key        value" a line, and "  +0.1 ms  what happened".
function factsOfBlock(block) {
  const rows = [], hops = [];
  for (const line of block.split("\n")) {
    const time = /^ {2}(\+\S+ ms) {2}(.*)$/.exec(line);
    const fact = /^ {2}(\S.{8}) {2}(.*)$/.exec(line);
    if (time !== null) {
      hops.push(time[1] + "  " + time[2]);
    } else if (fact !== null) {
      if (fact[1].trim() === "outcome" && hops.length > 0) {
        rows.push(["on the way", hops.splice(0).join("\n")]);
      }
      rows.push([fact[1].trim(), fact[2]]);
    } else if (line !== "") {
      rows.push(["request", line.trim()]);
    }
  }
  return hops.length > 0 ? [...rows, ["on the way", hops.join("\n")]] : rows;
}

// ---- the trace ----

let source = null; // the EventSource, or null
let waiting = [];
let shownCount = 0, lostCount = 0;
let flushTimer = 0;

const tracePaused = () => at("trace-pause").getAttribute("aria-pressed") === "true";

function spanOf(text, style) {
  const made = document.createElement("span");
  made.className = style || "";
  made.textContent = text;
  return made;
}

function traceRow(item) {
  const row = document.createElement("li"), fold = document.createElement("details");
  const head = document.createElement("summary"), cells = document.createElement("div");
  const isGood = (item.code || "").startsWith("2") || item.reason === "answered";

  cells.className = "row";
  cells.append(spanOf(item.at), spanOf(item.client), spanOf(item.method || "–"),
    spanOf(item.target || "–"), spanOf(((item.code || "") + " " + item.reason).trim(),
      isGood ? "" : "failed"), spanOf(item.ms || "", "number"));
  head.append(cells);
  fold.append(head);
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.children.length === 1) {
      fold.append(facts(factsOfBlock(item.text)));
    }
  });
  row.append(fold);
  return row;
}

function flushTrace() {
  const list = at("trace-list"), fresh = waiting.splice(0);

  flushTimer = 0;
  list.prepend(...fresh.reverse().map(traceRow));
  // The oldest go, but none that a person reads.
  for (let row = list.lastElementChild; row !== null && list.children.length > TRACE_MAX;) {
    const before = row.previousElementSibling;
    if (!row.firstElementChild.open && !row.contains(document.activeElement)) {
      row.remove();
    }
    row = before;
  }
  say(at("trace-count"), number(shownCount) + " shown, " + number(lostCount) + " left out");
}

function takeTraced(event) {
  const item = JSON.parse(event.data);

  lostCount += item.lost || 0;
  if (item.text !== undefined) {
    item.at = new Date().toLocaleTimeString("en-GB") + "." +
      String(Date.now() % 1000).padStart(3, "0");
    waiting.push(item);
    shownCount++;
    if (waiting.length > TRACE_WAITING_MAX) {
      waiting.shift();
      shownCount--;
      lostCount++;
    }
  }
  if (flushTimer === 0) {
    flushTimer = setTimeout(flushTrace, FLUSH_MS);
  }
}

function stopTrace() {
  if (source !== null) {
    source.close();
    source = null;
  }
}

function startTrace() {
  stopTrace();
  if (view !== "trace" || tracePaused()) {
    return;
  }
  const filters = { most: at("trace-most").value };
  for (const key of ["client", "target", "reason", "identity"]) {
    filters[key] = at("trace-" + key).value.trim();
  }
  const words = Object.entries(filters).filter(([key, value]) => key !== "most" && value !== "")
    .map(([key, value]) => key + " " + value).join(", ");
  source = new EventSource(address("trace", [], filters));
  source.addEventListener("open", () =>
    sayResult(at("trace-state"), words === "" ? "All requests" : "Requests with " + words));
  source.addEventListener("message", takeTraced);
  source.addEventListener("end", (event) => {
    stopTrace();
    sayResult(at("trace-state"), JSON.parse(event.data).error || "The trace has ended", true);
  });
  source.addEventListener("error", () => {
    if (source !== null) {
      sayResult(at("trace-state"), source.readyState === EventSource.CLOSED
        ? "The proxy refuses the trace" : "No answer from the proxy; trying again", true);
    }
  });
}

at("trace-form").addEventListener("submit", (event) => {
  event.preventDefault();
  startTrace();
});
at("trace-most").addEventListener("change", startTrace);
at("trace-pause").addEventListener("click", () => {
  at("trace-pause").setAttribute("aria-pressed", tracePaused() ? "false" : "true");
  if (tracePaused()) {
    stopTrace();
    clearTimeout(flushTimer);
    flushTrace();
    sayResult(at("trace-state"), "Paused");
  } else {
    startTrace();
  }
});
at("trace-clear").addEventListener("click", () => {
  waiting = [];
  shownCount = lostCount = 0;
  at("trace-list").replaceChildren();
  say(at("trace-count"), "0 shown, 0 left out");
});

// Names of reasons that have occurred, for the field's suggestions.
function suggestReasons() {
  const names = new Set(readings.length === 0 ? [] : samples(newest(), ENDED)
    .filter((sample) => sample.value > 0).map((sample) => sample.labels.reason));
  at("trace-reasons").replaceChildren(...[...names].sort().map((name) => {
    const option = document.createElement("option");
    option.value = name;
    return option;
  }));
}

// ---- explain ----

at("explain-form").addEventListener("submit", async (event) => {
  const out = at("explain-answer");

  event.preventDefault();
  try {
    const { rows } = await lines(address("explain", [at("explain-target").value.trim()], {
      client: at("explain-client").value.trim(), method: at("explain-method").value,
      "resolves-to": at("explain-address").value.trim(),
    }));
    out.className = "";
    out.replaceChildren(facts(Object.entries(rows[0])));
  } catch (error) {
    out.className = "bad";
    out.replaceChildren(error.message);
  }
});

// ---- lists ----

const seconds = (value) => (value === undefined ? "" : age(value));
const plain = (value) => (value === undefined ? "" : String(value));
const count = (value) => (value === undefined ? "" : number(value));
const millis = (value) => (value === undefined || value === 0 ? "–" : value + " ms");

// Of the keys `same`, one row for all workers: the others are added.
function addWorkers(rows, same, added) {
  const merged = new Map();
  for (const row of rows) {
    const key = same.map((name) => row[name]).join("\n"), into = merged.get(key);
    if (into === undefined) {
      merged.set(key, { ...row });
    } else {
      for (const name of added) {
        into[name] += row[name];
      }
    }
  }
  return [...merged.values()];
}

// Columns: key, title, how it is written, style. `key`: texts that name a row.
const LISTS = {
  sessions: {
    title: "sessions-title", empty: "No client yet.", key: (row) => row.client + row.state,
    columns: [["client", "Client", plain, "any"], ["scheme", "Over", plain, ""],
      ["identity", "Identity", plain, "any"], ["state", "State", plain, ""],
      ["in_flight", "In flight", count, "number"], ["requests", "Requests", count, "number"],
      ["idle_s", "Idle", seconds, "number"], ["suite", "Cipher suite", plain, ""],
      ["why", "Closed because", plain, "any"]],
    action: (row) => (mayOperate && row.state !== "closed" ? ["Close", "close " + row.client,
      () => change(at("said-sessions"), "Closed " + row.client, "close", [row.client])] : null),
  },
  devices: {
    title: "devices-title", empty: "The configuration has none.", key: (row) => row.device,
    columns: [["device", "Device", plain, ""], ["state", "State", plain, ""],
      ["identity", "Identity", plain, "any"], ["scheme", "Over", plain, ""],
      ["address", "Address", plain, "any"], ["since_s", "For", seconds, "number"],
      ["heard_s", "Heard", seconds, "number"], ["queued", "Queued", count, "number"],
      ["observed", "Observed", count, "number"]],
    action: () => null,
  },
  observations: {
    title: "observations-title", empty: "Nothing is observed.", key: (row) => row.target,
    columns: [["target", "Target", plain, "any"], ["state", "State", plain, ""],
      ["observers", "Observers", count, "number"], ["states", "States", count, "number"],
      ["bytes", "Bytes", count, "number"],
      ["age_s", "Age", seconds, "number"], ["max_age_s", "Max-Age", seconds, "number"]],
    action: (row) => ["Follow", "follow " + row.target, () => follow(row.target)],
  },
  origins: {
    title: "servers-title", empty: "None was asked yet.",
    key: (row) => row.origin + row.transport + row.worker,
    columns: [["origin", "Address", plain, "any"], ["transport", "Over", plain, ""],
      ["worker", "Worker", plain, "number"], ["window", "Window", count, "number"],
      ["outstanding", "Outstanding", count, "number"], ["queue", "Queue", count, "number"],
      ["rtt_ms", "Round trip", millis, "number"], ["requests", "Requests", count, "number"],
      ["answers", "Answers", count, "number"], ["resent", "Sent again", count, "number"],
      ["idle_s", "Idle", seconds, "number"]],
    action: () => null,
  },
  busiest: {
    title: "busiest-title", empty: "Counting has begun.", key: (row) => row.kind + row.name,
    columns: [["kind", "", plain, ""], ["name", "Name", plain, "any"],
      ["requests", "Requests, at most", count, "number"], ["at_least", "At least", count, "number"]],
    prepare: (rows) => addWorkers(rows, ["kind", "name"], ["requests", "at_least"])
      .sort((a, b) => (a.kind === b.kind ? b.requests - a.requests : a.kind < b.kind ? 1 : -1)),
    action: () => null,
  },
  faults: {
    title: "faults-title", empty: "There is none.", command: ["fault", ["list"]],
    key: (row) => row.name,
    columns: [["name", "Name", plain, ""], ["from", "From", plain, ""],
      ["keys", "What it does", plain, "any"], ["seed", "Seed", plain, "number"],
      ["requests", "Requests", count, "number"], ["lost", "Lost", count, "number"],
      ["delayed", "Delayed", count, "number"], ["duplicated", "Duplicated", count, "number"],
      ["corrupted", "Corrupted", count, "number"], ["answered", "Answered", count, "number"]],
    prepare: (rows) => addWorkers(rows, ["name", "keys", "from"],
      ["requests", "lost", "delayed", "duplicated", "corrupted", "answered"]),
    action: () => null,
  },
};

function makeList(name, list) {
  const part = at("view-" + name), controls = document.createElement("p");
  const label = document.createElement("label"), field = document.createElement("input");
  const table = document.createElement("table"), region = document.createElement("div");
  const said = document.createElement("span"), shown = document.createElement("span");
  const head = document.createElement("thead"), row = document.createElement("tr");

  controls.className = "controls";
  field.type = "search";
  field.id = "filter-" + name;
  field.autocomplete = "off";
  field.spellcheck = false;
  field.addEventListener("input", () => showList(name));
  label.append("with ", field);
  shown.id = "shown-" + name;
  said.id = "said-" + name;
  said.setAttribute("role", "status");
  controls.append(label, shown, said);
  region.className = "scroll";
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-labelledby", list.title);
  table.id = "list-" + name;
  table.setAttribute("aria-labelledby", list.title);
  for (const [, title, , style] of [...list.columns, ["", "", plain, ""]]) {
    const cellMade = document.createElement(title === "" ? "td" : "th");
    cellMade.textContent = title;
    cellMade.className = style === "number" ? "number" : "";
    if (title !== "") {
      cellMade.scope = "col";
    }
    row.append(cellMade);
  }
  head.append(row);
  table.append(head, document.createElement("tbody"));
  region.append(table);
  part.append(controls, region);
}

function listCells(list, row) {
  const cells = list.columns.map(([key, , write, style]) => cell(write(row[key]), style));
  const action = list.action(row), last = cell("", "");

  if (action !== null) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = action[0];
    button.setAttribute("aria-label", action[1]);
    button.dataset.act = action[1];
    last.append(button);
  }
  return [...cells, last];
}

function showList(name) {
  const list = LISTS[name], wanted = at("filter-" + name).value.trim().toLowerCase();
  const all = list.answer === undefined ? { rows: [], limit: "", isCut: false } : list.answer;
  const rows = all.rows.filter((row) => Object.values(row).join("\n").toLowerCase().includes(wanted));

  fill("list-" + name, rows.map((row) => listCells(list, row)), list.empty);
  say(at("shown-" + name), number(rows.length) + " shown" + (all.isCut
    ? ", of the first " + number(ROWS_MAX) + ": criproxyctl " + name + " has all" : "") +
    (all.limit !== "" ? "; room for " + all.limit : ""));
}

async function askList(name) {
  const list = LISTS[name], [command, words] = list.command || [name, []];

  try {
    const answer = await lines(address(command, words));
    answer.rows = list.prepare === undefined ? answer.rows : list.prepare(answer.rows);
    list.answer = answer;
    list.isBad = false;
    if (at("said-" + name).classList.contains("bad")) {
      sayResult(at("said-" + name), "");
    }
    showList(name);
    if (name === "observations") {
      watchFollowed(answer.rows);
    }
  } catch (error) {
    sayResult(at("said-" + name), error.message, true);
  }
}

// ---- following an observation ----

let followed = null; // {target, last}

function follow(target) {
  followed = { target, last: "" };
  at("followed-title").textContent = "Following " + target;
  at("followed-list").replaceChildren();
  at("followed").hidden = false;
  refresh();
}

function noteFollowed(words) {
  const row = document.createElement("li");
  row.textContent = new Date().toLocaleTimeString("en-GB") + "  " + words;
  at("followed-list").prepend(row);
  while (at("followed-list").children.length > 100) {
    at("followed-list").lastElementChild.remove();
  }
}

// States are numbered: one that is as long as the one before is another one, too.
function watchFollowed(rows) {
  const row = followed === null ? undefined : rows.find((one) => one.target === followed.target);
  if (followed === null) {
    return;
  }
  const before = followed.last;
  if (row === undefined) {
    if (before !== null) {
      noteFollowed("is not observed any more");
      followed.last = null;
    }
    return;
  }
  if (before === "" || before === null || row.states !== before.states ||
      row.observers !== before.observers || row.state !== before.state) {
    noteFollowed(row.state + ", " + (row.states === undefined ? "no state yet" : "state " +
      number(row.states) + ", " + number(row.bytes) + " bytes") + ", observers: " + row.observers);
    followed.last = row;
  }
}

function makeFollowed() {
  const part = document.createElement("div"), title = document.createElement("h3");
  const list = document.createElement("ul"), stop = document.createElement("button");

  part.id = "followed";
  part.hidden = true;
  title.id = "followed-title";
  list.id = "followed-list";
  list.setAttribute("aria-live", "polite");
  list.setAttribute("aria-labelledby", "followed-title");
  stop.type = "button";
  stop.id = "followed-stop";
  stop.textContent = "Stop following";
  stop.addEventListener("click", () => {
    followed = null;
    part.hidden = true;
    at("observations-title").focus();
  });
  part.append(title, stop, list);
  at("view-observations").append(part);
}

// ---- what changes something ----

at("drain").addEventListener("click", () =>
  change(at("drain-said"), "New requests are refused", "drain", ["stay"]));
at("undrain").addEventListener("click", () =>
  change(at("drain-said"), "New requests are served", "undrain", []));
at("fault-form").addEventListener("submit", (event) => {
  event.preventDefault();
  change(at("fault-said"), "Added", "fault", ["add", at("fault-name").value.trim(),
    ...at("fault-keys").value.trim().split(/\s+/)]);
});
at("fault-clear").addEventListener("click", () =>
  change(at("fault-said"), "Cleared", "fault", ["clear"]));

async function askRights() {
  try {
    const { rows } = await lines(address("config", ["admin"]));
    mayOperate = rows.some((row) => row.key === "operate" && row.value === "yes");
  } catch {
    mayOperate = false;
  }
  for (const part of document.querySelectorAll(".operate")) {
    part.hidden = !mayOperate;
  }
}

// ---- views ----

let listTimer = 0;

async function refresh() {
  clearTimeout(listTimer);
  if (LISTS[view] !== undefined && !document.hidden) {
    await askList(view);
  }
  clearTimeout(listTimer);
  if (LISTS[view] !== undefined && !paused()) {
    listTimer = setTimeout(refresh, Number(at("interval").value) * 1000);
  }
}

function showView(isFirst) {
  const wanted = location.hash.slice(1);

  view = at("view-" + wanted) === null ? "overview" : wanted;
  for (const part of document.querySelectorAll(".view")) {
    part.hidden = part.id !== "view-" + view;
  }
  for (const link of at("views").children) {
    if (link.hash === "#" + view) {
      link.setAttribute("aria-current", "page");
    } else {
      link.removeAttribute("aria-current");
    }
  }
  document.title = (view === "overview" ? "" : document.querySelector(
    "#views [aria-current]").textContent + " – ") + "criproxyd";
  if (view === "trace") {
    suggestReasons();
    startTrace();
  } else {
    stopTrace();
  }
  if (view === "overview" && readings.length > 1) {
    show();
  }
  askRights().then(refresh);
  if (!isFirst) {
    document.querySelector("#view-" + view + " h2").focus();
    scrollTo(0, 0);
  }
}

for (const [name, list] of Object.entries(LISTS)) {
  makeList(name, list);
  // One listener for all buttons: rows come and go.
  at("list-" + name).addEventListener("click", (event) => {
    const act = event.target.dataset.act;
    const row = act === undefined ? undefined : (list.answer || { rows: [] }).rows.find((one) => {
      const action = list.action(one);
      return action !== null && action[1] === act;
    });
    if (row !== undefined) {
      list.action(row)[2]();
    }
  });
}
makeFollowed();
at("pause").addEventListener("click", refresh);
at("interval").addEventListener("change", refresh);
at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("main").focus();
});
addEventListener("hashchange", () => showView(false));
document.addEventListener("visibilitychange", refresh);
showView(true);
