// The page: what is picked, and everything that follows from it.

const $ = id => document.getElementById(id);
const DATA = JSON.parse($('data').textContent);
const escaped = text => String(text).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const ROWS = 16;

const view = { moment: 0, group: 'place', picked: null, block: null, picks: null };
let model, timeline, map, state, waste;

/** What is called for a block: the key by which it is grouped, and what to show of a group. */
const GROUPS = {
  place: { of: b => model.data.owners[model.blocks.owner[b]][0], show: name => `<span class="name">${escaped(name)}</span>` },
  operator: { of: b => model.data.owners[model.blocks.owner[b]][1] || '—', show: name => `<span class="name">${escaped(name)}</span>` },
  stack: {
    of: b => model.blocks.stack[b],
    show: (stack, block) => { const [place, operator] = ownerOf(block); return `<span class="name">${escaped(place)}</span><span class="sub">${[escaped(operator), stack < 0 ? '' : 'stack ' + (stack + 1)].filter(Boolean).join(' · ')}</span>`; },
  },
};
const ownerOf = block => model.data.owners[model.blocks.owner[block]];

function open(device) {
  const data = DATA.devices[device];
  model = new Model(data);
  timeline = new Timeline($('timeline'), model);
  map = new SegmentMap($('map'), model);
  view.picked = view.block = view.picks = null;
  $('moment').max = model.events;
  const peak = model.peak(), top = model.largest(model.allocated);
  const tile = (name, value, more = '') => `<div><dt>${name}</dt><dd>${value}<small>${more}</small></dd></div>`;
  const part = model.reserved[peak] ? Math.max(0, 1 - model.allocated[top] / model.reserved[peak]) : 0;
  $('tiles').innerHTML = tile('Peak reserved', size(model.reserved[peak])) + tile('Peak allocated', size(model.allocated[top]))
    + tile('Peak asked for', size(model.live[model.largest(model.live)])) + tile('Waste', percent(part), size(Math.max(0, model.reserved[peak] - model.allocated[top])))
    + tile('Events', count(model.events)) + tile('Segments then', count(model.at(peak).segments.length));
  $('about').textContent = data.about;
  const refused = data.refusals.length;
  $('verdict').innerHTML = model.segments.length === 0 ? 'Nothing was held from the driver.' :
    `At its peak this run held <b>${size(model.reserved[peak])}</b> from the driver, and its blocks never came to more than <b>${size(model.allocated[top])}</b>: ` +
    `<b>${percent(part)}</b> was the price of fragmentation and caching.` +
    (refused ? ` <span style="color:var(--warn)">${refused === 1 ? 'One request was' : count(refused) + ' requests were'} refused for want of memory.</span>` : '');
  const jumps = [['Peak reserved', peak], ['Peak allocated', top], ...data.refusals.slice(0, 3).map((r, i) => ['Out of memory' + (refused > 1 ? ' ' + (i + 1) : ''), r[0]])];
  $('jumps').innerHTML = jumps.map(([name, at]) => `<button type="button" data-at="${at}">${name}</button>`).join('');
  $('legend').innerHTML = data.categories.map(([name, about], i) => model.byCategory[i].some(b => b > 0) ? `<li title="${escaped(about)}"><i class="swatch" style="background:var(--c${i})"></i>${escaped(name)}</li>` : '').join('')
    + '<li title="Bytes that the driver has given and no block holds"><i class="swatch free"></i>Reserved, free</li><li title="What the program asked for, before sizes are rounded"><i class="swatch line" style="border-top-style:dashed;color:var(--ink)"></i>Asked for</li>';
  $('notes').innerHTML = data.notes.map(note => `<li>${escaped(note)}</li>`).join('');
  $('axis').hidden = !model.times;
  go(peak);
}

/** Makes a moment the one that the page is about. */
function go(moment) {
  view.moment = Math.max(0, Math.min(model.events, moment));
  state = model.at(view.moment);
  waste = model.waste(state);
  timeline.reveal(view.moment);
  if (view.block !== null && !state.held.includes(view.block)) view.block = null;
  show();
}

function show() {
  const m = view.moment;
  timeline.draw(m);
  $('moment').value = m;
  $('moment-text').innerHTML = (m === 0 ? 'Before the first event' : `After event <b>${count(m - 1)}</b>`) + (model.times ? ` · ${duration(model.times[m])}` : '')
    + ` · ${size(model.allocated[m])} allocated, ${size(model.reserved[m])} reserved`;
  showMap(); showBlock(); showOwners(); showWaste();
}

function colours() {
  const { blocks } = model, kind = $('colour').value;
  // From blue over grey to yellow: told apart by lightness too.
  const [from, to] = [[35, 71, 130], [250, 205, 70]];
  const ramp = part => `rgb(${from.map((c, i) => Math.round(c + (to[i] - c) * Math.min(1, Math.max(0, part)))).join(' ')})`;
  if (kind === 'stream') return block => `hsl(${(215 + 137.5 * blocks.stream[block]) % 360} 52% 52%)`;
  if (kind === 'age') {
    const scale = Math.log1p(Math.max(1, view.moment));
    return block => ramp(Math.log1p(view.moment - blocks.from[block]) / scale);
  }
  if (kind === 'pin') {
    const most = state.held.reduce((most, block) => Math.max(most, waste.pinnedBy[block]), 1);
    return block => ramp(Math.sqrt(waste.pinnedBy[block] / most));
  }
  const all = model.data.categories.map((_, i) => categoryColour(i));
  return block => all[blocks.category[block]];
}

function showMap() {
  const { segments } = state, idle = segments.filter(s => s.blocks.length === 0).length;
  $('map-about').textContent = segments.length === 0 ? 'Nothing is held from the driver.' :
    `${count(segments.length)} ${segments.length === 1 ? 'segment' : 'segments'} in order of addresses, ${idle ? count(idle) + ' of them wholly free (dashed)' : 'none of them wholly free'}. Each is as long as it is large; hatching is free. Point at a block to see whose it is, click to see its stack.`
    + ({ age: ' Colours go from new (blue) to old (yellow).', pin: ' The yellower a block, the more free memory it keeps from going back.' }[$('colour').value] || '');
  map.draw(state, colours(), view);
}

function frames(block) {
  const stack = model.blocks.stack[block];
  return stack < 0 ? [] : model.data.stacks[stack].map(frame => model.data.frames[frame]);
}

function showBlock() {
  const block = view.block, panel = $('block'), { blocks } = model;
  panel.hidden = block === null;
  if (block === null) return;
  const [place, operator] = ownerOf(block), to = blocks.to[block], lines = frames(block);
  panel.innerHTML = `<b>${escaped(place)}</b>${operator ? ' · ' + escaped(operator) : ''}<br>${size(blocks.size[block])} for a request of ${count(blocks.requested[block])} bytes, at 0x${blocks.address[block].toString(16)}, `
    + `stream ${escaped(model.data.streams[blocks.stream[block]])}. ${blocks.from[block] === 0 ? 'There before the recording' : 'Allocated at event ' + count(blocks.from[block] - 1)}, `
    + `${to > model.events ? 'and never freed.' : 'freed at event ' + count(to - 1) + '.'}`
    + (waste.pinnedBy[block] > 0 ? ` It pins ${size(waste.pinnedBy[block])} of free memory.` : '')
    + (lines.length ? `<ol>${lines.map(line => `<li${line === place || line.endsWith('/' + place) ? ' class="own"' : ''}>${escaped(line)}</li>`).join('')}</ol>` : '');
  const list = panel.querySelector('ol'), own = panel.querySelector('.own');
  if (own) list.scrollTop = Math.max(0, own.offsetTop - list.offsetTop - 60);
}

function table(id, heads, rows) {
  const columns = heads.map(([, kind]) => `<col class="${kind || ''}">`).join('');
  $(id).innerHTML = `<colgroup>${columns}</colgroup><thead><tr>${heads.map(([name]) => `<th scope="col">${name}</th>`).join('')}</tr></thead><tbody>${rows.join('')}</tbody>`;
}

function showOwners() {
  const group = GROUPS[view.group], groups = model.group(state, group.of);
  const total = groups.reduce((sum, g) => sum + g.bytes, 0), most = groups.length ? groups[0].bytes : 1;
  const row = g => {
    const picked = view.picked && view.picked.kind === view.group && view.picked.name === g.name;
    const colour = `var(--c${model.blocks.category[g.block]})`;
    return `<tr class="pick${picked ? ' picked' : ''}" tabindex="0" data-block="${g.block}"><td>${group.show(g.name, g.block)}<span class="bar" style="width:${100 * g.bytes / most}%;background:${colour}"></span></td><td>${count(g.count)}</td><td>${size(g.bytes)}</td><td>${percent(g.bytes / total)}</td></tr>`;
  };
  const rows = groups.slice(0, ROWS).map(row), rest = groups.slice(ROWS);
  if (rest.length) {
    const bytes = rest.reduce((sum, g) => sum + g.bytes, 0), blocks = rest.reduce((sum, g) => sum + g.count, 0);
    rows.push(`<tr><td class="quiet">${count(rest.length)} more</td><td>${count(blocks)}</td><td>${size(bytes)}</td><td>${percent(bytes / total)}</td></tr>`);
  }
  table('owners', [[{ place: 'Line of the program', operator: 'Operator', stack: 'Stack' }[view.group]], ['Blocks', 'short'], ['Bytes', 'num'], ['Share', 'short']], rows);
  const kinds = model.group(state, block => model.blocks.category[block]);
  table('categories', [['Kind of use'], ['Blocks', 'short'], ['Bytes', 'num']], kinds.map(g =>
    `<tr title="${escaped(model.data.categories[g.name][1])}"><td><span class="name"><i class="swatch" style="background:var(--c${g.name})"></i> ${escaped(model.data.categories[g.name][0])}</span><span class="bar" style="width:${100 * g.bytes / kinds[0].bytes}%;background:var(--c${g.name})"></span></td><td>${count(g.count)}</td><td>${size(g.bytes)}</td></tr>`));
}

function showWaste() {
  const w = waste, free = w.pinned + w.idle;
  const parts = [
    ['Asked for', w.requested, 'var(--c0)'], ['Rounding', w.rounding, 'var(--c1)'], ['Waiting for other streams', w.waiting, 'var(--c3)'],
    ['Free, pinned by blocks of its segment', w.pinned, 'var(--warn)'], ['Free in whole segments', w.idle, 'var(--reserved)'],
  ].filter(part => part[1] > 0);
  $('waste-bar').innerHTML = parts.map(([name, bytes, colour]) => `<i style="flex:${bytes} 0 0;background:${colour}" title="${name}: ${size(bytes)}"></i>`).join('');
  $('waste-bar').setAttribute('aria-label', parts.map(([name, bytes]) => `${name}: ${size(bytes)}`).join(', '));
  $('waste-legend').innerHTML = parts.map(([name, bytes, colour]) => `<li><i class="swatch" style="background:${colour}"></i>${name} <b>${size(bytes)}</b> ${percent(bytes / w.reserved)}</li>`).join('');
  const refusal = model.data.refusals.find(r => r[0] === view.moment || r[0] + 1 === view.moment);
  $('waste-text').innerHTML = free === 0 ? 'Everything that is reserved is in use.' :
    `Of ${size(w.reserved)} reserved, <b>${size(free)}</b> hold nothing. The largest free range is <b>${size(w.largest)}</b>: no larger request is served without the driver` +
    (w.largest < free / 2 ? ', although all free ranges together would be enough for more than twice that.' : '.') +
    (w.idle > 0 ? ` ${size(w.idle)} are whole segments, which <code>torch.cuda.empty_cache()</code> would give back.` : '') +
    (w.pinned > 0 ? ` ${size(w.pinned)} lie between blocks that are in use, and stay.` : '') +
    (refusal ? ` <b style="color:var(--warn)">Here a request for ${size(refusal[1])} was refused, with ${size(refusal[2])} free on the device.</b>` : '');
  const pins = new Map();
  for (const block of state.held) {
    const bytes = w.pinnedBy[block];
    if (!(bytes > 0)) continue;
    const [name, operator] = ownerOf(block), key = name + '\n' + operator;
    const pin = pins.get(key) || { name, operator, count: 0, bytes: 0, own: 0, block };
    pin.count++; pin.bytes += bytes; pin.own += model.blocks.size[block];
    if (bytes > w.pinnedBy[pin.block]) pin.block = block;
    pins.set(key, pin);
  }
  const worst = [...pins.values()].sort((a, b) => b.bytes - a.bytes || a.block - b.block).slice(0, 10);
  table('pins', [['Line of the program'], ['Blocks', 'short'], ['Own bytes', 'num'], ['Pins', 'num']], worst.map(p =>
    `<tr class="pick" tabindex="0" data-pin="${p.block}"><td><span class="name">${escaped(p.name)}</span><span class="sub">${escaped(p.operator)}</span><span class="bar" style="width:${100 * p.bytes / worst[0].bytes}%;background:var(--warn)"></span></td><td>${count(p.count)}</td><td>${size(p.own)}</td><td>${size(p.bytes)}</td></tr>`));
  const segments = state.segments.filter(s => s.free > 0).sort((a, b) => b.free - a.free || a.address - b.address).slice(0, 10);
  table('segments', [['Address'], ['Size', 'num'], ['Free', 'num'], ['Blocks', 'short']], segments.map(s =>
    `<tr><td>0x${s.address.toString(16)}<span class="sub"> ${s.isSmall ? 'small' : 'large'}${s.pool ? ' · pool ' + escaped(model.data.pools[s.pool]) : ''}</span></td><td>${size(s.size)}</td><td>${size(s.free)}</td><td>${count(s.blocks.length)}</td></tr>`));
}

function pick(block) {
  const { of } = GROUPS[view.group], name = of(block);
  if (view.picked && view.picked.name === name && view.picked.kind === view.group) clearPick();
  else { view.picked = { kind: view.group, name }; view.picks = b => of(b) === name; }
  showMap(); showOwners();
}
function clearPick() { view.picked = view.picks = null; }

const tip = $('tip');
function tell(event, html) {
  tip.innerHTML = html; tip.hidden = false;
  const box = tip.getBoundingClientRect(), room = 14;
  tip.style.left = Math.max(8, Math.min(event.clientX + room, innerWidth - box.width - 8)) + 'px';
  tip.style.top = (event.clientY + room + box.height > innerHeight ? event.clientY - box.height - room : event.clientY + room) + 'px';
}

let drag = null;
const within = (event, canvas) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
$('timeline').addEventListener('pointerdown', event => { drag = [within(event, $('timeline'))[0]]; $('timeline').setPointerCapture(event.pointerId); });
$('timeline').addEventListener('pointermove', event => {
  const [x] = within(event, $('timeline')), m = timeline.moment(x);
  if (drag) { drag[1] = x; timeline.draw(view.moment, Math.abs(drag[1] - drag[0]) > 4 ? drag : null); }
  const kinds = model.data.categories.map(([name], i) => [name, model.byCategory[i][m], `var(--c${i})`]).filter(k => k[1] > 0).reverse();
  tell(event, `<b>${m === 0 ? 'Start' : 'Event ' + count(m - 1)}</b>${model.times ? ' <span class="dim">' + duration(model.times[m]) + '</span>' : ''}<table>`
    + [['Reserved', model.reserved[m]], ['Allocated', model.allocated[m]], ['Asked for', model.live[m]]].map(([name, bytes]) => `<tr><td>${name}</td><td><b>${size(bytes)}</b></td></tr>`).join('')
    + kinds.map(([name, bytes, colour]) => `<tr><td><i class="swatch" style="background:${colour}"></i> ${escaped(name)}</td><td>${size(bytes)}</td></tr>`).join('') + '</table>');
});
$('timeline').addEventListener('pointerup', event => {
  const [x] = within(event, $('timeline')), from = drag ? drag[0] : x;
  drag = null;
  if (Math.abs(x - from) <= 4) return go(timeline.moment(x));
  const [a, b] = [timeline.place(timeline.moment(Math.min(x, from))), timeline.place(timeline.moment(Math.max(x, from)))];
  timeline.show(a, Math.max(b - a, timeline.byTime ? 50 : 20));
  timeline.draw(view.moment);
});
$('timeline').addEventListener('dblclick', () => { timeline.all(); timeline.draw(view.moment); });
$('map').addEventListener('pointermove', event => {
  const found = map.find(...within(event, $('map'))), { blocks } = model;
  if (!found) { tip.hidden = true; return; }
  const { segment, block } = found;
  const about = `<span class="dim">segment 0x${segment.address.toString(16)}: ${size(segment.size)}, ${size(segment.free)} free, ${count(segment.blocks.length)} ${segment.blocks.length === 1 ? 'block' : 'blocks'}</span>`;
  if (block === null) return tell(event, `<b>Free</b><br>${about}`);
  const [place, operator] = ownerOf(block);
  tell(event, `<b>${escaped(place)}</b>${operator ? ' <span class="dim">' + escaped(operator) + '</span>' : ''}<br>${size(blocks.size[block])} · ${escaped(model.data.categories[blocks.category[block]][0])}`
    + `${view.moment >= blocks.given[block] ? ' · waits for other streams' : ''}<br>${about}`);
});
$('map').addEventListener('click', event => {
  const found = map.find(...within(event, $('map')));
  view.block = found && found.block !== view.block ? found.block : null;
  showMap(); showBlock();
});
for (const canvas of ['timeline', 'map']) $(canvas).addEventListener('pointerleave', () => { tip.hidden = true; });
let sliding;
$('moment').addEventListener('input', event => {
  // One frame at a time, however fast the slider goes.
  cancelAnimationFrame(sliding);
  sliding = requestAnimationFrame(() => go(Number(event.target.value)));
});
$('jumps').addEventListener('click', event => { if (event.target.dataset.at) go(Number(event.target.dataset.at)); });
$('colour').addEventListener('change', showMap);
const choice = (id, change) => $(id).addEventListener('click', event => {
  const { value } = event.target.dataset;
  if (!value) return;
  for (const button of $(id).children) button.setAttribute('aria-pressed', button === event.target);
  change(value);
});
choice('axis', value => { timeline.byTime = value === 'time'; timeline.all(); timeline.draw(view.moment); });
choice('group', value => { view.group = value; clearPick(); showMap(); showOwners(); });
const zoom = factor => { factor ? timeline.zoom(factor, view.moment) : timeline.all(); timeline.draw(view.moment); };
$('zoom-in').addEventListener('click', () => zoom(.5));
$('zoom-out').addEventListener('click', () => zoom(2));
$('zoom-all').addEventListener('click', () => zoom(0));
const press = (id, act) => {
  $(id).addEventListener('click', event => { const row = event.target.closest('tr.pick'); if (row) act(row); });
  $(id).addEventListener('keydown', event => { if ((event.key === 'Enter' || event.key === ' ') && event.target.matches('tr.pick')) { event.preventDefault(); act(event.target); } });
};
press('owners', row => pick(Number(row.dataset.block)));
press('pins', row => { view.block = Number(row.dataset.pin); showMap(); showBlock(); $('block').scrollIntoView({ block: 'nearest', behavior: 'smooth' }); });
document.addEventListener('keydown', event => {
  if (event.target.matches('input, select') || event.ctrlKey || event.metaKey || event.altKey) return;
  const shown = timeline.byTime ? model.events : timeline.to - timeline.from, far = event.shiftKey ? Math.max(1, Math.round(shown / 100)) : 1;
  const keys = {
    ArrowLeft: () => go(view.moment - far), ArrowRight: () => go(view.moment + far), Home: () => go(0), End: () => go(model.events),
    p: () => go(model.peak()), '+': () => zoom(.5), '=': () => zoom(.5), '-': () => zoom(2), 0: () => zoom(0),
    Escape: () => { clearPick(); view.block = null; show(); },
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
$('theme').addEventListener('click', () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  show();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show());
let resizing;
addEventListener('resize', () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(show); });

$('file').textContent = DATA.file;
if (DATA.devices.length > 1) {
  $('devices').hidden = false;
  $('device').innerHTML = DATA.devices.map((d, i) => `<option value="${i}">${d.device}</option>`).join('');
  $('device').addEventListener('change', event => open(Number(event.target.value)));
}
if (DATA.devices.length > 0) open(0);
