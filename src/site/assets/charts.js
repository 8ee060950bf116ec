'use strict';
// Charts show the value of the point under the pointer or the arrow keys. Without this script a chart is a
// picture with a description.
const watchChart = figure => {
  const svg = figure.querySelector('svg');
  const told = figure.querySelector('output');
  const { first, step, values, max, unit } = svg.dataset;
  const textOf = value => unit ? (value / 10).toFixed(1) + unit.slice(6) : (+value).toLocaleString('en');
  const known = values.split(',');
  const [line, dot, label] = svg.querySelector('.at').children;
  const described = [...told.childNodes];
  let at = known.length - 1;
  const show = to => {
    at = Math.min(known.length - 1, Math.max(0, to));
    const x = known.length > 1 ? at * 100 / (known.length - 1) : 50;
    const y = known[at] ? 100 - 100 * known[at] / max : 0;
    for (const name of ['x1', 'x2']) line.setAttribute(name, `${x}%`);
    dot.setAttribute('cx', `${x}%`);
    dot.setAttribute('cy', `${y}%`);
    dot.toggleAttribute('hidden', !known[at]);
    const date = new Date((+first + at * step) * 1000);
    // A time outside the calendar has no text.
    const moment = isNaN(date) ? '' : date.toISOString();
    const when = step < 86400 ? moment.slice(0, 16).replace('T', ' ') + ' UTC' : moment.slice(0, 10);
    label.textContent = `${when}: ${known[at] ? textOf(known[at]) : 'not known'}`;
    told.textContent = label.textContent + '.';
    // Beside the dot, on the side with more space.
    label.setAttribute('text-anchor', x > 50 ? 'end' : 'start');
    label.setAttribute('x', `${x}%`);
    label.setAttribute('y', `${y}%`);
    label.setAttribute('dx', x > 50 ? -8 : 8);
    label.setAttribute('dy', y < 10 ? 16 : -8);
  };
  // The description again, and no mark. A touch ends with an event of this kind too, and its value stays.
  const leave = event => {
    if (document.activeElement === svg || event.pointerType === 'touch') return;
    line.removeAttribute('x1');
    told.replaceChildren(...described);
  };
  const follow = event => {
    const box = svg.getBoundingClientRect();
    show(Math.round((event.clientX - box.left) / box.width * (known.length - 1)));
  };
  svg.addEventListener('focus', () => show(at));
  svg.addEventListener('blur', leave);
  svg.addEventListener('pointerdown', follow);
  svg.addEventListener('pointermove', follow);
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('keydown', event => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -at, End: known.length - 1 - at }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      show(at + by);
    }
  });
};

document.querySelectorAll('figure.chart').forEach(watchChart);

// An open dashboard is fetched again every ten minutes while its tab is visible. Pages cost no quota.
const summary = document.getElementById('summary');
if (summary) {
  document.getElementById('renewal')?.removeAttribute('hidden');
  let asked = Date.now();
  const follow = async () => {
    if (document.hidden || Date.now() - asked < 600000) return;
    asked = Date.now();
    const answer = await fetch(location.href, { headers: { Accept: 'text/html' } }).catch(() => null);
    if (!answer || !answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const fresh = page.getElementById('summary');
    if (fresh) {
      document.getElementById('summary').replaceWith(fresh);
      showAges();
      document.querySelectorAll('#summary figure.chart').forEach(watchChart);
    }
  };
  setInterval(follow, 60000);
  document.addEventListener('visibilitychange', follow);
}
