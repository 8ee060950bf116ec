'use strict';
// The forms of the reference: the curl line follows what is typed, and Send shows the whole answer. The
// key is read from its box when it is sent, and kept nowhere.
const base = document.getElementById('base').textContent;
const box = document.getElementById('key');
const encode = text => encodeURIComponent(text).replace(/[!'()*]/g, c => '%' + c.charCodeAt(0).toString(16).toUpperCase());

const pathOf = form => form.querySelector('h3').textContent.slice(4);

const asked = form => {
  let path = pathOf(form);
  const query = [];
  const headers = {};
  for (const { name, value, dataset } of form.querySelectorAll('input,select')) {
    if (path.includes(`{${name}}`)) {
      // The name of a dump has folders, whose slashes are sent as they are.
      path = path.replace(`{${name}}`, value.split('/').map(encode).join(name === 'file' ? '/' : '%2F'));
    } else if (value && 'header' in dataset) headers[name] = value;
    else if (value) query.push(`${name}=${encode(value)}`);
  }
  return { target: path + (query.length ? '?' + query.join('&') : ''), headers };
};

const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;

const tellCurl = form => {
  const { target, headers } = asked(form);
  const lines = [`curl ${quoted(base + target)}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`  -H ${quoted(`${name}: ${value}`)}`);
  if (box.value && pathOf(form).startsWith('/v1')) lines.push('  -H "Authorization: Bearer $ISLAND_METRICS_KEY"');
  form.querySelector('pre').textContent = lines.join(' \\\n');
};

const LONGEST = 20000;
const pretty = (text, type) => {
  let shown = text;
  if (type.includes('json') && text.length < 500000) {
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch {}
  }
  return shown.length > LONGEST ? `${shown.slice(0, LONGEST)}\n… ${text.length} characters in all` : shown;
};

const part = (parent, name, text) => {
  const element = parent.appendChild(document.createElement(name));
  element.textContent = text;
  if (name === 'pre') {
    element.tabIndex = 0;
    element.setAttribute('role', 'region');
    element.setAttribute('aria-label', 'Answer');
  }
  return element;
};

const send = async form => {
  const { target, headers } = asked(form);
  if (box.value && target.startsWith('/v1')) headers.Authorization = `Bearer ${box.value.trim()}`;
  const place = form.querySelector('.answer') || form.appendChild(document.createElement('div'));
  place.className = 'answer';
  place.textContent = '';
  const line = part(place, 'p', 'Sending…');
  line.setAttribute('role', 'status');
  const begun = performance.now();
  try {
    // Beside this page, wherever the service is mounted.
    const answer = await fetch('.' + target, { headers, cache: 'no-store' });
    const text = await answer.text();
    const took = (performance.now() - begun).toFixed(1);
    const bytes = new TextEncoder().encode(text).length;
    line.textContent = `${answer.status} ${answer.statusText} in ${took} ms, ${bytes.toLocaleString('en')} bytes`;
    part(place, 'pre', [...answer.headers].map(([name, value]) => `${name}: ${value}`).join('\n'));
    part(place, 'pre', pretty(text, answer.headers.get('content-type') || ''));
    const left = answer.headers.get('x-ratelimit-remaining');
    if (left) document.getElementById('left').textContent = `; ${left} left today`;
  } catch (error) {
    line.textContent = `Nothing came back: ${error.message}`;
  }
};

document.getElementById('keybox').hidden = false;
const forms = [...document.querySelectorAll('form[id]')];
for (const form of forms) {
  const button = document.createElement('button');
  button.textContent = 'Send';
  form.lastElementChild.prepend(button, ' ');
  form.addEventListener('input', () => tellCurl(form));
  form.addEventListener('submit', event => {
    event.preventDefault();
    send(form);
  });
}
box.addEventListener('input', () => forms.forEach(tellCurl));
