"use strict";
// Puts sections in place as they come. What was opened stays open, and the keyboard's place stays where it is.
(() => {
  let last = Date.now();
  const put = (id, html) => {
    const old = document.getElementById(id);
    if (!old) return;
    const open = [...old.querySelectorAll("details")].map((d) => d.open);
    const places = "a, summary, button";
    const at = [...old.querySelectorAll(places)].indexOf(document.activeElement);
    old.outerHTML = html;
    const now = document.getElementById(id);
    [...now.querySelectorAll("details")].forEach((d, i) => { d.open = open[i] || false; });
    if (at >= 0) now.querySelectorAll(places)[at]?.focus();
  };
  const stream = new EventSource("/stream");
  stream.onmessage = (message) => {
    last = Date.now();
    document.body.classList.remove("lost");
    for (const [id, html] of Object.entries(JSON.parse(message.data))) put(id, html);
  };
  // A host that is gone says nothing: its page must not look as if all were well.
  setInterval(() => {
    if (Date.now() - last < 15000) return;
    const age = document.querySelector("#head .age");
    if (age) { age.classList.add("old"); age.textContent = `nothing was heard for ${Math.round((Date.now() - last) / 1000)} s`; }
  }, 5000);
})();
