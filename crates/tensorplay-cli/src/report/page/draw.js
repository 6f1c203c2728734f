// The two pictures: memory over time, and the segments of a moment.

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const categoryColour = index => css('--c' + index);

/** A canvas as sharp as the screen; gives its context and its size in CSS pixels. */
function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  if (height) canvas.style.height = height + 'px';
  const tall = height || canvas.clientHeight;
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(tall * ratio);
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, tall);
  context.font = '12px ' + getComputedStyle(document.body).fontFamily;
  return { context, width, height: tall };
}

/** The pattern of memory that holds nothing. */
function hatch(context) {
  const tile = document.createElement('canvas'), ratio = window.devicePixelRatio || 1, side = Math.round(6 * ratio);
  tile.width = tile.height = side;
  const t = tile.getContext('2d');
  t.fillStyle = css('--free'); t.fillRect(0, 0, side, side);
  t.strokeStyle = css('--hatch'); t.lineWidth = ratio;
  t.beginPath();
  for (const shift of [-side, 0, side]) { t.moveTo(shift, side); t.lineTo(shift + side, 0); }
  t.stroke();
  const pattern = context.createPattern(tile, 'repeat');
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/** Round steps between 0 and `top`, in powers of two of bytes. */
function steps(top) {
  let step = 1;
  while (top / step > 5) step *= 2;
  const all = [];
  for (let at = 0; at <= top; at += step) all.push(at);
  return all;
}

class Timeline {
  constructor(canvas, model) {
    this.canvas = canvas; this.model = model;
    this.left = 74; this.right = 12; this.top = 12; this.bottom = 26;
    this.byTime = false;
    this.all();
  }
  /** The end of the horizontal axis, in events or microseconds. */
  get end() { return this.byTime ? Math.max(1, this.model.times[this.model.events]) : Math.max(1, this.model.events); }
  all() { this.from = 0; this.to = this.end; }
  place(moment) { return this.byTime ? this.model.times[moment] : moment; }
  x(moment) { return this.left + (this.place(moment) - this.from) / (this.to - this.from) * this.plot; }
  /** The moment at a horizontal place of the canvas: the last one that is not after it. */
  moment(x) {
    const at = this.from + (x - this.left) / this.plot * (this.to - this.from);
    if (!this.byTime) return Math.max(0, Math.min(this.model.events, Math.round(at)));
    let low = 0, high = this.model.events;
    while (low < high) { const middle = (low + high + 1) >> 1; if (this.model.times[middle] <= at) low = middle; else high = middle - 1; }
    return low;
  }
  zoom(factor, around) {
    const centre = this.place(around), width = Math.min(this.end, Math.max(this.byTime ? 50 : 20, (this.to - this.from) * factor));
    this.show(centre - width * (centre - this.from) / (this.to - this.from), width);
  }
  show(from, width) {
    this.from = Math.max(0, Math.min(from, this.end - width)); this.to = this.from + width;
  }
  /** Brings a moment into view. */
  reveal(moment) {
    const at = this.place(moment), width = this.to - this.from;
    if (at < this.from || at > this.to) this.show(at - width / 2, width);
  }
  /** For each column of pixels, the moments that it stands for: those with the most allocated and reserved. */
  columns() {
    const { model } = this, columns = [];
    let last = this.moment(this.left);
    for (let x = 0; x < this.plot; x++) {
      const next = this.moment(this.left + x + 1);
      let most = last, reserved = model.reserved[last];
      for (let m = last + 1; m <= next; m++) {
        if (model.allocated[m] > model.allocated[most]) most = m;
        if (model.reserved[m] > reserved) reserved = model.reserved[m];
      }
      columns.push({ most, reserved });
      last = next;
    }
    return columns;
  }
  draw(moment, drag) {
    const { model } = this, { context: c, width, height } = prepare(this.canvas);
    this.plot = width - this.left - this.right;
    const tall = height - this.top - this.bottom, columns = this.columns();
    const top = Math.max(1, ...columns.map(column => Math.max(column.reserved, model.allocated[column.most]))) * 1.04;
    const y = bytes => this.top + tall * (1 - bytes / top), base = y(0);
    c.lineWidth = 1; c.textAlign = 'right'; c.textBaseline = 'middle';
    for (const step of steps(top)) {
      c.strokeStyle = css('--line'); c.beginPath(); c.moveTo(this.left, Math.round(y(step)) + .5); c.lineTo(width - this.right, Math.round(y(step)) + .5); c.stroke();
      c.fillStyle = css('--quiet'); c.fillText(step === 0 ? '0' : size(step).replace(/\.0+ /, ' '), this.left - 9, y(step));
    }
    // What is reserved and holds nothing, behind everything.
    c.fillStyle = hatch(c); c.beginPath(); c.moveTo(this.left, base);
    columns.forEach((column, x) => { c.lineTo(this.left + x, y(column.reserved)); c.lineTo(this.left + x + 1, y(column.reserved)); });
    c.lineTo(this.left + columns.length, base); c.fill();
    const under = new Float64Array(columns.length);
    model.byCategory.forEach((bytes, category) => {
      c.fillStyle = categoryColour(category); c.beginPath(); c.moveTo(this.left, y(under[0] || 0));
      columns.forEach((column, x) => { const at = y(under[x] + bytes[column.most]); c.lineTo(this.left + x, at); c.lineTo(this.left + x + 1, at); });
      for (let x = columns.length - 1; x >= 0; x--) { c.lineTo(this.left + x + 1, y(under[x])); c.lineTo(this.left + x, y(under[x])); under[x] += bytes[columns[x].most]; }
      c.fill();
    });
    const line = (colour, value, dash, thick) => {
      c.strokeStyle = colour; c.lineWidth = thick; c.setLineDash(dash); c.beginPath();
      columns.forEach((column, x) => { const at = y(value(column)); x ? c.lineTo(this.left + x, at) : c.moveTo(this.left, at); c.lineTo(this.left + x + 1, at); });
      c.stroke(); c.setLineDash([]);
    };
    line(css('--reserved'), column => column.reserved, [], 1.5);
    line(css('--ink'), column => model.live[column.most], [1.5, 2.5], .9);
    c.textAlign = 'center'; c.textBaseline = 'top';
    for (const refusal of model.data.refusals) {
      const x = this.x(refusal[0] + 1);
      if (x < this.left || x > width - this.right) continue;
      c.strokeStyle = c.fillStyle = css('--warn'); c.lineWidth = 1;
      c.beginPath(); c.moveTo(x, this.top); c.lineTo(x, base); c.stroke();
      c.beginPath(); c.moveTo(x - 5, this.top - 4); c.lineTo(x + 5, this.top - 4); c.lineTo(x, this.top + 5); c.fill();
    }
    c.fillStyle = css('--quiet');
    const marks = Math.max(2, Math.floor(this.plot / 130));
    for (let i = 0; i <= marks; i++) {
      const at = this.from + (this.to - this.from) * i / marks;
      c.textAlign = i === 0 ? 'left' : i === marks ? 'right' : 'center';
      c.fillText(this.byTime ? duration(Math.round(at)) : count(Math.round(at)), this.left + this.plot * i / marks, base + 8);
    }
    if (drag) { c.fillStyle = css('--accent'); c.globalAlpha = .18; c.fillRect(Math.min(...drag), this.top, Math.abs(drag[0] - drag[1]), tall); c.globalAlpha = 1; }
    const x = this.x(moment);
    if (x >= this.left - 1 && x <= width - this.right + 1) {
      c.strokeStyle = css('--accent'); c.lineWidth = 1.5; c.beginPath(); c.moveTo(x, this.top - 6); c.lineTo(x, base); c.stroke();
      c.fillStyle = css('--accent'); c.beginPath(); c.arc(x, this.top - 6, 4, 0, 7); c.fill();
    }
  }
}

class SegmentMap {
  constructor(canvas, model) { this.canvas = canvas; this.model = model; this.pieces = []; }
  /** Lines of segments, one after the other; a segment longer than a line goes on in the next. */
  layout(state, width) {
    const total = state.segments.reduce((sum, s) => sum + s.size, 0), gap = 5;
    const lines = Math.min(16, Math.max(3, Math.ceil(state.segments.length / 40) + 5));
    this.scale = Math.max(1, total) / (width * lines * .94);
    this.pieces = [];
    let x = 0, line = 0;
    for (const segment of state.segments) {
      const long = Math.max(3, segment.size / this.scale);
      if (x > 0 && x + long > width && (long <= width || width - x < 40)) { x = 0; line++; }
      for (let done = 0; done < long - .01;) {
        const part = Math.min(long - done, width - x);
        if (part < .5) { x = 0; line++; continue; }
        this.pieces.push({ segment, line, x, width: part, from: segment.address + segment.size * (done / long), to: segment.address + segment.size * ((done + part) / long) });
        done += part; x += part;
        if (x >= width - .5 && done < long - .01) { x = 0; line++; }
      }
      x += gap;
      if (x >= width) { x = 0; line++; }
    }
    this.lines = x === 0 ? line : line + 1;
  }
  draw(state, colour, view) {
    const row = 26, pad = 7, width = this.canvas.clientWidth;
    this.row = row + pad;
    this.layout(state, width);
    const { context: c } = prepare(this.canvas, Math.max(1, this.lines) * this.row), { blocks } = this.model;
    const free = hatch(c), edge = css('--reserved'), paper = css('--card');
    for (const piece of this.pieces) {
      const { segment } = piece, y = piece.line * this.row, perByte = piece.width / (piece.to - piece.from);
      c.fillStyle = free; c.fillRect(piece.x, y, piece.width, row);
      for (const block of segment.blocks) {
        const from = Math.max(blocks.address[block], piece.from), to = Math.min(blocks.address[block] + blocks.size[block], piece.to);
        if (to <= from) continue;
        const x = piece.x + (from - piece.from) * perByte, wide = (to - from) * perByte;
        c.globalAlpha = view.picks && !view.picks(block) ? .16 : 1;
        c.fillStyle = colour(block);
        c.fillRect(x, y, Math.max(wide, .6), row);
        c.globalAlpha = 1;
        if (wide > 3) { c.fillStyle = paper; c.fillRect(x + wide - .6, y, .6, row); }
        if (view.block === block) { c.strokeStyle = css('--ink'); c.lineWidth = 2; c.strokeRect(x + 1, y + 1, Math.max(wide - 2, 1), row - 2); }
      }
      c.strokeStyle = edge; c.lineWidth = 1; c.setLineDash(segment.blocks.length || piece.width < 8 ? [] : [3, 2]);
      c.strokeRect(piece.x + .5, y + .5, Math.max(piece.width - 1, 1), row - 1); c.setLineDash([]);
    }
  }
  /** The segment and the block, if any, at a place of the canvas. */
  find(x, y) {
    const line = Math.floor(y / this.row), { blocks } = this.model;
    if (y - line * this.row > 26) return null;
    const piece = this.pieces.find(p => p.line === line && x >= p.x && x < p.x + p.width);
    if (!piece) return null;
    const reach = (piece.to - piece.from) / piece.width, address = piece.from + (x - piece.x) * reach;
    let best = null, distance = reach * 1.5;
    for (const block of piece.segment.blocks) {
      const from = blocks.address[block], to = from + blocks.size[block];
      const away = address < from ? from - address : address >= to ? address - to : 0;
      if (away < distance || (away === 0 && distance > 0)) { best = block; distance = away; }
      if (away === 0) break;
    }
    return { segment: piece.segment, block: best, address };
  }
}
