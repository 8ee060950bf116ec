'use strict';
// Times told as how long ago they are, and charts that tell the point under the pointer. Without this
// script the pages say the same, in absolute times and as a picture.
const ago = seconds => {
  const [size, unit] = [[86400, 'day'], [3600, 'hour'], [60, 'minute']].find(([size]) => seconds >= size) || [1, 'second'];
  const count = Math.max(0, Math.floor(seconds / size));
  return `${count} ${unit}${count === 1 ? '' : 's'} ago`;
};

const tellTimes = () => {
  for (const time of document.querySelectorAll('time.ago')) {
    time.textContent = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
    time.title = time.dateTime;
  }
};

const watchChart = figure => {
  const svg = figure.querySelector('svg');
  const told = figure.querySelector('output');
  const { first, step, values, left, width } = svg.dataset;
  const known = values.split(',');
  const mark = svg.querySelector('.at');
  let at = known.length - 1;
  const show = to => {
    at = Math.min(known.length - 1, Math.max(0, to));
    const x = +left + (known.length > 1 ? at * width / (known.length - 1) : width / 2);
    mark.setAttribute('d', `M${x} 8V216`);
    const date = new Date((+first + at * step) * 1000);
    // Beyond all calendars there is none.
    const moment = isNaN(date) ? '' : date.toISOString();
    const when = step < 86400 ? moment.slice(0, 16).replace('T', ' ') + ' UTC' : moment.slice(0, 10);
    told.textContent = `${when}: ${known[at] ? (+known[at]).toLocaleString('en') : 'not known'}`;
  };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    show(Math.round((x - left) / width * (known.length - 1)));
  });
  svg.addEventListener('keydown', event => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (by) {
      event.preventDefault();
      show(at + by);
    }
  });
};

tellTimes();
setInterval(() => document.hidden || tellTimes(), 30000);
document.querySelectorAll('figure.chart').forEach(watchChart);

// A dashboard that is left open follows what is published: asked for again once its ten minutes are over,
// never while nobody looks, and free of charge.
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
      tellTimes();
      document.querySelectorAll('#summary figure.chart').forEach(watchChart);
    }
  };
  setInterval(follow, 60000);
  document.addEventListener('visibilitychange', follow);
}
