'use strict';
// Charts show the value of the point under the pointer or the arrow keys. Without this script a chart is a
// picture with a description.
const watchChart = figure => {
  const svg = figure.querySelector('svg');
  const told = figure.querySelector('output');
  const { first, step, values, left, width, top, height, max, unit } = svg.dataset;
  const textOf = value => unit ? (value / 10).toFixed(1) + unit.slice(6) : (+value).toLocaleString('en');
  const known = values.split(',');
  const [line, dot, label] = svg.querySelector('.at').children;
  let at = known.length - 1;
  const show = to => {
    at = Math.min(known.length - 1, Math.max(0, to));
    const x = +left + (known.length > 1 ? at * width / (known.length - 1) : width / 2);
    const bottom = +top + +height;
    const y = bottom - height * known[at] / max;
    line.setAttribute('d', `M${x} ${top}V${bottom}`);
    dot.setAttribute('cx', x);
    dot.setAttribute('cy', y);
    dot.toggleAttribute('hidden', !known[at]);
    const date = new Date((+first + at * step) * 1000);
    // A time outside the calendar has no text.
    const moment = isNaN(date) ? '' : date.toISOString();
    const when = step < 86400 ? moment.slice(0, 16).replace('T', ' ') + ' UTC' : moment.slice(0, 10);
    told.textContent = label.textContent = `${when}: ${known[at] ? textOf(known[at]) : 'not known'}`;
    // Beside the dot, on the side with more space.
    const isLeft = x > +left + width / 2;
    label.setAttribute('text-anchor', isLeft ? 'end' : 'start');
    label.setAttribute('x', isLeft ? x - 8 : x + 8);
    label.setAttribute('y', Math.max(+top + 16, known[at] ? y - 8 : 0));
  };
  svg.addEventListener('focus', () => show(at));
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    show(Math.round((x - left) / width * (known.length - 1)));
  });
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
