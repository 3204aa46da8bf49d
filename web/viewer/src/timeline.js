// The timeline: how far repeats are apart over the run, where something happened, where they part, and what monitors say. Drawn
// on a canvas, all but the cursor once for as long as nothing changes; for the keyboard and for screen readers it is a slider.
const FLOOR_M = 1e-9;
const CEILING_M = 100;
const PAD = 10;
const LANE_PX = 15;
export const LANES_MOST = 6;

export const length = metres => {
  if (metres === 0) return "0";
  for (const [unit, size] of [["km", 1e3], ["m", 1], ["cm", 1e-2], ["mm", 1e-3], ["µm", 1e-6]]) {
    if (metres >= size) return `${(metres / size).toPrecision(3)} ${unit}`;
  }
  return `${(metres / 1e-9).toPrecision(3)} nm`;
};

export class Timeline {
  constructor(canvas, onSeek) {
    this.canvas = canvas;
    this.tracks = [];
    this.index = 0;
    this.still = document.createElement("canvas");
    this.key = null;
    this.lanes = 0;
    const seek = event => {
      const { left, width } = canvas.getBoundingClientRect();
      const share = (event.clientX - left - PAD) / (width - 2 * PAD);
      onSeek(Math.round(Math.min(1, Math.max(0, share)) * (this.count - 1)));
    };
    canvas.addEventListener("pointerdown", event => { canvas.setPointerCapture(event.pointerId); seek(event); });
    canvas.addEventListener("pointermove", event => { if (event.buttons & 1) seek(event); });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get count() { return Math.max(1, ...this.tracks.map(({ cell }) => cell.arrays.ticks.length)); }

  show(cells, index) {
    if (cells) {
      this.tracks = cells.map(cell => ({ cell }));
      this.key = null;
      this.lanes = Math.min(LANES_MOST, cells[0]?.monitors.length ?? 0);
      this.canvas.style.setProperty("--lanes", `${this.lanes * LANE_PX + (this.lanes ? 4 : 0)}px`);
    }
    this.index = index;
    this.draw();
  }

  draw() {
    const { canvas } = this, ratio = devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
    if (!width || !this.tracks.length) return;
    const wide = Math.round(width * ratio), high = Math.round(height * ratio);
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    const theme = document.documentElement.dataset.theme, key = `${wide} ${high} ${theme}`, count = this.count;
    if (this.key !== key) {
      Object.assign(this.still, { width: wide, height: high });
      const style = getComputedStyle(canvas), pen = this.still.getContext("2d"), colour = name => style.getPropertyValue(name).trim();
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.font = `11px ${style.fontFamily}`;
      this.drawStill(pen, width, height, colour);
      this.accent = colour("--accent");
      this.key = key;
    }
    const pen = canvas.getContext("2d"), now = PAD + (Math.min(this.index, count - 1) / Math.max(1, count - 1)) * (width - 2 * PAD);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.drawImage(this.still, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = pen.strokeStyle = this.accent;
    pen.lineWidth = 2;
    pen.beginPath(); pen.moveTo(now, 2); pen.lineTo(now, height - 6); pen.stroke();
    pen.beginPath(); pen.arc(now, height - 6, 5, 0, 2 * Math.PI); pen.fill();
  }

  drawStill(pen, width, height, colour) {
    const count = this.count, x = index => PAD + (index / Math.max(1, count - 1)) * (width - 2 * PAD);
    const lanes = this.lanes * LANE_PX + (this.lanes ? 4 : 0), top = 16, bottom = height - 18 - lanes;
    const cell = this.tracks[0].cell, ticks = cell.arrays.ticks;

    // How far apart, as a logarithm: from a nanometre at the bottom to 100 m at the top; nothing at all where there is none.
    const y = metres => bottom - (Math.log10(Math.max(metres, FLOOR_M) / FLOOR_M) / Math.log10(CEILING_M / FLOOR_M)) * (bottom - top);
    pen.strokeStyle = colour("--line");
    pen.fillStyle = colour("--muted");
    pen.lineWidth = 1;
    const lines = [1e-6, 1e-3, 1];
    for (const metres of lines) { pen.beginPath(); pen.moveTo(PAD, y(metres)); pen.lineTo(width - PAD, y(metres)); pen.stroke(); }
    this.tracks.forEach(({ cell: one }, number) => {
      const spread = one.arrays.spread_m;
      pen.beginPath();
      pen.moveTo(x(0), bottom);
      for (let at = 0; at < spread.length; at++) pen.lineTo(x(at), spread[at] > 0 ? y(spread[at]) : bottom);
      pen.lineTo(x(spread.length - 1), bottom);
      pen.globalAlpha = this.tracks.length > 1 ? 0.25 : 0.4;
      pen.fillStyle = colour(`--track-${number + 1}`);
      pen.fill();
      pen.globalAlpha = 1;
      pen.strokeStyle = colour(`--track-${number + 1}`);
      pen.stroke();
    });

    // At the right end, over the curve and with a rim: at the left repeats part.
    pen.textAlign = "right";
    pen.lineWidth = 3;
    pen.strokeStyle = colour("--paper");
    pen.fillStyle = colour("--ink");
    for (const metres of bottom - top > 50 ? lines : lines.slice(1)) {
      const words = length(metres).replace("1.00", "1");
      pen.strokeText(words, width - PAD - 2, y(metres) + 4);
      pen.fillText(words, width - PAD - 2, y(metres) + 4);
    }
    pen.textAlign = "left";
    pen.lineWidth = 1;

    // Marks of the first cell: triangles are collisions, bars are other events, the diamond is where repeats part.
    const place = tick => x(indexOf(ticks, tick));
    for (const mark of cell.marks) {
      const at = place(mark.tick), hit = mark.kind === "collision";
      pen.fillStyle = pen.strokeStyle = colour(hit ? "--bad" : "--muted");
      pen.globalAlpha = 0.35 + 0.65 * (mark.repeats / cell.repeats);
      pen.beginPath();
      if (hit) { pen.moveTo(at, bottom + 1); pen.lineTo(at - 5, bottom + 10); pen.lineTo(at + 5, bottom + 10); pen.fill(); }
      else { pen.moveTo(at, bottom + 2); pen.lineTo(at, bottom + 9); pen.stroke(); }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colour("--line");
    pen.beginPath(); pen.moveTo(PAD, bottom + 0.5); pen.lineTo(width - PAD, bottom + 0.5); pen.stroke();
    if (cell.parting_tick !== null) {
      const at = place(cell.parting_tick);
      pen.strokeStyle = pen.fillStyle = colour("--ink");
      pen.setLineDash([3, 3]);
      pen.beginPath(); pen.moveTo(at, 4); pen.lineTo(at, bottom); pen.stroke();
      pen.setLineDash([]);
      pen.beginPath(); pen.moveTo(at, 1); pen.lineTo(at + 5, 7); pen.lineTo(at, 13); pen.lineTo(at - 5, 7); pen.fill();
      const words = `they part, tick ${cell.parting_tick}`, right = at + 10 + pen.measureText(words).width > width - PAD;
      pen.textAlign = right ? "right" : "left";
      pen.fillText(words, at + (right ? -9 : 9), 11);
      pen.textAlign = "left";
    }
    cell.monitors.slice(0, this.lanes).forEach((monitor, number) => this.drawLane(pen, monitor, number, bottom + 14 + number * LANE_PX, x, colour, width));
  }

  // A monitor: a bar that is thin where all repeats hold, full where all fail, half where they disagree; the colour says the same.
  drawLane(pen, monitor, number, top, x, colour, width) {
    const { arrays } = this.tracks[0].cell, low = arrays[`low${number}`], high = arrays[`high${number}`], wide = Math.max(1, x(1) - x(0));
    const kind = at => (Number.isNaN(low[at]) ? null : low[at] >= 0 ? "holds" : high[at] < 0 ? "fails" : "flips");
    for (let at = 0; at < low.length;) {
      const is = kind(at), from = at;
      while (at < low.length && kind(at) === is) at += 1;
      if (is === null) continue;
      const tall = { holds: 3, flips: 7, fails: 11 }[is];
      pen.fillStyle = colour(`--${is}`);
      pen.fillRect(x(from), top + (11 - tall) / 2, Math.max(1, x(at - 1) - x(from) + wide), tall);
    }
    let words = monitor.why_not ? `${monitor.name}: not judged` : `${monitor.name}: ${monitor.passes} of ${monitor.passes + monitor.fails} pass`;
    while (words.length > 4 && pen.measureText(words).width > width / 2) words = `${words.slice(0, -2)}\u2026`;
    pen.fillStyle = colour("--paper");
    pen.fillRect(PAD, top, pen.measureText(words).width + 10, 12);
    pen.fillStyle = colour("--ink");
    pen.fillText(words, PAD + 4, top + 9);
  }
}

// The last shown tick that is not after `tick`.
export function indexOf(ticks, tick) {
  let low = 0, high = ticks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ticks[middle] <= tick) low = middle; else high = middle - 1;
  }
  return low;
}
