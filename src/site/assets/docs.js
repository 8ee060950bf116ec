'use strict';
// The forms of the reference: the curl line follows what is typed, and Send shows the whole answer. The
// key is read from its box when it is sent, and kept nowhere.
const base = document.getElementById('base').textContent;
const box = document.getElementById('key');
const forms = [...document.querySelectorAll('form[id]')];
const encode = text => encodeURIComponent(text).replace(/[!'()*]/g, c => '%' + c.charCodeAt(0).toString(16).toUpperCase());
// What no header may hold, fetch refuses in words for programmers.
const unfit = text => /[^ -~]/.test(text) ? 'No header may hold all of these characters' : '';
const pathOf = form => form.querySelector('h3').textContent.slice(4);

const keyFor = path => {
  const key = box.value.trim();
  box.setCustomValidity(unfit(key));
  return path.startsWith('/v1') ? key : '';
};

const asked = form => {
  let path = pathOf(form);
  const query = [];
  const headers = {};
  for (const input of form.querySelectorAll('input,select')) {
    const { name, dataset } = input;
    // In these blanks may be meant; around a code or a number they are slips.
    const value = /^(tag|creator|q|slug)$/.test(name) ? input.value : input.value.trim();
    let fault = '';
    if (path.includes(`{${name}}`)) {
      // The name of a dump has folders, whose slashes are sent as they are.
      const isFile = name === 'file';
      const parts = isFile ? value.split('/') : [value];
      if (parts.some(part => /^\.{0,2}$/.test(part))) fault = 'With an empty part, “.” or “..” this would ask for another path';
      path = path.replace(`{${name}}`, () => parts.map(encode).join('/'));
    } else if (value && 'header' in dataset) {
      headers[name] = value;
      fault = unfit(value);
    } else if (value) query.push(`${name}=${encode(value)}`);
    input.setCustomValidity(fault);
  }
  return { target: path + (query.length ? '?' + query.join('&') : ''), headers };
};

const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;

const tellCurl = form => {
  const { target, headers } = asked(form);
  const lines = [`curl ${quoted(base + target)}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`  -H ${quoted(`${name}: ${value}`)}`);
  if (keyFor(target)) lines.push('  -H "Authorization: Bearer $ISLAND_METRICS_KEY"');
  form.querySelector('pre').textContent = lines.join(' \\\n');
};
const tellAll = () => forms.forEach(tellCurl);

const LONGEST = 20000;
const shown = (bytes, type, told) => {
  if (!/json|^text/.test(type)) return bytes.byteLength ? 'binary, not shown' : '';
  let text = new TextDecoder().decode(bytes);
  if (type.includes('json') && text.length < 500000) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {}
  }
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}\n… cut here; ${told} in all` : text;
};

const part = (parent, name, text) => {
  const element = parent.appendChild(document.createElement(name));
  element.textContent = text;
  return element;
};
const block = (parent, label, text) => {
  const element = part(parent, 'pre', text);
  element.tabIndex = 0;
  element.setAttribute('role', 'region');
  element.setAttribute('aria-label', label);
};

const send = async form => {
  const { target, headers } = asked(form);
  const key = keyFor(target);
  if (key && !box.reportValidity()) return;
  if (key) headers.Authorization = `Bearer ${key}`;
  const place = form.querySelector('.answer') || form.appendChild(document.createElement('div'));
  place.className = 'answer';
  place.textContent = '';
  const line = part(place, 'p', 'Sending…');
  line.setAttribute('role', 'status');
  const begun = performance.now();
  try {
    // Beside this page, wherever the service is mounted.
    const answer = await fetch('.' + target, { headers, cache: 'no-store' });
    const bytes = await answer.arrayBuffer();
    const took = (performance.now() - begun).toFixed(1);
    const told = `${bytes.byteLength.toLocaleString('en')} bytes`;
    line.textContent = `${answer.status} ${answer.statusText} in ${took} ms, ${told}`;
    block(place, 'Answer', shown(bytes, answer.headers.get('content-type') || '', told));
    const details = part(place, 'details', '');
    part(details, 'summary', 'Headers');
    block(details, 'Headers', [...answer.headers].map(([name, value]) => `${name}: ${value}`).join('\n'));
    const left = answer.headers.get('x-ratelimit-remaining');
    if (left) document.getElementById('left').textContent = `; ${left} left today`;
  } catch (error) {
    line.textContent = `Nothing came back: ${error.message}`;
  }
  place.scrollIntoView({ block: 'nearest' });
};

document.getElementById('keybox').hidden = false;
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
box.addEventListener('input', tellAll);
// After Back the boxes have what was typed.
addEventListener('pageshow', tellAll);
