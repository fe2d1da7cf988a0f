// Keeps the page of an experiment up to date while it runs: events announce that there is
// something new, and the figures are then fetched behind the rounds that are shown.

import { Curves, whole } from "./curves.js";

const PAUSE_MS = 600;
const ANNOUNCE_MS = 15000;
const MAX_POINTS = 4000;
const FIRST_RETRY_MS = 2000;
const MAX_RETRY_MS = 60000;
const ENDED = ["succeeded", "failed", "cancelled"];

const host = document.getElementById("curves");
const byId = (id) => document.getElementById(id);

let curves = null;
let last = 0;
let busy = false;
let asked = false;
let announced = 0;
let stream = null;
let after = host.dataset.after;
let retryMs = FIRST_RETRY_MS;
let retry = null;

function showReading(name, value, remark) {
  const place = document.querySelector(`[data-reading="${CSS.escape(name)}"]`);
  if (!place) return;
  const shown = place.querySelector(".reading-value");
  if (shown.textContent !== value) {
    shown.textContent = value;
    place.classList.remove("changed");
    requestAnimationFrame(() => place.classList.add("changed"));
  }
  place.querySelector(".reading-remark").textContent = remark;
}

function showProgress({ status, round, rounds, pace }) {
  if (ENDED.includes(status)) return;
  byId("progress").value = round;
  const waiting = status === "queued";
  const text = waiting ? "Waiting for a worker"
    : round === 0 ? `Loading the data and training the first of ${whole(rounds)} rounds`
    : `Round ${whole(round)} of ${whole(rounds)}`;
  byId("progress-text").textContent = text;
  byId("pace").textContent = pace ? `, ${pace}` : "";
  const badge = byId("status").firstElementChild;
  badge.className = `badge status-${status}`;
  badge.textContent = status;
  if (!waiting && performance.now() - announced > ANNOUNCE_MS) {
    announced = performance.now();
    byId("announcement").textContent = text;
  }
}

function showCurves(found, fromTheStart, best) {
  if (!found.length) return;
  if (!curves) {
    host.hidden = false;
    curves = new Curves(host);
    byId("no-curves")?.remove();
    byId("drawn")?.removeAttribute("open");
  }
  curves.show(found, fromTheStart, best);
}

async function update() {
  if (curves && curves.points > MAX_POINTS) last = 0;
  const fromTheStart = last === 0;
  const answer = await fetch(`${host.dataset.figures}?after=${last}`);
  if (!answer.ok || answer.redirected) throw new Error("no figures");
  const state = await answer.json();
  showProgress(state);
  showCurves(state.curves, fromTheStart, state.best);
  last = state.last;
  state.readings.forEach((one) => showReading(one.name, one.value, one.remark));
}

// One request at a time, and a pause behind each: a fast run stores many rounds a second.
async function keepUp() {
  asked = true;
  if (busy) return;
  busy = true;
  while (asked) {
    asked = false;
    try {
      await update();
    } catch {
      byId("lost")?.removeAttribute("hidden");
    }
    await new Promise((resume) => setTimeout(resume, PAUSE_MS));
  }
  busy = false;
}

function follow() {
  stream = new EventSource(`${host.dataset.stream}?after=${after}`);
  stream.addEventListener("round.completed", (event) => {
    after = event.lastEventId;
    keepUp();
  });
  stream.addEventListener("status.changed", (event) => {
    after = event.lastEventId;
    if (!ENDED.includes(JSON.parse(event.data).status)) {
      keepUp();
      return;
    }
    leave();
    location.reload();
  });
  stream.addEventListener("open", () => {
    retryMs = FIRST_RETRY_MS;
    byId("lost")?.setAttribute("hidden", "");
  });
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) followLater();
  });
}

// A browser connects anew by itself where a connection breaks, but not after a refusal: there may
// be too many streams, or the service may be starting.
function followLater() {
  byId("lost")?.removeAttribute("hidden");
  clearTimeout(retry);
  retry = setTimeout(follow, retryMs);
  retryMs = Math.min(2 * retryMs, MAX_RETRY_MS);
}

function leave() {
  clearTimeout(retry);
  stream?.close();
}

// A browser has six connections to a service: pages in tabs that nobody looks at give theirs back.
function followWhileSeen() {
  leave();
  if (document.hidden) return;
  keepUp();
  follow();
}

keepUp();
if (host.dataset.ended === "no") {
  if (!document.hidden) follow();
  document.addEventListener("visibilitychange", followWhileSeen);
}
