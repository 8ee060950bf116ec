'use strict';
// Ages of times, copy buttons, and questions before a form is sent. Pages are complete without this script.
const ago = seconds => {
  if (seconds < 60) return 'just now';
  const [size, unit] = [[86400, 'day'], [3600, 'hour'], [60, 'minute']].find(([size]) => seconds >= size);
  const count = Math.floor(seconds / size);
  return `${count} ${unit}${count === 1 ? '' : 's'} ago`;
};

const showAges = () => {
  for (const time of document.querySelectorAll('time.ago')) {
    time.textContent = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
    time.title = time.dateTime;
  }
  for (const time of document.querySelectorAll('time[data-old]')) {
    const age = (Date.now() - Date.parse(time.dateTime)) / 1000;
    const mark = time.nextElementSibling;
    mark.hidden = age < +time.dataset.old;
    if (!mark.hidden) mark.lastChild.textContent = `${ago(age).slice(0, -4)} old`;
  }
};

// Browsers offer the clipboard to pages of https and of this machine only.
const addCopyButtons = () => {
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll('pre:not(.start)')) {
    if (block.closest('.copyable')) continue;
    const box = document.createElement('div');
    box.className = `copyable ${block.className}`;
    block.replaceWith(box);
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    box.append(button, block);
    button.addEventListener('click', async () => {
      button.textContent = await navigator.clipboard.writeText(block.textContent).then(() => 'Copied', () => 'Not copied');
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
  }
};

for (const form of document.querySelectorAll('form[data-confirm]')) {
  form.addEventListener('submit', event => confirm(form.dataset.confirm) || event.preventDefault());
}
showAges();
addCopyButtons();
setInterval(() => document.hidden || showAges(), 30000);
