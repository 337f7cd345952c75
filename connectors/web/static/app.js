// The composer and the live transcript of one conversation. Everything here
// only calls the API: whatever it gets wrong, the server refuses.
"use strict";

const composer = document.getElementById("composer");
if (composer) start(composer);

function start(composer) {
  const api = "/api/conversations/" + composer.dataset.conversation;
  const at = id => document.getElementById(id);
  const text = at("text"), chips = at("chips"), complaint = at("complaint"), send = at("send"), stop = at("stop");
  const scroll = at("scroll"), transcript = at("transcript"), working = at("working"), step = at("step-text"), draft = at("draft");

  const make = (tag, name, content) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (content) node.textContent = content;
    return node;
  };

  // ---- the transcript

  // Whoever reads the end goes on reading the end, whatever changes its size;
  // whoever has scrolled up is left alone.
  let follow = true;
  const toEnd = () => {
    follow = true;
    scroll.scrollTop = scroll.scrollHeight;
  };
  scroll.addEventListener("scroll", () => { follow = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60; });
  const sizes = new ResizeObserver(() => { if (follow) toEnd(); });
  [scroll, transcript, working].forEach(node => sizes.observe(node));

  function setRunning(on) {
    if (working.hidden === !on) return;
    stop.hidden = working.hidden = !on;
    stop.disabled = false;
    step.textContent = "Working …";
    draft.hidden = true;
    draft.textContent = "";
  }

  function insert(m) {
    if (at(m.id)) return;
    const t = document.createElement("template");
    t.innerHTML = m.html; // made and escaped by the server
    const node = t.content.firstElementChild, seq = Number(node.dataset.seq);
    let after = transcript.lastElementChild;
    while (after && Number(after.dataset.seq) > seq) after = after.previousElementSibling;
    if (after) after.after(node); else transcript.prepend(node);
    at("empty").hidden = true;
  }

  function remove(id) {
    const node = at(id);
    if (node) node.remove();
    at("empty").hidden = transcript.childElementCount > 0;
  }

  // listed puts a conversation that was opened elsewhere into the side bar.
  function listed(c) {
    const list = at("conversations"), address = "/c/" + c.id;
    if ([...list.querySelectorAll("a")].some(a => a.getAttribute("href") === address)) return;
    const item = make("li"), link = make("a", "", c.name);
    link.href = address;
    link.title = c.name;
    item.append(link);
    list.prepend(item);
  }

  function live() {
    const events = new EventSource(api + "/events?view=page");
    const on = (name, f) => events.addEventListener(name, e => f(JSON.parse(e.data)));
    on("snapshot", s => {
      const there = new Set(s.ids);
      for (const node of [...transcript.children]) if (!there.has(node.dataset.id)) remove(node.dataset.id);
      setRunning(s.running);
      at("connection").textContent = "";
    });
    on("message", insert);
    on("reply", m => {
      insert(m);
      draft.hidden = true;
      draft.textContent = "";
    });
    on("deleted", d => remove(d.id));
    on("conversations", c => c.conversations.reverse().forEach(listed));
    on("state", s => setRunning(s.running));
    on("progress", p => {
      setRunning(true);
      if (p.text) step.textContent = p.text;
      if (p.draft_html) {
        draft.innerHTML = p.draft_html; // made and escaped by the server
        draft.hidden = false;
      }
    });
    events.onerror = async () => {
      at("connection").textContent = "Connection lost; trying again …";
      if (events.readyState !== EventSource.CLOSED) return; // it comes back by itself
      events.close();
      const answer = await fetch(api).catch(() => null);
      if (answer && answer.status === 401) {
        at("connection").textContent = "You are signed out. Open a new sign-in link.";
        return;
      }
      if (answer && answer.status === 404) {
        at("connection").textContent = "This conversation is gone.";
        return;
      }
      setTimeout(live, 2000);
    };
  }

  transcript.addEventListener("click", async e => {
    const button = e.target.closest(".delete");
    if (!button || !confirm("Delete this message and its files? The agent can't look at them any more. Answers that quote them stay visible.")) return;
    button.disabled = true;
    const answer = await call("DELETE", api + "/messages/" + button.closest("article").dataset.id);
    if (answer.ok) text.focus();
    else complain(answer.error);
    button.disabled = false;
  });

  // ---- calls

  function complain(sentence) {
    complaint.textContent = sentence || "";
    complaint.hidden = !sentence;
  }

  async function call(method, path, body) {
    try {
      const answer = await fetch(path, {method, headers: body ? {"Content-Type": "application/json"} : {}, body: body && JSON.stringify(body)});
      if (answer.ok) return {ok: true, status: answer.status};
      const said = await answer.json().catch(() => ({}));
      return {ok: false, status: answer.status, error: said.error || "The service answered " + answer.status + "."};
    } catch {
      return {ok: false, status: 0, error: "The service can't be reached."};
    }
  }

  stop.addEventListener("click", async () => {
    stop.disabled = true;
    const answer = await call("POST", api + "/stop");
    if (answer.ok) step.textContent = "Stopping …";
    else {
      complain(answer.error);
      stop.disabled = false;
    }
  });

  // ---- files

  const files = []; // {id, done: Promise, refused, item}
  const limit = Number(composer.dataset.max), limitPDF = Number(composer.dataset.maxPdf), most = Number(composer.dataset.maxFiles);
  function add(list) {
    complain("");
    const all = [...list];
    for (const [n, blob] of all.entries()) {
      if (files.length >= most) {
        const left = all.length - n, name = blob.name || "what was pasted";
        complain("One message takes at most " + most + " files: " + (left === 1 ? name + " was left out." : left + " were left out, from " + name + " on."));
        break;
      }
      attach(blob);
    }
    text.focus();
  }

  function attach(blob) {
    const name = blob.name || "pasted";
    const file = {item: make("li"), id: "", refused: false};
    const kind = make("span", "kind", (name.match(/\.(\w{1,4})$/) || ["", "file"])[1]), state = make("span", "state", "waiting …");
    const bar = make("progress"), gone = make("button", "", "×");
    kind.setAttribute("aria-hidden", "true");
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", "Upload of " + name);
    gone.type = "button";
    gone.setAttribute("aria-label", "Remove " + name);
    state.replaceChildren(bar);
    state.setAttribute("role", "status");
    file.item.append(kind, make("span", "name", name), gone, state);
    files.push(file);
    chips.append(file.item);
    tally();

    const x = new XMLHttpRequest();
    gone.addEventListener("click", () => {
      x.abort();
      drop(file);
      if (file.id) call("DELETE", api + "/uploads/" + file.id);
      text.focus();
    });
    const refuse = sentence => {
      file.refused = true;
      file.item.classList.add("refused");
      state.textContent = sentence;
      upFront(file.item);
      tally();
    };
    file.done = new Promise(resolve => {
      x.onloadend = resolve;
      // Read by the server too; said here before megabytes travel in vain.
      if (blob.size > Math.max(limit, limitPDF)) {
        refuse("The file is larger than the limit of " + (limit / 1048576) + " MiB (" + (limitPDF / 1048576) + " MiB for a PDF).");
        resolve();
        return;
      }
      x.open("POST", api + "/uploads");
      x.responseType = "json";
      x.setRequestHeader("X-File-Name", encodeURIComponent(name));
      x.setRequestHeader("Content-Type", blob.type || "application/octet-stream");
      x.upload.onprogress = e => { if (e.lengthComputable) bar.value = e.loaded / e.total; };
      x.onerror = () => refuse("The service can't be reached. Remove the file and attach it again.");
      x.onload = () => {
        const said = x.response || {};
        if (x.status !== 201) return refuse(said.error || "The service answered " + x.status + ".");
        file.id = said.id;
        file.item.title = said.name + " · " + said.type + " · " + said.id;
        state.textContent = said.note || (said.width ? said.width + " × " + said.height + " · " : "") + size(said.size);
        file.item.classList.toggle("noted", Boolean(said.note)); // a sentence needs the width
        if (said.width && !said.note) {
          const thumb = make("img", "thumb");
          thumb.alt = "";
          thumb.src = "/uploads/" + said.id;
          kind.replaceWith(thumb);
        }
        tally(); // what is said of a file makes it taller
      };
      x.send(blob);
    });
  }

  function drop(file) {
    const i = files.indexOf(file);
    if (i >= 0) files.splice(i, 1);
    file.item.remove();
    tally();
  }

  // upFront keeps what needs a person's hand in sight: refused files come
  // first, in the order in which they were attached.
  function upFront(item) {
    const focus = item.contains(document.activeElement) && document.activeElement;
    const rest = [...chips.children].find(i => i !== item && !i.classList.contains("refused"));
    if (rest) chips.insertBefore(item, rest);
    if (focus) focus.focus(); // moving it took the focus away
    chips.scrollTop = 0;
  }

  // tally says how many files there are, and that some are out of sight.
  function tally() {
    const n = chips.childElementCount, bad = chips.querySelectorAll(".refused").length, line = at("tally");
    chips.hidden = n === 0;
    line.hidden = n < 2 && bad === 0;
    const more = chips.scrollHeight > chips.clientHeight + 1;
    chips.classList.toggle("more", more);
    const words = n + (n === 1 ? " file" : " files") + (bad ? ", " + (n === 1 ? "it" : bad) + " can't be sent" : "") + (more ? "; scroll to see all" : "");
    if (line.textContent !== words) line.textContent = words;
  }
  addEventListener("resize", tally);

  const size = n => n < 1024 ? n + " B" : n < 1048576 ? Math.round(n / 1024) + " KiB" : (n / 1048576).toFixed(1) + " MiB";

  at("attach").addEventListener("click", () => at("pick").click());
  at("pick").addEventListener("change", e => {
    add([...e.target.files]);
    e.target.value = "";
  });
  document.addEventListener("paste", e => {
    const list = [...(e.clipboardData ? e.clipboardData.files : [])];
    if (list.length === 0) return;
    e.preventDefault();
    add(list);
  });
  let depth = 0;
  const carriesFiles = e => e.dataTransfer && [...e.dataTransfer.types].includes("Files");
  const dropping = n => composer.classList.toggle("dropping", (depth = Math.max(0, n)) > 0);
  document.addEventListener("dragenter", e => { if (carriesFiles(e)) dropping(depth + 1); });
  document.addEventListener("dragleave", e => { if (carriesFiles(e)) dropping(depth - 1); });
  document.addEventListener("dragover", e => { if (carriesFiles(e)) e.preventDefault(); });
  document.addEventListener("drop", e => {
    if (!carriesFiles(e)) return;
    e.preventDefault();
    dropping(0);
    add([...e.dataTransfer.files]);
  });

  // ---- sending

  const grow = () => {
    text.style.height = "auto";
    text.style.height = text.scrollHeight + 2 + "px";
  };
  text.addEventListener("input", grow);
  text.addEventListener("keydown", e => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    composer.requestSubmit();
  });

  // newKey names a message, so that sending it again posts it once.
  function newKey() {
    const b = crypto.getRandomValues(new Uint8Array(16));
    return [...b].map(n => n.toString(16).padStart(2, "0")).join("");
  }

  // Messages leave one after the other; meanwhile the next one can be written.
  let leaving = Promise.resolve(), underWay = 0;
  addEventListener("beforeunload", e => { if (underWay) e.preventDefault(); });

  composer.addEventListener("submit", e => {
    e.preventDefault();
    if (!text.value.trim() && files.length === 0) {
      complain("The message is empty. Write something or attach a file.");
      return;
    }
    if (files.some(f => f.refused)) {
      complain("Remove the files that were refused, then send.");
      return;
    }
    complain("");
    const words = text.value, taken = files.splice(0);
    text.value = "";
    grow();
    taken.forEach(f => f.item.classList.add("leaving"));
    underWay++;
    const waiting = make("article", "message person leaving");
    waiting.append(make("div", "text", words || taken.length + (taken.length === 1 ? " file" : " files")));
    working.before(waiting);
    toEnd();
    leaving = leaving.then(() => post(words, taken)).finally(() => {
      underWay--;
      waiting.remove();
    });
    text.focus();
  });

  async function post(words, taken) {
    await Promise.all(taken.map(f => f.done));
    let answer = {ok: false, error: "Remove the files that were refused, then send."};
    if (!taken.some(f => f.refused)) {
      const body = {client_key: newKey(), text: words, uploads: taken.map(f => f.id)};
      for (let wait = 1; ; wait = Math.min(wait * 2, 15)) {
        answer = await call("POST", api + "/messages", body);
        if (answer.ok || (answer.status !== 0 && answer.status !== 503)) break;
        complain(answer.error + " Trying again …");
        await new Promise(r => setTimeout(r, wait * 1000));
      }
    }
    if (answer.ok) {
      complain("");
      taken.forEach(drop);
      toEnd();
      return;
    }
    // Nothing is lost: it is back where it was written.
    complain(answer.error);
    taken.forEach(f => f.item.classList.remove("leaving"));
    files.unshift(...taken);
    text.value = words + (words && text.value ? "\n" : "") + text.value;
    grow();
  }

  const showCurrent = () => document.querySelector("nav [aria-current]").scrollIntoView({block: "nearest", inline: "center"});
  addEventListener("resize", showCurrent);
  showCurrent();
  toEnd();
  live();
}
