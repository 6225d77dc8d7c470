// The page is whole without this. It counts a wait down and goes on when it is
// over, works in place of the visitor, and tells the time as the visitor does.
"use strict";
const $ = (id) => document.getElementById(id);
const say = (text) => { $("status").textContent = text; };

// A form's answer stands under the form's address: asking for that again
// would post again.
if (document.body.dataset.page) history.replaceState(null, "", document.body.dataset.page);

for (const t of document.querySelectorAll("time")) {
  const d = new Date(t.dateTime);
  const today = d.toDateString() === new Date().toDateString();
  t.textContent = d.toLocaleString(document.documentElement.lang, today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

const wait = $("wait");
if (wait) {
  const over = performance.now() + Number(wait.dataset.ms);
  const left = $("left");
  const tick = () => {
    const ms = over - performance.now();
    if (ms > 0) {
      left.textContent = left.dataset.text.replace("%s", Math.ceil(ms / 1000));
      return setTimeout(tick, Math.min(ms, 250));
    }
    left.textContent = left.dataset.over;
    say(left.dataset.over);
    // Whoever has begun to type a code is not interrupted.
    const typed = [...document.querySelectorAll("input")].some((i) => i.type !== "hidden" && i.value);
    if (!typed && wait.dataset.auto) wait.requestSubmit();
  };
  tick();
}

// PBKDF2 is there in secure contexts only (https, localhost).
const pow = $("pow");
if (pow && window.Worker && window.crypto && crypto.subtle) {
  pow.closest("section").hidden = false;
  let worker;
  const failed = () => {
    worker?.terminate();
    worker = null;
    $("pow-start").removeAttribute("aria-disabled");
    say(pow.dataset.failed);
  };
  pow.addEventListener("submit", async (e) => {
    if (pow.elements.answer.value) return;
    e.preventDefault();
    if (worker) return;
    worker = new Worker(pow.dataset.worker);
    $("pow-start").setAttribute("aria-disabled", "true");
    say(pow.dataset.busy);
    worker.onerror = failed;
    worker.onmessage = (m) => {
      if (!m.data) return failed();
      pow.elements.answer.value = m.data;
      pow.submit();
    };
    try {
      const r = await fetch(pow.dataset.challenge);
      if (!r.ok) throw new Error(r.status);
      worker.postMessage(await r.json());
    } catch { failed(); }
  });
}

// Third parties' challenges need their scripts.
for (const s of document.querySelectorAll(".provider")) s.hidden = false;
const recaptcha = document.querySelector("form.recaptcha");
if (recaptcha) {
  const failed = () => say(recaptcha.dataset.failed);
  const execute = () => {
    if (!window.grecaptcha) return failed(); // a content blocker is quite common
    grecaptcha.ready(async () => {
      try {
        recaptcha.elements.answer.value = await grecaptcha.execute(recaptcha.dataset.sitekey, { action: recaptcha.dataset.action });
        recaptcha.submit();
      } catch { failed(); }
    });
  };
  recaptcha.addEventListener("submit", (e) => {
    if (recaptcha.elements.answer.value) return;
    e.preventDefault();
    // Whoever is quicker than the third party's script is not to press twice.
    if (window.grecaptcha || document.readyState == "complete") execute();
    else addEventListener("load", execute, { once: true });
  });
}
