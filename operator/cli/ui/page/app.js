// The page of `lockstep ui`. It asks its server every two seconds and shows what the server knows. Names, logs and
// events are others' words: they become text (textContent), never markup.
"use strict";

const PERIOD = 2000; // milliseconds between two questions
const MOST_LINES = 2000; // of the log
const PHASES = ["input", "compute", "communication", "optimizer", "checkpoint", "other", "idle"];
const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const timeFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const fullFormat = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  timeZoneName: "short" });

// The part of the URL behind # stays in the browser: the secret, then the job that is shown.
function place() {
  const [token, ...rest] = location.hash.slice(1).split("&");
  const values = new URLSearchParams(rest.join("&"));
  return { token, job: values.has("job") ? { namespace: values.get("in") || "", name: values.get("job") } : null };
}
function placeOf(key) {
  return `#${place().token}&${new URLSearchParams({ in: key.namespace, job: key.name })}`;
}

async function ask(path, values = {}) {
  const answer = await fetch(`/api/${path}?${new URLSearchParams(values)}`, {
    headers: { Authorization: `Bearer ${place().token}` }, cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (answer.ok) return answer.json();
  throw new Error((await answer.text()).trim());
}

// --- texts

function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return Number(value).toExponential(digits - 2);
  return Number(value).toLocaleString(undefined, { maximumSignificantDigits: digits });
}
const whole = (value) => Number(value).toLocaleString();
const percent = (value) => (value === null || value === undefined ? "–" : `${number(100 * value, 3)} %`);
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}
const timeOf = (millis) => (millis === null ? "–" : fullFormat.format(new Date(millis)));
const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
function stateClass(state) {
  if (["Succeeded", "Completed"].includes(state)) return "good";
  if (/^(Failed|CrashLoop|ErrImage|ImagePull|Unschedulable|init container)/.test(state)) return "bad";
  if (state.startsWith("Running")) return "run";
  return ["Pending", "Restarting", "Suspended", "new"].includes(state) ? "wait" : "";
}

// --- elements

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}
function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
function say(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
  if (element.classList.contains("problem")) element.hidden = !text;
}
// Returns true if what the element shows has changed. An element that is rebuilt loses its focus, the user's
// selection in it and its scroll position.
const shown = new Map(); // by the element's id
function differs(id, value) {
  const text = JSON.stringify(value);
  if (shown.get(id) === text) return false;
  shown.set(id, text);
  return true;
}
// Cells are [text, class] or elements.
function fillTable(id, titles, rows) {
  const head = make("tr");
  for (const [text, className] of titles) {
    const cell = make("th", className, text);
    cell.scope = "col";
    head.append(cell);
  }
  const lines = rows.map((row) => {
    const line = make("tr");
    for (const cell of row) {
      if (Array.isArray(cell)) line.append(make("td", cell[1], cell[0]));
      else line.append(cell);
    }
    return line;
  });
  byId(id).replaceChildren(...(rows.length ? [head, ...lines] : []));
}

// --- the list

const keyOf = (job) => JSON.stringify([job.namespace, job.name]);
const sameJob = (one, other) => Boolean(one && other && keyOf(one) === keyOf(other));

function jobButton(job, chosen) {
  const button = make("button");
  button.type = "button";
  button.dataset.key = keyOf(job);
  if (sameJob(job, chosen)) button.setAttribute("aria-current", "true");
  button.append(make("span", "name", job.namespace ? `${job.namespace} / ${job.name}` : job.name));
  const line = make("span", "line");
  const steps = job.total_steps > 0 ? percent(Math.min(1, job.step / job.total_steps)) : "";
  line.append(make("span", `state ${stateClass(job.state)}`, job.state), make("span", "", steps));
  button.append(line);
  button.addEventListener("click", () => { location.hash = placeOf(job); });
  return button;
}

function showJobs(list) {
  say("source", list.source);
  say("problem", list.error ? `The jobs cannot be read, what is shown is older: ${list.error}` : "");
  say("no-jobs", list.jobs === null ? "Reading…" : list.jobs.length ? "" : "There are no jobs.");
  const jobs = list.jobs || [];
  const chosen = place().job;
  if (!chosen && jobs.length) location.replace(placeOf(jobs[0]));
  if (!differs("jobs", [jobs.map((job) => [job.namespace, job.name, job.state, job.step, job.total_steps]), chosen])) return;
  const focused = byId("jobs").contains(document.activeElement) ? document.activeElement.dataset.key : null;
  byId("jobs").replaceChildren(...jobs.map((job) => {
    const item = make("li");
    item.append(jobButton(job, chosen));
    return item;
  }));
  // Not by its place: another job may be there now.
  if (focused) [...byId("jobs").querySelectorAll("button")].find((button) => button.dataset.key === focused)?.focus();
}

// --- curves

const WIDTH = 520, HEIGHT = 190, LEFT = 52, RIGHT = 10, TOP = 10, BOTTOM = 24;

function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
  const first = Math.ceil(low / step);
  const found = [];
  // Adding the step may change nothing in large numbers.
  for (let i = 0; i <= 2 * count && (first + i) * step <= high + step / 1e6; ++i) found.push((first + i) * step);
  return found;
}

function showCurve(id, title, unit, points) {
  const figure = byId(id);
  // The difference of two that are larger may be no number.
  const known = points.filter((point) => point[1] !== null && Math.abs(point[1]) < 1e300);
  const caption = make("figcaption", "", `${title}: `);
  if (!known.length) {
    caption.append("no value yet");
    figure.replaceChildren(caption);
    return;
  }
  const last = known[known.length - 1];
  caption.append(make("b", "", `${number(last[1])}${unit}`), ` at ${timeFormat.format(new Date(last[0]))}`);
  const times = known.map((point) => point[0]), values = known.map((point) => point[1]);
  const begin = times[0], end = Math.max(times[times.length - 1], begin + 1000);
  const least = Math.min(...values), most = Math.max(...values);
  const isLog = least > 0 && most / least > 1000; // else all but the first values are one line at the bottom
  const scale = isLog ? Math.log10 : (value) => value;
  const low = isLog ? Math.floor(scale(least)) : Math.min(0, least);
  const above = isLog ? Math.ceil(scale(most)) : most + (most - low) * 0.05;
  // A single value below 0 is both. Values that differ by less are hardly different numbers.
  const high = above - low > Math.max(1e-300, Math.abs(low) / 1e9) ? above : low + Math.max(1, Math.abs(low));
  const x = (time) => LEFT + ((time - begin) / (end - begin)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((scale(value) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `${title} over time: ${plural(known.length, "point")}, from ${number(values[0])}${unit} at ` +
      `${timeOf(begin)} to ${number(last[1])}${unit} at ${timeOf(last[0])}` });
  if (isLog) caption.append(", logarithmic");
  const bottom = HEIGHT - BOTTOM;
  for (const tick of ticks(low, high, 4).filter((one) => !isLog || Number.isInteger(one))) {
    const value = isLog ? 10 ** tick : tick;
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, 3)));
  }
  for (const [time, anchor] of [[begin, "start"], [end, "end"]]) {
    svg.append(draw("text", { x: x(time), y: HEIGHT - 6, "text-anchor": anchor }, timeFormat.format(new Date(time))));
  }
  const line = known.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`);
  svg.append(draw("polygon", { class: "area",
    points: [`${x(begin)},${bottom}`, ...line, `${x(last[0]).toFixed(1)},${bottom}`].join(" ") }));
  svg.append(draw("polyline", { class: "curve", points: line.join(" ") }));
  svg.append(draw("circle", { class: "now", cx: x(last[0]), cy: y(last[1]), r: 3 }));
  svg.dataset.points = known.length;
  figure.replaceChildren(caption, svg);
}

// --- the job

function tiles(job) {
  const top = job.top;
  const live = top.total_steps > 0;
  const steps = live ? top : job;
  const list = [
    ["Step", steps.total_steps > 0 ? `${whole(steps.step)} of ${whole(steps.total_steps)}` : whole(steps.step)],
    ["Loss", number(top.loss ?? job.loss)],
    ["Examples/s", number(live ? top.examples_per_second : job.examples_per_second)],
    ["Time left", duration(live ? top.remaining_seconds : job.remaining_seconds)],
    ["Accuracy", percent(job.accuracy)],
    ["Test accuracy", percent(job.test_accuracy)],
    ...Object.entries(job.test_metrics).map(([name, value]) => [`Test ${name}`, number(value)]),
    ["Goodput", percent(top.goodput ?? job.goodput)],
    ["Ready replicas", job.ready ?? "–"],
    ["Restarts", job.restarts ? `${job.restarts} (${job.restarts_by_program} by its program, ` +
      `${job.restarts_by_disruptions} by disruptions)` : "0"],
  ];
  const lived = job.ended === null ? "" : `, ended ${timeOf(job.ended)}`;
  say("job-times", job.created === null ? "" : `created ${timeOf(job.created)}${lived}`);
  byId("tiles").replaceChildren(...list.map(([title, value]) => {
    const tile = make("div");
    tile.append(make("dt", "", title), make("dd", "", value));
    return tile;
  }));
  byId("bar").value = steps.total_steps > 0 ? Math.min(1, steps.step / steps.total_steps) : 0;
}

// The server's phases as the columns of `lockstep top`.
function shares(phases) {
  if (!phases) return null;
  return { input: phases.input, compute: phases.compute, communication: phases.communication,
    optimizer: phases.optimizer, checkpoint: phases.checkpoint, other: phases.evaluation + phases.rework,
    idle: phases.idle + phases.rendezvous };
}
function phaseCell(phases) {
  const cell = make("td", "bars");
  const found = shares(phases);
  if (!found) {
    cell.textContent = "–";
    return cell;
  }
  const line = make("div", "bars-line");
  line.setAttribute("role", "img");
  const words = PHASES.filter((phase) => found[phase] >= 0.005).map((phase) => `${phase} ${percent(found[phase])}`);
  line.setAttribute("aria-label", words.join(", "));
  line.title = words.join(", ");
  for (const phase of PHASES) {
    const part = make("span", phase);
    part.style.width = `${100 * found[phase]}%`;
    line.append(part);
  }
  cell.append(line);
  return cell;
}
function showRanks(top, knowsReplicas = true) {
  const millis = (seconds) => (seconds === null ? "–" : `${number(1000 * seconds)} ms`);
  if (differs("ranks", top.ranks)) {
    fillTable("ranks", [["Rank", "number"], ["Replica"], ["Step", "number"], ["Step time", "number"], ["Time by phase"], [""]],
      top.ranks.map((rank) => [[String(rank.rank), "number"], [rank.replica], [whole(rank.step), "number"],
        [millis(rank.step_seconds), "number"], phaseCell(rank.phases),
        [rank.straggles_by === null ? "" : `straggler: +${percent(rank.straggles_by)}`, "wait-text"]]));
  }
  byId("legend").hidden = !top.ranks.length;
  const notes = top.unread.map((one) => `no metrics of ${one.replica}: ${one.why}`);
  if (top.unread_omitted) notes.push(`and of ${plural(top.unread_omitted, "other")}`);
  if (top.ranks_omitted) notes.unshift(`${plural(top.ranks_omitted, "further rank")} wait longer for others`);
  say("ranks-note", top.ranks.length || notes.length ? notes.join("; ")
    : knowsReplicas ? "No rank serves metrics now." : "");
}

function showReplicas(replicas) {
  if (differs("replicas", replicas.rows)) {
    fillTable("replicas", [["Replica"], ["Node"], ["Restarts by the kubelet", "number"], ["Created"], ["State"]],
      replicas.rows.map((row) => [[row.replica], [row.node ?? "–"], [row.restarts === null ? "–" : String(row.restarts), "number"],
        [timeOf(row.created), "time"], [row.state, `wide ${stateClass(row.state) === "bad" ? "bad-text" : ""}`]]));
  }
  const more = [];
  if (replicas.running) more.push(`${whole(replicas.running)} more run`);
  if (replicas.omitted) more.push(`${whole(replicas.omitted)} more do not run`);
  if (replicas.error) more.push(`The replicas cannot be read: ${replicas.error}`);
  say("replicas-note", replicas.rows.length || more.length ? more.join(", ") : "No replica has been seen.");
  const select = byId("log-of");
  const names = ["", ...replicas.names];
  if ([...select.options].map((option) => option.value).join() !== names.join()) {
    const chosen = select.value;
    select.replaceChildren(...names.map((name) => {
      const option = make("option", "", name || "all replicas");
      option.value = name;
      return option;
    }));
    select.value = names.includes(chosen) ? chosen : "";
    if (select.value !== chosen) clearLog(); // what comes is of another log
  }
}

function showEvents(job) {
  if (differs("events", job.events)) {
    fillTable("events", [["Last seen"], ["Type"], ["Object"], ["Reason"], ["Event"]],
      job.events.slice().reverse().map((event) => [[timeOf(event.last), "time"],
        [event.type, event.type === "Warning" ? "wait-text" : ""], [event.object], [event.reason],
        [event.count > 1 ? `${event.message} (${event.count} times)` : event.message, "wide"]]));
  }
  say("events-note", job.events_error ? `The events cannot be read: ${job.events_error}` : job.events.length ? "" : "No events.");
}

function showJob(key, answer) {
  say("job-name", key.namespace ? `${key.namespace} / ${key.name}` : key.name);
  say("job-problem", answer.error ? `This job cannot be read, what is shown is older: ${answer.error}` : "");
  byId("main").hidden = false;
  const job = answer.job;
  if (!job) return;
  document.title = `${job.job || job.name}: ${job.state} – Lockstep`;
  const state = byId("job-state");
  state.textContent = job.state;
  state.className = `state ${stateClass(job.state)}`;
  tiles(job);
  byId("words").replaceChildren(...job.words.map((line) => make("li", "", line)));
  showCurve("loss", "Loss", "", job.curve.map((point) => [point[0], point[2]]));
  showCurve("rate", "Examples per second", "/s", job.curve.map((point) => [point[0], point[3]]));
  showRanks(job.top, !job.replicas.error);
  showReplicas(job.replicas);
  showEvents(job);
  if (differs("conditions", job.conditions)) {
    fillTable("conditions", [["Condition"], ["Status"], ["Since"], ["Reason"], ["Message"]],
      job.conditions.map((one) => [[one.type], [one.status], [timeOf(one.since), "time"], [one.reason], [one.message, "wide"]]));
  }
}

function clearJob() {
  for (const id of ["tiles", "words", "ranks", "replicas", "events", "conditions", "loss", "rate"]) {
    byId(id).replaceChildren();
    shown.delete(id);
  }
  for (const id of ["job-name", "job-state", "job-times", "ranks-note", "replicas-note", "events-note"]) byId(id).textContent = "";
  say("job-problem", "");
  byId("log-of").value = "";
  byId("bar").value = 0;
  clearLog();
}

// --- the log

let log = { start: null, next: 0, colors: new Map() };

function clearLog() {
  log = { start: null, next: 0, colors: new Map() };
  byId("log").replaceChildren();
  say("log-note", "");
}
function logLine([millis, replica, text], all) {
  const line = make("div");
  const time = make("time", "", timeFormat.format(new Date(millis)));
  time.dateTime = new Date(millis).toISOString();
  time.title = timeOf(millis);
  line.append(time);
  if (all) {
    if (!log.colors.has(replica)) log.colors.set(replica, log.colors.size % 5);
    line.append(make("span", `who c${log.colors.get(replica)}`, replica));
  }
  line.append(make("span", "", text));
  return line;
}
function showLog(answer, all) {
  const box = byId("log");
  // The server forgets what nobody asks for, and a page that was hidden gets lines anew that it has. What it has stays
  // until there are others.
  if (answer.lines.length && answer.start !== log.start) {
    clearLog();
    log.start = answer.start;
  }
  box.append(...answer.lines.map((line) => logLine(line, all)));
  while (box.childElementCount > MOST_LINES) box.firstElementChild.remove();
  log.next = answer.next;
  say("log-note", answer.error || (!answer.read ? "Reading…" : box.childElementCount ? "" : "The log is empty."));
  if (byId("follow").checked) box.scrollTop = box.scrollHeight;
}

// --- asking

let asking = 0; // the number of the round that may show its answers
let timer = 0;

async function askForJob(round, key) {
  const answer = await ask("job", key);
  if (round !== asking) return null;
  showJob(key, answer);
  const replica = byId("log-of").value;
  const lines = await ask("log", { ...key, replica, after: log.next });
  if (round !== asking || replica !== byId("log-of").value) return null;
  showLog(lines, replica === "");
  return { complete: Boolean(answer.job || answer.error) && lines.read && !lines.more, times: [answer.at, lines.error ? null : lines.at] };
}

async function round() {
  clearTimeout(timer);
  const mine = ++asking;
  let complete = true;
  try {
    const list = await ask("jobs");
    if (mine !== asking) return;
    showJobs(list);
    complete = list.jobs !== null || list.error !== null;
    const key = place().job;
    const answer = key ? await askForJob(mine, key) : { complete: true, times: [] };
    if (mine !== asking) return;
    complete = complete && Boolean(answer?.complete);
    // When the server read the oldest part of what is shown, which may be long before it answered.
    const times = [list.at, ...(answer?.times || [])].filter((time) => time !== null);
    say("updated", times.length ? `as of ${timeFormat.format(new Date(Math.min(...times)))}` : "");
  } catch (error) {
    if (mine !== asking) return;
    const silent = error instanceof TypeError || error.name === "TimeoutError";
    say("problem", silent ? "lockstep ui does not answer: it may have ended. This page asks again." : error.message);
  }
  // Soon, until there is something to show. A page that nobody sees asks for nothing.
  if (!document.hidden) timer = setTimeout(round, complete ? PERIOD : PERIOD / 4);
}

addEventListener("hashchange", () => {
  clearJob();
  round();
});
// The browser would put #main in the place of the secret and the job.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
byId("log-of").addEventListener("change", () => {
  clearLog();
  round();
});
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden) round();
});
byId("zone").textContent = zone;
byId("legend").append(...PHASES.map((phase) => {
  const item = make("li");
  item.append(make("span", phase), phase);
  return item;
}));
if (!document.hidden) round();
