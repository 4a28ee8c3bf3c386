// Lists, filters, shows and searches what was said. Text is only ever put in as text; data comes as
// scripts, since a page that was opened from a disk may fetch nothing.
"use strict";

const PAGE = 100; // rows of a list that are shown at once
const KEPT = 6; // pieces that stay in memory
const MOST_FOUND = 1000;
const AROUND = 60; // characters shown on each side of what was found
const OUTCOMES = ["fail", "pass", "unscored"];
const SIGNS = { pass: "✓", fail: "✗", unscored: "·" };
const RESULTS = { pass: "passed", fail: "failed", unscored: "unscored" };
const FLAGS = { stale: 1, split: 2, replayed: 4, invalid: 8 };
const FLAG_WORDS = {
  stale: "stale", split: "judges differ", replayed: "played again", invalid: "user model at fault",
};

// Elements

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== ""));
  return made;
}

const name = (text) => make("span", { class: "name" }, text);
const find = (selector) => document.querySelector(selector);
const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// Pieces of data

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("crosswind", {
      createScriptURL: (path) => {
        if (!/^(?:[\w.@-]+\/)*[\w-]+\.js$/.test(path)) throw new TypeError(`no piece: ${path}`);
        return path;
      },
    })
  : { createScriptURL: (path) => path };
const arriving = new Map();
const pieces = new Map();

// each piece is a script that calls this with what it holds
window.crosswind = (value) => {
  arriving.get(document.currentScript)?.(value);
};

function piece(path) {
  const known = pieces.get(path);
  if (known) {
    pieces.delete(path); // and in again, as the one that was used last
    pieces.set(path, known);
    return known;
  }
  const asked = new Promise((resolve, reject) => {
    const script = document.createElement("script");
    arriving.set(script, resolve);
    const done = () => {
      arriving.delete(script);
      script.remove();
    };
    script.addEventListener("load", () => {
      done();
      reject(new Error(`${path} is empty`)); // unless it has been resolved
    });
    script.addEventListener("error", () => {
      done();
      pieces.delete(path);
      reject(new Error(`${path} could not be loaded. Is the folder complete?`));
    });
    script.src = policy.createScriptURL(path);
    document.head.append(script);
  });
  pieces.set(path, asked);
  for (const old of pieces.keys()) {
    if (pieces.size <= KEPT) break;
    pieces.delete(old);
  }
  return asked;
}

// What the address asks for

function asked() {
  const text = location.hash.slice(1);
  // an id by itself is a link to its conversation
  if (text && !text.includes("=")) return new URLSearchParams({ c: decoded(text) });
  return new URLSearchParams(text);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a link that was cut off within a letter
  }
}

function address(wanted, changes) {
  const next = new URLSearchParams(wanted);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(key);
    else next.set(key, value);
  }
  return `#${next}`;
}

// Words within text

const plain = (text) => text.toLowerCase().replaceAll("’", "'");

function parts(text, wanted) {
  // what stands before, in and behind the first place; null where one of the words is nowhere
  const said = plain(text);
  const words = said.includes(wanted) ? [wanted] : wanted.split(/\s+/);
  const places = words.map((word) => said.indexOf(word));
  if (!wanted || places.includes(-1)) return null;
  const at = Math.min(...places);
  const end = at + words[places.indexOf(at)].length;
  const start = Math.max(0, at - AROUND);
  return make(
    "span", { class: "snippet name" },
    (start ? "…" : "") + text.slice(start, at), make("mark", {}, text.slice(at, end)),
    text.slice(end, end + AROUND) + (end + AROUND < text.length ? "…" : ""),
  );
}

const whole = (content) => (typeof content === "string" ? content : content.join(""));

// One conversation

function shown(content) {
  if (typeof content === "string") return [content];
  return content.map((text, n) => (n % 2 ? make("mark", { class: "evidence" }, text) : text));
}

function folded(title, text, kind = "") {
  return text ? make("details", { class: `fold ${kind}` }, make("summary", {}, title),
    make("div", { class: "text name", dir: "auto" }, text)) : null;
}

function messages(transcript) {
  let number = 0; // of the target's messages, as judges count them
  return transcript.map((said) => {
    if (said.role !== "user") number += 1;
    return { turn: said.turn, shown: message(said, number) };
  });
}

function message(said, number) {
  const isUser = said.role === "user";
  const cut = !isUser && said.finish && said.finish !== "stop" ? ` · ${said.finish}` : "";
  const other = said.served_by ? ` · answered by ${said.served_by}` : "";
  return make("div", { class: `message ${isUser ? "user" : "target"}` },
    make("p", { class: "speaker" }, isUser ? "User model" : `Target · message ${number}`, cut, other),
    said.landmark ? make("p", { class: "landmark" }, make("b", {}, "Landmark "), name(said.landmark)) : null,
    folded("Thoughts of the user model", said.thought, "thought"),
    folded("Reasoning of the target", said.reasoning, "thought"),
    make("div", { class: "text name", dir: "auto" }, shown(said.content)));
}

function outcome(passed) {
  const word = passed === null ? "unscored" : passed ? "pass" : "fail";
  return make("strong", { class: `outcome ${word}` }, `${SIGNS[word]} ${word}`);
}

function verdict(one, talk, column) {
  const again = one.again ? `, ${one.again}` : "";
  const other = one.served_by ? `, answered by ${one.served_by}` : "";
  const present = one.present === null ? "" : one.present ? " · behaviour present" : " · behaviour absent";
  const counts = one.counts ? make("span", { class: "tag counts" }, "counts") : make("span", { class: "tag" }, "does not count");
  return make("li", { class: one.counts ? "verdict counts" : "verdict" },
    make("p", {}, outcome(one.passed), present, " ", counts),
    make("p", { class: "soft" }, name(one.judge), again, other, one.source === "human" ? " (a person)" : "", ` · ${one.at} UTC`),
    one.unscored ? make("p", {}, `Unscored: ${one.unscored}`) : null,
    one.justification ? make("p", { class: "name", dir: "auto" }, one.justification) : null,
    one.shown ? make("p", { class: "soft" }, one.shown) : null,
    one.quotes.length ? make("ul", { class: "quotes" }, one.quotes.map((quote) =>
      make("li", {}, make("q", { class: "name", dir: "auto" }, quote.text), " ",
        quote.turn ? make("a", { href: `#${turnId(column, quote.turn)}`, "data-turn": turnId(column, quote.turn) }, `turn ${quote.turn}`)
          : make("span", { class: "soft" }, quote.why)))) : null,
    one.note ? make("p", { class: "caution" }, `! ${one.note}`) : null);
}

const turnId = (column, turn) => `turn-${column}-${turn}`;

function planned(talk) {
  const people = Object.entries(talk.demographic || {}).map(([axis, value]) => `${axis}: ${value}`).join(", ");
  const never = new Set(talk.never_reached);
  const rows = [
    ["Persona", talk.persona], ["People", people], ["Goal", talk.user_goal],
    ["Hidden goal", talk.latent_adversarial_goal], ["System prompt of the target", talk.target_system_prompt],
  ].filter(([, text]) => text);
  if (!rows.length) return null;
  return make("details", { class: "fold" }, make("summary", {}, "Scenario"),
    make("dl", {}, rows.flatMap(([label, text]) => [make("dt", {}, label), make("dd", { class: "name", dir: "auto" }, text)])),
    (talk.landmarks || []).length ? make("ol", { class: "landmarks" }, talk.landmarks.map((mark) =>
      make("li", { value: mark.turn }, name(mark.instruction), never.has(mark.turn) ? make("span", { class: "tag" }, "never reached") : null))) : null);
}

function definition(metric) {
  const found = [...document.querySelectorAll("#definitions > li")].find((one) => one.dataset.metric === metric);
  return found ? found.textContent : "";
}

function head(talk, column) {
  const people = Object.values(talk.demographic || {}).join(", ");
  const track = talk.metric_type === "positive" ? "+" : "−";
  const wanted = talk.metric_type === "positive" ? "should be present" : "should not be present";
  return make("header", {},
    make("p", { class: "crumb" }, make("span", { class: `way ${talk.metric_type}`, "aria-hidden": "true" }, track), " ",
      make("strong", { class: "name" }, talk.metric_name || talk.metric_id || ""), talk.metric_type ? ` · ${wanted}` : ""),
    make("h2", { id: `talk-${column}`, class: "id name", tabindex: "-1" }, talk.conv_id),
    make("p", {}, outcome(talk.passed), talk.unscored ? ` ${talk.unscored}` : ""),
    make("p", { class: "soft" }, name(talk.target.id), talk.target.model === talk.target.id ? "" : [" is ", name(talk.target.model)],
      " · user model ", name(talk.user_model), people ? [" · ", name(people)] : "",
      talk.take ? ` · played again, take ${talk.take}` : "", ` · ended: ${talk.ended}`),
    talk.stale.length ? make("p", { class: "caution" }, `! stale, changed since: ${talk.stale.join(", ")}`) : null,
    talk.user_faults.map((fault) => make("p", { class: "caution name" }, `! user model, ${fault}`)),
    talk.scripted ? make("p", { class: "soft" }, talk.note || "") : null,
    folded("Definition of the metric", definition(talk.metric_id), "definition"),
    planned(talk));
}

function turnsOf(talk) {
  const found = new Map();
  for (const { turn, shown } of messages(talk.transcript)) {
    if (!found.has(turn)) found.set(turn, []);
    found.get(turn).push(shown);
  }
  return found;
}

function verdicts(talk, column) {
  const given = [...talk.verdicts].sort((a, b) => b.counts - a.counts);
  return make("section", { class: "verdicts", "aria-label": `Verdicts on ${talk.conv_id}` },
    make("h3", { class: "inner" }, "Verdicts"),
    given.length ? make("ul", {}, given.map((one) => verdict(one, talk, column))) : make("p", { class: "soft" }, "No verdict yet."));
}

function earlier(talk) {
  if (!talk.earlier_takes.length) return null;
  return make("section", {}, make("h3", { class: "inner" }, "Earlier takes"),
    make("p", { class: "why" }, "Older plays of this conversation. They no longer count."),
    talk.earlier_takes.map((take) => make("details", { class: "fold" },
      make("summary", {}, `Take ${take.take}: ${take.passed === null ? "unscored" : take.passed ? "pass" : "fail"}`),
      messages(take.transcript).map((one) => one.shown),
      make("ul", { class: "verdicts" }, take.verdicts.map((one) => verdict(one, take, `take-${take.take}`))))));
}

function conversation(talks) {
  // side by side, turn by turn
  const grid = make("div", { class: `talks of-${talks.length}` });
  const row = (kind, cells) => grid.append(make("div", { class: `row ${kind}` }, cells.map((one) => make("div", { class: "cell" }, one))));
  row("heads", talks.map((talk, n) => head(talk, n)));
  row("judged", talks.map((talk, n) => verdicts(talk, n)));
  const sides = talks.map(turnsOf);
  const last = Math.max(0, ...sides.flatMap((side) => [...side.keys()]));
  for (let turn = 1; turn <= last; turn += 1) {
    row("turns", sides.map((side, n) => (side.has(turn)
      ? make("section", { id: turnId(n, turn), class: "turn", tabindex: "-1", "aria-label": `Turn ${turn} of ${talks[n].conv_id}` },
          make("h3", { class: "number" }, `Turn ${turn}`), side.get(turn))
      : make("p", { class: "soft" }, "Already ended."))));
  }
  row("before", talks.map(earlier));
  return grid;
}

// The page of one benchmark's transcripts

class Reader {
  constructor(root, index) {
    this.data = root.dataset.data;
    this.index = index;
    this.form = find("#filters");
    this.list = find("#rows");
    this.said = find("#said");
    this.talk = find("#talk");
    this.search = 0; // the one that is going on; a newer one ends it
    this.rows = index.rows.map(([scenario, target, sample, result, flags, turns, part, place], number) => {
      const [id, metric, people] = index.scenarios[scenario];
      const tail = sample ? `__s${sample}` : "";
      return { number, scenario, base: `${scenario} ${sample}`, target, sample, flags, turns, part, place, people, metric,
        outcome: OUTCOMES[result], id: `${id}__${index.targets[target]}${tail}` };
    });
    this.byId = new Map(this.rows.map((row) => [row.id, row]));
    this.metrics = [...this.form.elements.metric.options].slice(1);
    this.listen();
    this.show();
  }

  listen() {
    window.addEventListener("hashchange", () => this.show());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      location.hash = this.wantedByForm();
    });
    this.form.addEventListener("change", (event) => {
      if (event.target.name !== "q") location.hash = this.wantedByForm();
    });
    find("#reset").addEventListener("click", (event) => {
      event.preventDefault();
      location.hash = "";
      this.form.elements.q.focus();
    });
    find("#less").addEventListener("click", () => this.turnPage(-1));
    find("#more").addEventListener("click", () => this.turnPage(1));
    this.talk.addEventListener("click", (event) => this.goToTurn(event));
    this.list.addEventListener("keydown", (event) => this.walk(event));
  }

  wantedByForm() {
    const wanted = new URLSearchParams();
    for (const one of this.form.elements) {
      if (!one.name || !one.value) continue;
      if (one.name === "who") wanted.append("who", `${one.dataset.axis}=${one.value}`);
      else wanted.set(one.name, one.value);
    }
    if (wanted.get("metric")) wanted.delete("type"); // a metric has its own
    return `#${wanted}`;
  }

  people(wanted) {
    // an axis may have an equals sign in its name
    const axes = [...document.querySelectorAll("[data-axis]")].map((one) => one.dataset.axis);
    return wanted.getAll("who").map((one) => {
      const axis = axes.find((name) => one.startsWith(`${name}=`)) ?? "";
      return [axis, one.slice(axis.length + 1)];
    });
  }

  fillForm(wanted) {
    const people = new Map(this.people(wanted));
    for (const one of this.form.elements) {
      if (!one.name) continue;
      one.value = (one.name === "who" ? people.get(one.dataset.axis) : wanted.get(one.name)) ?? "";
    }
    const more = find("#further");
    if ([...more.querySelectorAll("select")].some((one) => one.value)) more.open = true;
  }

  async show() {
    const wanted = asked();
    const filters = new URLSearchParams(wanted);
    ["c", "vs", "page"].forEach((key) => filters.delete(key));
    if (this.filters !== String(filters)) {
      this.filters = String(filters);
      this.fillForm(wanted);
      this.find(wanted);
    } else {
      this.draw();
    }
    await this.open(wanted.get("c"), wanted.get("vs"));
  }

  // What is listed

  matching(wanted) {
    const only = wanted.get("only");
    const track = wanted.get("type");
    const target = this.index.targets.indexOf(wanted.get("target") ?? "");
    const other = this.index.targets.indexOf(wanted.get("against") ?? "");
    const metric = this.metrics.findIndex((one) => one.value === wanted.get("metric"));
    const people = this.people(wanted);
    const others = new Map();
    if (other >= 0) this.rows.forEach((row) => row.target === other && others.set(row.base, row));
    const differing = only === "samples" ? this.differing() : null;
    return this.rows.filter((row) =>
      (!wanted.get("target") || row.target === target)
      && (!wanted.get("metric") || row.metric === metric)
      && (!track || this.metrics[row.metric]?.dataset.track === track)
      && (!wanted.get("outcome") || row.outcome === wanted.get("outcome"))
      && people.every(([axis, value]) => row.people[axis] === value)
      && (!FLAGS[only] || row.flags & FLAGS[only])
      && (!differing || differing.has(`${row.scenario} ${row.target}`))
      && (other < 0 || decidedOtherwise(row, others.get(row.base))))
      .map((row) => ({ row, other: others.get(row.base) }));
  }

  differing() {
    const seen = new Map();
    for (const row of this.rows) {
      const key = `${row.scenario} ${row.target}`;
      if (!seen.has(key)) seen.set(key, new Set());
      if (row.outcome !== "unscored") seen.get(key).add(row.outcome);
    }
    return new Set([...seen].filter(([, answers]) => answers.size > 1).map(([key]) => key));
  }

  find(wanted) {
    const words = plain((wanted.get("q") ?? "").trim());
    const rows = this.matching(wanted);
    this.search += 1;
    if (words) {
      this.searchIn(rows, words, this.search);
      return;
    }
    this.found = rows;
    const among = rows.length < this.rows.length ? ` of ${this.rows.length.toLocaleString("en")}` : "";
    const counts = Object.entries(RESULTS)
      .map(([outcome, word]) => [rows.filter((one) => one.row.outcome === outcome).length, word])
      .filter(([count]) => count).map(([count, word]) => `${count.toLocaleString("en")} ${word}`);
    this.say(`${plural(rows.length, "conversation")}${among}${counts.length ? ": " : ""}${counts.join(", ")}`);
    this.draw();
  }

  async searchIn(rows, words, search) {
    this.found = [];
    this.draw();
    const byPart = new Map();
    for (const one of rows) {
      if (!byPart.has(one.row.part)) byPart.set(one.row.part, []);
      byPart.get(one.row.part).push(one);
    }
    let looked = 0;
    const parts = [...byPart.keys()];
    for (const [n, part] of parts.entries()) {
      const next = piece(`${this.data}/t${part}.js`);
      if (n + 1 < parts.length) piece(`${this.data}/t${parts[n + 1]}.js`).catch(() => {}); // while this one is read
      let talks;
      try {
        talks = await next;
      } catch (error) {
        if (search === this.search) this.say(String(error.message));
        return;
      }
      if (search !== this.search) return;
      const before = this.found.length;
      for (const one of byPart.get(part)) {
        const snippet = foundIn(talks[one.row.place], words);
        if (snippet) this.found.push({ ...one, snippet });
      }
      looked += byPart.get(part).length;
      const isFull = this.found.length >= MOST_FOUND;
      const more = looked === rows.length ? "" : isFull ? "; stopped there" : " …";
      this.say(`${this.found.length.toLocaleString("en")} found in ${looked.toLocaleString("en")} of ${plural(rows.length, "conversation")}${more}`);
      // drawing takes longer than searching: the first page as it fills, the rest at the end
      if (before < PAGE ? this.found.length > before : isFull || n + 1 === parts.length) this.draw();
      if (isFull) return;
    }
    if (!rows.length) this.say("0 found: the other filters leave no conversation");
  }

  say(text) {
    this.said.textContent = text;
  }

  draw() {
    const wanted = asked();
    const last = Math.max(0, Math.ceil(this.found.length / PAGE) - 1);
    // without a page in the link, the one with the conversation that is read
    const read = this.found.findIndex((one) => one.row.id === wanted.get("c"));
    const chosen = wanted.has("page") ? Number(wanted.get("page")) || 0 : Math.floor(read / PAGE);
    const page = Math.min(last, Math.max(0, chosen));
    const from = page * PAGE;
    this.list.replaceChildren(...this.found.slice(from, from + PAGE).map((one) => this.item(one, wanted)));
    find("#less").hidden = page === 0;
    find("#more").hidden = page === last;
    find("#less").textContent = `Previous ${PAGE}`;
    find("#more").textContent = `Next ${Math.min(PAGE, this.found.length - from - PAGE)}`;
    this.page = page;
    this.reveal();
  }

  reveal() {
    const read = this.list.querySelector("[aria-current]");
    const box = this.list.closest("section");
    // within its own box alone: the page stays where it is
    if (read && box.scrollHeight > box.clientHeight) box.scrollTop = read.offsetTop - box.clientHeight / 2;
  }

  item({ row, other, snippet }, wanted) {
    const option = this.metrics[row.metric];
    const flags = Object.keys(FLAGS).filter((flag) => row.flags & FLAGS[flag]);
    const people = Object.values(row.people).join(", ");
    const href = address(wanted, { c: row.id, vs: other ? other.id : null });
    return make("li", {}, make("a", { href, "aria-current": row.id === wanted.get("c") ? "true" : null },
      make("span", { class: `sign ${row.outcome}`, "aria-hidden": "true" }, SIGNS[row.outcome]),
      make("span", { class: "id name" }, make("span", { class: "unseen" }, `${row.outcome}: `), row.id),
      make("span", { class: "soft about" }, [option ? option.textContent.replace(/ \([^()]*\)$/, "") : "", people].flatMap((said) => (said ? [name(said), " · "] : [])), plural(row.turns, "turn")),
      flags.map((flag) => make("span", { class: "tag" }, FLAG_WORDS[flag])),
      snippet ?? null));
  }

  turnPage(by) {
    location.hash = address(asked(), { page: String(this.page + by) });
    this.list.closest("section").scrollIntoView();
    this.list.querySelector("a")?.focus({ preventScroll: true });
  }

  walk(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const links = [...this.list.querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement) + by];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  }

  // What is read

  async open(id, other) {
    const wanted = [id, id && other].filter(Boolean);
    const key = wanted.join(" ");
    if (key === this.opened) return;
    this.opened = key;
    document.body.classList.toggle("reading", wanted.length > 0);
    document.body.classList.toggle("paired", wanted.length > 1);
    this.reveal(); // only now is the list a box of its own
    if (!wanted.length) {
      this.talk.hidden = true;
      return;
    }
    const rows = wanted.map((one) => this.byId.get(one));
    const began = performance.now();
    try {
      const talks = [];
      for (const [n, row] of rows.entries()) {
        if (!row) throw new Error(`No conversation is called ${wanted[n]}.`);
        talks.push((await piece(`${this.data}/t${row.part}.js`))[row.place]);
      }
      if (key !== this.opened) return;
      this.talk.replaceChildren(this.tools(rows), conversation(talks));
    } catch (error) {
      if (key !== this.opened) return;
      this.talk.replaceChildren(this.back(), make("p", { role: "alert", class: "name" }, String(error.message)));
    }
    this.talk.hidden = false;
    this.talk.dataset.milliseconds = String(Math.round(performance.now() - began));
    const title = this.talk.querySelector("h2");
    if (title) {
      document.title = `${id} · ${document.title.split(" · ").slice(-3).join(" · ")}`;
      title.focus({ preventScroll: true });
      const { top } = this.talk.getBoundingClientRect();
      if (top < 0 || top > innerHeight / 2) this.talk.scrollIntoView({ block: "start" });
    }
  }

  back() {
    return make("a", { class: "back", href: address(asked(), { c: null, vs: null }) }, "← List");
  }

  tools(rows) {
    const wanted = asked();
    const [row, other] = rows;
    const at = this.found.findIndex((one) => one.row === row);
    const step = (by, label) => {
      const next = at < 0 ? null : this.found[at + by];
      return next ? make("a", { href: address(wanted, { c: next.row.id, vs: next.other && other ? next.other.id : null }) }, label) : null;
    };
    const base = this.index.scenarios[row.scenario][0].replace(/_v\d+$/, "");
    const related = this.rows.filter((one) => one !== row && this.index.scenarios[one.scenario][0].replace(/_v\d+$/, "") === base);
    const beside = make("select", {}, make("option", { value: "" }, "nothing"), related.map((one) =>
      make("option", { value: one.id, selected: one === other }, `${SIGNS[one.outcome]} ${this.relation(row, one)}`)));
    beside.addEventListener("change", () => {
      location.hash = address(asked(), { vs: beside.value });
    });
    return make("nav", { class: "tools", "aria-label": "This conversation" }, this.back(),
      step(-1, "Previous"), step(1, "Next"),
      make("a", { href: `#${encodeURIComponent(row.id)}`, class: "permalink" }, "Link"),
      related.length ? make("label", {}, "Compare with ", beside) : null);
  }

  relation(row, one) {
    const parts = [];
    if (one.target !== row.target) parts.push(this.index.targets[one.target]);
    if (one.scenario !== row.scenario) parts.push(Object.values(one.people).join(", ") || this.index.scenarios[one.scenario][0]);
    if (one.sample !== row.sample) parts.push(`sample ${one.sample}`);
    return parts.join(" · ");
  }

  goToTurn(event) {
    const id = event.target.closest("[data-turn]")?.dataset.turn;
    const turn = id && document.getElementById(id);
    if (!turn) return;
    event.preventDefault();
    turn.focus({ preventScroll: true });
    (turn.querySelector("mark") ?? turn).scrollIntoView({ block: "center" });
  }
}

function decidedOtherwise(row, other) {
  const isScored = other && row.outcome !== "unscored" && other.outcome !== "unscored";
  return isScored && row.target !== other.target && row.outcome !== other.outcome;
}

function foundIn(talk, words) {
  for (const said of talk.transcript) {
    const snippet = parts(whole(said.content), words) ?? parts(said.thought ?? "", words);
    if (snippet) return snippet;
  }
  for (const one of talk.verdicts) {
    const snippet = parts(one.justification ?? "", words);
    if (snippet) return snippet;
  }
  return null;
}

// The page that looks through all benchmarks

class Search {
  constructor(form) {
    this.form = form;
    this.places = [...document.querySelectorAll("#places > li")];
    this.run = 0;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      location.hash = `#${new URLSearchParams({ q: form.elements.q.value.trim() })}`;
    });
    window.addEventListener("hashchange", () => this.show());
    this.show();
  }

  async show() {
    const words = (asked().get("q") ?? "").trim();
    this.form.elements.q.value = words;
    const run = (this.run += 1);
    const box = find("#found");
    box.replaceChildren();
    if (!words) {
      find("#said").textContent = "";
      return;
    }
    let count = 0;
    for (const place of this.places) {
      find("#said").textContent = `Searching ${place.dataset.name} … ${plural(count, "place")} found`;
      let found;
      try {
        found = await this.inBenchmark(place, plain(words));
      } catch (error) {
        found = [make("li", { role: "alert" }, String(error.message))];
      }
      if (run !== this.run) return;
      count += found.length;
      if (found.length) {
        box.append(make("h3", { class: "inner name" }, place.querySelector("a").textContent),
          make("ul", { class: "rows" }, found.slice(0, PAGE)),
          found.length > PAGE ? make("p", { class: "soft" }, `${found.length - PAGE} more; refine the search to see them`) : "");
      }
    }
    find("#said").textContent = `${plural(count, "place")} found in ${plural(this.places.length, "benchmark")}`;
  }

  async inBenchmark(place, words) {
    const { folder, data } = place.dataset;
    const page = `${folder}/transcripts.html`;
    const found = [];
    for (const metric of place.querySelectorAll("[data-metric]")) {
      const snippet = parts(`${metric.textContent} (${metric.dataset.metric})`, words);
      if (snippet) found.push(make("li", {}, make("a", { href: `${page}#${new URLSearchParams({ metric: metric.dataset.metric })}` }, make("span", { class: "soft" }, "metric "), snippet)));
    }
    const index = await piece(`${folder}/${data}/index.js`);
    const idOf = ([scenario, target, sample]) => `${index.scenarios[scenario][0]}__${index.targets[target]}${sample ? `__s${sample}` : ""}`;
    const link = (id, ...said) => make("li", {}, make("a", { href: `${page}#${encodeURIComponent(id)}` }, said));
    for (const row of index.rows) {
      const snippet = parts(idOf(row), words);
      if (snippet) found.push(link(idOf(row), make("span", { class: "soft" }, "conversation "), snippet));
    }
    for (let n = 1; n <= index.quotes; n += 1) {
      for (const [row, turn, text] of await piece(`${folder}/${data}/q${n}.js`)) {
        const snippet = parts(text, words);
        const id = snippet && idOf(index.rows[row]);
        if (snippet) found.push(link(id, make("span", { class: "id name" }, id), make("span", { class: "soft" }, turn ? ` turn ${turn} ` : " "), snippet));
      }
    }
    return found;
  }
}

const reader = find("#reader");
if (reader) {
  piece(`${reader.dataset.data}/index.js`).then((index) => new Reader(reader, index), (error) => {
    find("#said").textContent = error.message;
  });
}
const form = find("#search");
if (form) new Search(form);
