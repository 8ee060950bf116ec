'use strict';
// The reference: examples in the chosen language, the current entry of the contents, and a form that sends
// the request. The key is read from its field when a request is sent, and is not stored.
const base = document.getElementById('base').textContent;
const box = document.getElementById('key');
const forms = [...document.querySelectorAll('form.endpoint')];
const encode = text => encodeURIComponent(text).replace(/[!'()*]/g, c => '%' + c.charCodeAt(0).toString(16).toUpperCase());
// The error of fetch for such a header is hard to understand.
const headerFault = text => /[^ -~]/.test(text) ? 'A header cannot contain this character' : '';

const keyFor = path => {
  const key = box.value.trim();
  box.setCustomValidity(headerFault(key));
  return path.startsWith('/v1') ? key : '';
};

const requestOf = form => {
  let path = form.dataset.path;
  const query = [];
  const headers = {};
  for (const input of form.querySelectorAll('.try input,.try select')) {
    const { name, dataset } = input;
    // Spaces may be part of these values. Around other values they are removed.
    const value = /^(tag|creator|q|slug)$/.test(name) ? input.value : input.value.trim();
    let fault = '';
    if (path.includes(`{${name}}`)) {
      // The name of a dump has folders, whose slashes are sent as they are.
      const parts = name === 'file' ? value.split('/') : [value];
      if (parts.some(part => /^\.{0,2}$/.test(part))) fault = 'A path with an empty part, “.” or “..” is a different path';
      path = path.replace(`{${name}}`, () => parts.map(encode).join('/'));
    } else if (value && 'header' in dataset) {
      headers[name] = value;
      fault = headerFault(value);
    } else if (value) query.push(`${name}=${encode(value)}`);
    input.setCustomValidity(fault);
  }
  return { target: path + (query.length ? '?' + query.join('&') : ''), headers };
};

const shellText = text => `'${text.replaceAll("'", "'\\''")}'`;

// Writes the examples of a form, in each language.
const showRequest = form => {
  const { target, headers } = requestOf(form);
  const url = base + target;
  const hasKey = Boolean(keyFor(target));
  const lines = [`curl ${shellText(url)}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`  -H ${shellText(`${name}: ${value}`)}`);
  if (hasKey) lines.push('  -H "Authorization: Bearer $ISLAND_METRICS_KEY"');
  form.querySelector('pre.curl').textContent = lines.join(' \\\n');
  const all = Object.entries(headers).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  const text = JSON.stringify(url);
  const isFile = /\/dumps\/(?!.*\.json$)/.test(url);
  const python = [...all, ...hasKey ? ['"Authorization": "Bearer " + os.environ["ISLAND_METRICS_KEY"]'] : []].join(', ');
  form.querySelector('pre.python').textContent =
    `${hasKey ? 'import os\n\n' : ''}import requests\n\nresponse = requests.get(${text}, ${python && `headers={${python}}, `}timeout=30)\nprint(response.${isFile ? 'text' : 'json()'})`;
  const js = [...all, ...hasKey ? ['Authorization: `Bearer ${key}`'] : []].join(', ');
  form.querySelector('pre.js').textContent =
    `const response = await fetch(${text}${js && `, {\n  headers: { ${js} },\n}`});\nconsole.log(await response.${isFile ? 'text' : 'json'}());`;
};

const LONGEST = 20000;
const bodyText = (bytes, type, size) => {
  if (!/json|^text/.test(type)) return bytes.byteLength ? 'binary, not shown' : '';
  let text = new TextDecoder().decode(bytes);
  if (type.includes('json') && text.length < 500000) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {}
  }
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}\n… cut here; ${size} in all` : text;
};

const add = (parent, name, text) => {
  const element = parent.appendChild(document.createElement(name));
  element.textContent = text;
  return element;
};
const addBlock = (parent, label, text) => {
  const element = add(parent, 'pre', text);
  element.tabIndex = 0;
  element.setAttribute('role', 'region');
  element.setAttribute('aria-label', label);
};

const send = async form => {
  const { target, headers } = requestOf(form);
  const key = keyFor(target);
  if (key && !box.reportValidity()) return;
  if (key) headers.Authorization = `Bearer ${key}`;
  const place = form.querySelector('.answer') || form.querySelector('.try').appendChild(document.createElement('div'));
  place.className = 'answer';
  place.textContent = '';
  const line = add(place, 'p', 'Sending…');
  line.setAttribute('role', 'status');
  const begun = performance.now();
  try {
    // Relative to this page, since the service may be below the root of its host.
    const response = await fetch('.' + target, { headers, cache: 'no-store' });
    const bytes = await response.arrayBuffer();
    const took = (performance.now() - begun).toFixed(1);
    const size = `${bytes.byteLength.toLocaleString('en')} bytes`;
    line.textContent = `${response.status} ${response.statusText} in ${took} ms, ${size}`;
    addBlock(place, 'Response', bodyText(bytes, response.headers.get('content-type') || '', size));
    const details = add(place, 'details', '');
    add(details, 'summary', 'Headers');
    addBlock(details, 'Headers', [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n'));
    addCopyButtons();
    const left = response.headers.get('x-ratelimit-remaining');
    if (left) document.getElementById('left').textContent = `; ${left} left today`;
  } catch (error) {
    line.textContent = `No response: ${error.message}`;
  }
  place.scrollIntoView({ block: 'nearest' });
};

// The language is remembered, where the browser allows it.
const choose = language => {
  for (const input of document.querySelectorAll('.languages input')) input.checked = input.value === language;
};
const store = action => {
  try {
    return action(localStorage);
  } catch {}
};
const chosen = store(storage => storage.getItem('language'));
if (['curl', 'python', 'js'].includes(chosen)) choose(chosen);

// The last heading above the upper third of the window is the current entry.
const links = [...document.querySelectorAll('.side a')];
const places = links.map(link => document.getElementById(link.hash.slice(1)));
const markCurrent = () => {
  const passed = places.map(place => place.getBoundingClientRect().top).map((top, at) => [top, at]).filter(([top]) => top < innerHeight / 3);
  const current = passed.length ? passed.reduce((one, other) => other[0] > one[0] ? other : one)[1] : -1;
  links.forEach((link, at) => at === current ? link.setAttribute('aria-current', 'true') : link.removeAttribute('aria-current'));
};
let isDue = false;
addEventListener('scroll', () => {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    markCurrent();
  });
}, { passive: true });
markCurrent();
for (const link of links) link.addEventListener('click', () => { document.getElementById('fold').checked = false; });

document.getElementById('keybox').hidden = false;
for (const form of forms) {
  const place = form.querySelector('.try');
  const button = document.createElement('button');
  button.className = 'send';
  button.textContent = 'Send';
  place.hidden = false;
  place.firstElementChild.append(button);
  form.addEventListener('input', event => {
    const { type, value } = event.target;
    if (type !== 'radio') return showRequest(form);
    const top = form.getBoundingClientRect().top;
    choose(value);
    store(storage => storage.setItem('language', value));
    scrollBy(0, form.getBoundingClientRect().top - top);
  });
  form.addEventListener('submit', event => {
    event.preventDefault();
    send(form);
  });
}
box.addEventListener('input', () => forms.forEach(showRequest));
// After Back, fields have their earlier values.
addEventListener('pageshow', event => {
  const isDirty = form => [...form.querySelectorAll('.try input,.try select')].some(input => input.value !== (input.defaultValue ?? ''));
  if (box.value) forms.forEach(showRequest);
  else forms.filter(isDirty).forEach(showRequest);
});
