// Put into a panel by the test's host, which cannot look into a sandbox: it does
// the few things a person would, and reports what went wrong inside.
"use strict";
(() => {
  const tell = message => window.parent.postMessage({test: true, ...message}, "*");
  window.addEventListener("error", e => tell({wrong: "script: " + e.message}));
  window.addEventListener("unhandledrejection", e => tell({wrong: "promise: " + e.reason}));
  document.addEventListener("securitypolicyviolation", e => tell({wrong: "it wanted " + e.violatedDirective + " " + e.blockedURI}));
  window.addEventListener("message", event => {
    const m = event.data;
    if (!m || !m.drive) return;
    const found = document.querySelectorAll(m.selector), first = found[0];
    let answer = {count: found.length};
    if (first) {
      switch (m.drive) {
      case "look":
        answer = {count: found.length, text: first.textContent, disabled: Boolean(first.disabled), open: Boolean(first.open),
          color: getComputedStyle(first).color, scheme: getComputedStyle(first).colorScheme, name: first.getAttribute("aria-label")};
        break;
      case "click": first.click(); break;
      case "type": first.value = m.text; first.dispatchEvent(new Event("input", {bubbles: true}));
      }
    }
    tell({id: m.id, answer});
  });
})();
