"use strict";
// The panel's side of the conversation with the host it is shown in (MCP Apps,
// SEP-1865): JSON-RPC objects over postMessage. A panel loads nothing itself.
const panel = {
  input: {},        // arguments of the tool call that the panel shows
  canCall: false,   // whether the host passes on tools/call
  onResult() {},    // called with the value of a tool's result
  onFailure(e) { panel.say(e.message, true); },

  // start introduces the panel to the host, which then sends what it has.
  async start(name) {
    new ResizeObserver(() => panel.notify("ui/notifications/size-changed", {
      width: Math.ceil(document.documentElement.scrollWidth),
      height: Math.ceil(document.body.getBoundingClientRect().height),
    })).observe(document.body);
    try {
      const host = await panel.request("ui/initialize", {
        protocolVersion: "2026-01-26", appInfo: {name, version: "1"}, appCapabilities: {availableDisplayModes: ["inline", "fullscreen"]},
      });
      panel.canCall = Boolean(host.hostCapabilities && host.hostCapabilities.serverTools);
      panel.adopt(host.hostContext || {});
      for (const b of document.querySelectorAll("[data-calls]")) b.disabled = !panel.canCall;
      panel.notify("ui/notifications/initialized", {});
    } catch (e) { panel.onFailure(e); }
  },

  // call runs a tool of the server this panel came from.
  async call(name, args) {
    return panel.value(await panel.request("tools/call", {name, arguments: args}));
  },

  // value returns what a tool answered; an answer that reports a failure throws.
  value(result) {
    const text = ((result.content || []).find(c => c.type === "text") || {}).text || "";
    let value = result.structuredContent;
    if (value === undefined) {
      try { value = JSON.parse(text); } catch { value = {message: text}; }
    }
    if (!result.isError) return value;
    throw new Error([value.field, value.message, ...(value.actions || [])].filter(Boolean).join("; "));
  },

  // say tells people what is going on.
  say(text, bad = false) {
    const status = document.getElementById("status");
    status.textContent = text;
    status.className = bad ? "bad" : "";
  },

  // adopt takes over the looks of the host.
  adopt(context) {
    const root = document.documentElement;
    if (context.theme === "light" || context.theme === "dark") root.style.colorScheme = context.theme;
    for (const [name, value] of Object.entries((context.styles && context.styles.variables) || {})) {
      if (name.startsWith("--") && typeof value === "string") root.style.setProperty(name, value);
    }
  },

  waiting: new Map(),
  lastID: 0,
  send(message) { window.parent.postMessage({jsonrpc: "2.0", ...message}, "*"); },
  notify(method, params) { panel.send({method, params}); },
  request(method, params) {
    return new Promise((resolve, reject) => {
      const id = ++panel.lastID;
      panel.waiting.set(id, {resolve, reject});
      panel.send({id, method, params});
    });
  },
  receive(event) {
    const m = event.data;
    if (event.source !== window.parent || typeof m !== "object" || m === null || m.jsonrpc !== "2.0") return;
    if (m.method === undefined) {
      const w = panel.waiting.get(m.id);
      if (!w) return;
      panel.waiting.delete(m.id);
      if (m.error) w.reject(new Error(String(m.error.message))); else w.resolve(m.result || {});
    } else if (m.id !== undefined) {
      if (m.method === "ping" || m.method === "ui/resource-teardown") panel.send({id: m.id, result: {}});
      else panel.send({id: m.id, error: {code: -32601, message: "a panel has no method " + m.method}});
    } else {
      panel.hear(m.method, m.params || {});
    }
  },
  hear(method, params) {
    switch (method) {
    case "ui/notifications/tool-input": panel.input = params.arguments || {}; break;
    case "ui/notifications/tool-cancelled": panel.say("The call was cancelled."); break;
    case "ui/notifications/host-context-changed": panel.adopt(params); break;
    case "ui/notifications/tool-result":
      try { panel.onResult(panel.value(params)); } catch (e) { panel.onFailure(e); }
    }
  },
};
window.addEventListener("message", panel.receive);

// element makes an element. Text is always text, whoever wrote it.
function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value);
  }
  e.append(...children.filter(c => c !== undefined && c !== "").map(c => c instanceof Node ? c : String(c)));
  return e;
}

// rows fills the table of the panel, or says that there is nothing.
function rows(list, empty) {
  const body = document.querySelector("tbody"), columns = document.querySelectorAll("thead th").length;
  body.replaceChildren(...(list.length ? list : [element("tr", {}, element("td", {colspan: columns}, empty))]));
}

// duration writes seconds as people read them: 3d 4h, 5m 6s.
function duration(seconds) {
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const n = Math.floor(seconds / size);
    seconds -= n * size;
    if (n || (unit === "s" && !parts.length)) parts.push(n + unit);
  }
  return parts.slice(0, 2).join(" ");
}

// confirmed asks before something is done; it resolves to the entered text, or
// to null if nothing is to be done. There is no form: sandboxes forbid them.
function confirmed(question) {
  const dialog = document.querySelector("dialog"), input = dialog.querySelector("input");
  dialog.querySelector("p").textContent = question;
  if (input) input.value = "";
  dialog.returnValue = "";
  for (const b of dialog.querySelectorAll("[data-answer]")) b.onclick = () => dialog.close(b.dataset.answer);
  dialog.showModal();
  return new Promise(resolve => dialog.addEventListener("close",
    () => resolve(dialog.returnValue === "yes" ? (input ? input.value.trim() : "") : null), {once: true}));
}
