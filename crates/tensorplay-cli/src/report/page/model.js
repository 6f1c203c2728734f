// What the file holds, and what follows from it for a moment. Nothing here draws.
'use strict';

/** Reads numbers of seven bits a byte, the lowest first. */
class Reader {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) this.bytes[i] = text.charCodeAt(i);
    this.at = 0;
  }
  number() {
    let value = 0, scale = 1, byte;
    do { byte = this.bytes[this.at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
    return value;
  }
  signed() {
    const value = this.number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

/** One device's history: columns of blocks and segments, and the bytes at every moment. */
class Model {
  constructor(data) {
    this.data = data;
    this.events = data.events;
    const unit = data.unit;
    const b = new Reader(data.blocks), count = data.block_count;
    const blocks = this.blocks = {
      count, from: new Uint32Array(count), given: new Uint32Array(count), to: new Uint32Array(count),
      address: new Float64Array(count), size: new Float64Array(count), requested: new Float64Array(count),
      stream: new Uint16Array(count), stack: new Int32Array(count), owner: new Uint32Array(count),
      category: new Uint8Array(count),
    };
    let from = 0, address = 0;
    for (let i = 0; i < count; i++) {
      from += b.number(); blocks.from[i] = from;
      blocks.to[i] = from + b.number();
      blocks.given[i] = blocks.to[i] - b.number();
      address += b.signed(); blocks.address[i] = address * unit;
      blocks.size[i] = b.number() * unit;
      blocks.requested[i] = blocks.size[i] - b.signed();
      blocks.stream[i] = b.number();
      const stack = b.number() - 1;
      blocks.stack[i] = stack;
      blocks.owner[i] = stack < 0 ? 0 : data.owner_of[stack];
      blocks.category[i] = data.owners[blocks.owner[i]][2];
    }
    const s = new Reader(data.segments);
    this.segments = [];
    from = 0; address = 0;
    for (let i = 0; i < data.segment_count; i++) {
      from += s.number();
      const to = from + s.number();
      address += s.signed();
      const size = s.number() * unit, stream = s.number(), flags = s.number(), pool = s.number();
      this.segments.push({
        from, to, address: address * unit, size, stream, pool, isSmall: !!(flags & 1), isExpandable: !!(flags & 2),
      });
    }
    if (data.times) {
      const t = new Reader(data.times);
      this.times = new Float64Array(this.events + 1);
      for (let i = 1; i <= this.events; i++) this.times[i] = this.times[i - 1] + t.number();
    }
    this.levels();
  }

  /** Bytes at every moment: live, allocated (by category too), reserved. */
  levels() {
    const { blocks, events } = this, length = events + 2;
    const sums = array => { for (let i = 1; i < length; i++) array[i] += array[i - 1]; return array; };
    const live = new Float64Array(length), allocated = new Float64Array(length), reserved = new Float64Array(length);
    this.byCategory = this.data.categories.map(() => new Float64Array(length));
    for (let i = 0; i < blocks.count; i++) {
      const from = blocks.from[i], given = blocks.given[i], category = this.byCategory[blocks.category[i]];
      live[from] += blocks.requested[i]; live[given] -= blocks.requested[i];
      allocated[from] += blocks.size[i]; allocated[given] -= blocks.size[i];
      category[from] += blocks.size[i]; category[given] -= blocks.size[i];
    }
    for (const s of this.segments) { reserved[s.from] += s.size; reserved[s.to] -= s.size; }
    this.live = sums(live); this.allocated = sums(allocated); this.reserved = sums(reserved);
    this.byCategory.forEach(sums);
  }

  /** What is held at a moment: segments with their blocks in order of addresses. */
  at(moment) {
    const { blocks } = this, held = [];
    for (let i = 0; i < blocks.count && blocks.from[i] <= moment; i++) if (moment < blocks.to[i]) held.push(i);
    held.sort((a, b) => blocks.address[a] - blocks.address[b]);
    const there = this.segments.filter(s => s.from <= moment && moment < s.to).sort((a, b) => a.address - b.address);
    const segments = [];
    for (const s of there) {
      const last = segments[segments.length - 1];
      if (last && s.isExpandable && last.isExpandable && last.end === s.address && last.pool === s.pool && last.stream === s.stream) {
        last.end += s.size; last.size += s.size;
      } else segments.push({ ...s, end: s.address + s.size, blocks: [], used: 0, free: 0, largest: 0 });
    }
    let next = 0;
    for (const segment of segments) {
      while (next < held.length && blocks.address[held[next]] < segment.address) next++;
      let at = segment.address;
      for (; next < held.length && blocks.address[held[next]] < segment.end; next++) {
        const block = held[next];
        segment.blocks.push(block);
        segment.used += blocks.size[block];
        segment.largest = Math.max(segment.largest, blocks.address[block] - at);
        at = blocks.address[block] + blocks.size[block];
      }
      segment.largest = Math.max(segment.largest, segment.end - at);
      segment.free = segment.size - segment.used;
    }
    return { moment, held, segments };
  }

  /** Sums over what is held, by what `key` gives of a block; the largest first. */
  group(state, key) {
    const { blocks } = this, groups = new Map();
    for (const block of state.held) {
      if (state.moment >= blocks.given[block]) continue;
      const name = key(block);
      let group = groups.get(name);
      if (!group) groups.set(name, group = { name, count: 0, bytes: 0, block });
      group.count++; group.bytes += blocks.size[block];
    }
    return [...groups.values()].sort((a, b) => b.bytes - a.bytes || (a.block - b.block));
  }

  /** Where the reserved bytes are that hold nothing, and what keeps them. */
  waste(state) {
    const { blocks } = this;
    const sum = { requested: 0, rounding: 0, waiting: 0, pinned: 0, idle: 0, largest: 0, reserved: 0 };
    const pinnedBy = new Float64Array(blocks.count);
    for (const segment of state.segments) {
      sum.reserved += segment.size;
      sum.largest = Math.max(sum.largest, segment.largest);
      if (segment.blocks.length === 0) { sum.idle += segment.free; continue; }
      sum.pinned += segment.free;
      for (const block of segment.blocks) pinnedBy[block] = segment.free / segment.blocks.length;
    }
    for (const block of state.held) {
      if (state.moment >= blocks.given[block]) { sum.waiting += blocks.size[block]; continue; }
      sum.requested += blocks.requested[block];
      sum.rounding += blocks.size[block] - blocks.requested[block];
    }
    return { ...sum, pinnedBy };
  }

  /** The moment of the peak: of those with the most reserved, the first with the most allocated. */
  peak() {
    let peak = 0;
    for (let m = 1; m <= this.events; m++) {
      if (this.reserved[m] > this.reserved[peak] ||
          this.reserved[m] === this.reserved[peak] && this.allocated[m] > this.allocated[peak]) peak = m;
    }
    return peak;
  }
  largest(array) {
    let at = 0;
    for (let m = 1; m <= this.events; m++) if (array[m] > array[at]) at = m;
    return at;
  }
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
function size(bytes) {
  let power = 0, value = bytes;
  while (Math.abs(value) >= 1024 && power < UNITS.length - 1) { value /= 1024; power++; }
  return (power === 0 ? String(Math.round(value)) : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : value < 1000 ? 1 : 0)) + ' ' + UNITS[power];
}
const count = number => String(number).replace(/\B(?=(\d{3})+$)/g, ',');
const percent = part => (100 * part).toFixed(part < 0.1 ? 2 : 1) + ' %';
function duration(us) {
  return us >= 60e6 ? (us / 60e6).toFixed(1) + ' min' : us >= 1e6 ? (us / 1e6).toFixed(2) + ' s'
    : us >= 1e3 ? (us / 1e3).toFixed(1) + ' ms' : us + ' µs';
}
if (typeof module !== 'undefined') module.exports = { Reader, Model, size, count };
