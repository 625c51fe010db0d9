/**
 * The script of the reference: hides what does not have all the words that were typed, and opens what an anchor names. It reads
 * and hides elements, writes no markup and asks nobody; the page is whole without it, which is why the box appears only with it.
 */
export const FILTER_SCRIPT = `(() => {
const box = document.getElementById('find'), none = document.getElementById('none');
const entries = [...document.querySelectorAll('[data-entry]')].map((element) => ({ element, text: element.textContent.toLowerCase() }));
const parts = [...document.querySelectorAll('[data-part]')];
const filter = () => {
  const words = box.value.toLowerCase().split(' ').filter(Boolean);
  let count = 0;
  for (const { element, text } of entries) {
    const fits = words.every((word) => text.includes(word));
    element.hidden = !fits;
    if (fits) count += 1;
  }
  for (const part of parts) part.hidden = words.length > 0 && !part.querySelector('[data-entry]:not([hidden])');
  none.hidden = count > 0;
};
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest('[hidden]')) { box.value = ''; filter(); }
  if (target.tagName === 'DETAILS') target.open = true;
  target.scrollIntoView();
};
box.closest('.find').hidden = false;
box.addEventListener('input', filter);
addEventListener('hashchange', reveal);
filter();
if (location.hash) reveal();
})()`
