// Curves that grow: one uPlot for each, its data kept here. The drawings of the server say the
// same in words and tables, so a reader who does not see these misses nothing.

const HEIGHT = 230;
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 3]];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const whole = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");

const shown = (value) => (value == null ? "–" : String(Number(value.toPrecision(4))));

// What of a curve comes behind a round: two answers may hold the same one.
function behind(data, round) {
  const from = data.rounds.findIndex((one) => one > round);
  const rest = (values) => (from < 0 ? [] : values.slice(from));
  const lines = data.lines.map((line) => ({ ...line, values: rest(line.values) }));
  return { ...data, rounds: rest(data.rounds), lines };
}

class Curve {
  constructor(data, host) {
    this.data = data;
    this.box = document.createElement("figure");
    this.box.className = "curve";
    const caption = document.createElement("figcaption");
    caption.append(Object.assign(document.createElement("strong"), { textContent: data.title }));
    caption.append(Object.assign(document.createElement("span"), { textContent: data.unit }));
    this.place = document.createElement("div");
    this.place.setAttribute("role", "img");
    this.box.append(caption, this.place);
    host.append(this.box);
    this.draw();
  }

  get columns() {
    return [this.data.rounds, ...this.data.lines.map((line) => line.values)];
  }

  get width() {
    return Math.max(240, this.place.clientWidth);
  }

  draw() {
    this.plot?.destroy();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--grid"), width: 1 },
      ticks: { stroke: colour("--grid"), width: 1 }, font: "12px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: this.width,
      height: HEIGHT,
      scales: { x: { time: false } },
      axes: [
        { ...axis, label: "round", labelSize: 20, labelFont: axis.font, size: 34,
          values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? whole(tick) : "")) },
        { ...axis, size: 58, values: (_, ticks) => ticks.map(shown) },
      ],
      // Away from the pointer the legend shows the last round.
      hooks: { setCursor: [(plot) => plot.cursor.idx == null && this.showLast()],
        draw: [(plot) => this.markBest(plot)] },
      series: [{ label: "round", value: (_, round) => (round == null ? "–" : whole(round)) }, ...this.data.lines.map((line, place) => ({
        label: line.name,
        stroke: colour(`--c${place % 6}`),
        dash: DASHES[place % 6],
        width: 2,
        points: { show: this.data.rounds.length < 2 },
        value: (_, value) => shown(value),
      }))],
    }, this.columns, this.place);
    this.describe();
  }

  // The best round of a run that has ended: a dotted line, as in the drawings.
  markBest(plot) {
    const { best, rounds } = this.data;
    if (best == null || best < rounds[0] || best > rounds.at(-1)) return;
    const { ctx, bbox } = plot;
    const x = Math.round(plot.valToPos(best, "x", true));
    ctx.save();
    ctx.strokeStyle = colour("--ink");
    ctx.setLineDash([2, 3].map((length) => length * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  // Rounds behind those that are shown; a line that is new here is drawn anew.
  grow(found) {
    const more = behind(found, this.data.rounds.at(-1));
    if (!more.rounds.length) return;
    const lines = new Map(this.data.lines.map((line) => [line.name, line.values]));
    const gap = () => new Array(this.data.rounds.length).fill(null);
    const known = more.lines.every((line) => lines.has(line.name));
    for (const line of more.lines) {
      if (!lines.has(line.name)) lines.set(line.name, gap());
    }
    const grown = new Map(more.lines.map((line) => [line.name, line.values]));
    const missing = new Array(more.rounds.length).fill(null);
    this.data = {
      ...this.data,
      rounds: [...this.data.rounds, ...more.rounds],
      lines: [...lines].map(([name, values]) => ({
        name, values: [...values, ...(grown.get(name) ?? missing)],
      })),
    };
    this.replaceBy(this.data, known && this.data.rounds.length - more.rounds.length > 1);
  }

  replaceBy(data, sameLines = false) {
    this.data = data;
    if (sameLines) {
      this.plot.setData(this.columns);
      this.describe();
    } else {
      this.draw();
    }
  }

  resize() {
    this.plot.setSize({ width: this.width, height: HEIGHT });
  }

  showLast() {
    this.plot?.setLegend({ idx: this.data.rounds.length - 1 });
  }

  describe() {
    this.showLast();
    const { title, rounds, lines } = this.data;
    const last = rounds.at(-1);
    const values = lines.map((line) => `${line.name} ${shown(line.values.at(-1))}`).join(", ");
    const marked = this.data.best == null ? "" : ` The best round is ${this.data.best}.`;
    this.place.setAttribute("aria-label", `${title}. In round ${last}: ${values}.${marked}`);
  }
}

export class Curves {
  constructor(host) {
    this.host = host;
    this.found = new Map();
    new ResizeObserver(() => this.found.forEach((curve) => curve.resize())).observe(host);
    matchMedia("(prefers-color-scheme: dark)")
      .addEventListener("change", () => this.found.forEach((curve) => curve.draw()));
  }

  get points() {
    return Math.max(0, ...[...this.found.values()].map((curve) => curve.data.rounds.length));
  }

  // `fromTheStart`: the curves are whole, and not what comes behind those that are shown.
  show(curves, fromTheStart, best = null) {
    for (const data of curves.map((one) => ({ ...one, best }))) {
      const curve = this.found.get(data.name);
      if (!curve) this.found.set(data.name, new Curve(data, this.host));
      else if (fromTheStart) curve.replaceBy(data);
      else curve.grow(data);
    }
  }
}
