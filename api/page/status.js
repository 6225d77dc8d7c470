"use strict";
const by = (id) => document.getElementById(id);
const rungs = ["allow", "delay", "captcha", "verify", "deny"];
const every = 5000;
let realm = "", timer = 0, serial = 0;

// h makes an element. Whatever was sent is text, never markup.
function h(tag, attrs, ...children) {
  const e = tag == "svg" || tag == "rect" ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k == "on") e.addEventListener("click", v);
    else e.setAttribute(k, v);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}
const show = (id, ...children) => { if (!by(id).contains(document.activeElement)) by(id).replaceChildren(...children.flat()); };
const clock = (t) => t ? t.slice(11, 19) + " UTC" : "";
const when = (t, now) => !t ? "" : t.slice(0, 10) == now.slice(0, 10) ? clock(t) : t.slice(0, 16).replace("T", " ") + " UTC";
const number = (n) => n < 10 ? String(Math.round(n * 10) / 10) : Math.round(n).toLocaleString("en");
const seconds = (ms) => ms < 120000 ? Math.ceil(ms / 1000) + " s" : ms < 7200000 ? Math.ceil(ms / 60000) + " min" : Math.ceil(ms / 3600000) + " h";
const words = (s) => s.replaceAll("_", " ");
const some = (n, one, many) => number(n) + " " + (n == 1 ? one : many);

function table(caption, heads, rows, none) {
  if (!rows.length) return h("p", {class: "soft"}, none);
  return h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads.map((t) => h("th", {scope: "col"}, t)))),
    h("tbody", {}, rows.map((r) => h("tr", {}, r.map((c, i) => h(i ? "td" : "th", i ? {} : {scope: "row"}, c))))));
}

async function ask(path, body) {
  const key = sessionStorage.getItem("key");
  const r = await fetch(path, {method: body ? "POST" : "GET", body: body && JSON.stringify(body), cache: "no-store",
    headers: {...(body && {"Content-Type": "application/json"}), ...(key && {Authorization: "Bearer " + key})}});
  const a = await r.json();
  if (!r.ok) throw Object.assign(new Error(a.detail || a.title), {status: r.status, errors: a.errors || []});
  return a;
}

function posture(s) {
  const p = s.posture, d = s.detection;
  const out = [h("p", {class: "big " + (p ? p.posture : "")}, p ? p.posture : "not known")];
  if (!p) out.push(h("p", {}, "The store does not say."));
  if (p && p.pin) out.push(h("p", {}, "Pinned by an operator until " + when(p.pin_until, s.now) + "."));
  if (p && p.aggregator) out.push(h("p", {}, "Detection has set " + p.aggregator + ", until " + when(p.until, s.now) + " unless it goes on."));
  const mode = s.detection_mode == "off" || !d.watched ? "off" : s.detection_mode == "dry-run" ? "dry run: it says what it finds, and does nothing" : "on";
  out.push(h("dl", {},
    h("dt", {}, "Detection"), h("dd", {}, d.watched && d.learning ? mode + ", still learning" : mode),
    h("dt", {}, "Cold failures"), h("dd", {}, number(d.excess_per_minute) + " a minute beyond " + number(d.expected_per_minute) + " expected"),
    h("dt", {}, "Suspects"), h("dd", {}, some(d.suspect_networks, "network", "networks") + ", " + some(d.suspect_passwords, "password", "passwords"))));
  if (s.shadow) out.push(h("p", {}, h("span", {class: "badge degraded"}, "shadow"), " Nobody is held to what is answered."));
  if (s.alone) out.push(h("p", {class: "soft"}, "Without Kafka this instance knows of its own logins only."));
  show("posture", out);
}

const dependencyNames = {store: "Store", events: "Events", reader: "Reader of events", operators: "Operators' changes", breached: "Leaked passwords", limits_db: "Database of plan limits"};
const dependencies = (s) => show("dependencies", h("dl", {}, s.dependencies.flatMap((d) => [
  h("dt", {}, dependencyNames[d.name] || d.name), h("dd", {}, h("span", {class: "badge " + d.state}, d.state), d.detail ? " " + d.detail : "")])));

function rates(s) {
  const sum = (m) => rungs.reduce((n, r) => n + m[r], 0);
  const most = Math.max(1, ...s.minutes.map(sum)), wide = 300 / Math.max(1, s.minutes.length);
  const svg = h("svg", {viewBox: "0 0 300 100", preserveAspectRatio: "none", role: "img",
    "aria-label": "Attempts of each of the last " + s.minutes.length + " minutes; " + number(most) + " at most in one. The last five are in the table."});
  s.minutes.forEach((m, i) => {
    let y = 100;
    for (const r of rungs) {
      const tall = m[r] / most * 96;
      y -= tall;
      if (tall > 0) svg.append(h("rect", {class: r, x: i * wide + .6, y, width: wide - 1.2, height: tall}));
    }
  });
  const last = s.minutes.slice(-6, -1), all = last.reduce((n, m) => n + sum(m), 0); // whole ones
  const of = (k) => last.reduce((n, m) => n + m[k], 0);
  const rows = rungs.map((r) => [h("span", {}, h("span", {class: "dot " + r}), r), number(of(r) / 5), all ? number(100 * of(r) / all) + " %" : ""]);
  show("rates", h("figure", {}, svg, h("figcaption", {}, "The last " + s.minutes.length + " minutes, " + number(most) + " at most in one")),
    table("A minute, over the last five", ["answered", "a minute", "share"], rows, ""),
    h("p", {class: "soft"}, number(of("successes") / 5) + " sign-ins and " + number(of("failures") / 5) + " wrong guesses a minute were reported."));
}

const campaigns = (s) => show("campaigns", s.campaigns.length ? s.campaigns.map((c) => h("article", {},
  h("h3", {}, words(c.what), c.posture ? [" ", h("span", {class: "badge " + c.posture}, c.posture)] : "", c.dry_run ? [" ", h("span", {class: "badge"}, "dry run")] : "", c.learning ? [" ", h("span", {class: "badge"}, "learning")] : ""),
  h("p", {}, c.reason || ""),
  h("p", {class: "soft"}, ["since " + when(c.start, s.now), "last sign " + when(c.last, s.now), c.guesses ? some(c.guesses, "guess", "guesses") : "",
    c.accounts ? some(c.accounts, "account", "accounts") : "", c.sources ? some(c.sources, "address", "addresses") : ""].filter((x) => x).join(" · ")),
  (c.groups || []).length ? h("ul", {}, c.groups.map((g) => h("li", {}, words(g.kind) + " " + g.key + (g.per_minute ? ": " + number(g.per_minute) + " a minute" : "")))) : "",
  (c.done || []).length ? h("p", {class: "soft"}, "Done: " + c.done.slice(-3).map((d) => d.what + " at " + clock(d.time)).join(", ")) : "",
  h("p", {class: "soft"}, c.id))) : h("p", {class: "soft"}, "None."));

function busiest(s) {
  const since = s.since ? "Since " + when(s.since, s.now) : "";
  show("networks", table(since, ["network", "asked", "wrong", "signed in"], s.networks.map((n) => [n.network + (n.asn ? " AS" + n.asn : ""), number(n.asked), number(n.failures), number(n.successes)]), "Nobody was asked for anything, and nothing went wrong."));
  show("accounts", table(since + ", by strangers; a hash fills in the form below", ["account", "asked", "wrong", "signed in"], s.accounts.map((a) => [h("button", {class: "link", type: "button",
    on: () => { by("hash").value = a.account; by("account").value = ""; by("ip").focus(); }}, a.account), number(a.asked), number(a.failures), number(a.successes)]), "None."));
}

function chip(s) {
  const worst = s.dependencies.some((d) => d.state == "down") || s.status != "ok" ? s.status == "ok" ? "degraded" : s.status : "ok";
  if (by("chip").textContent != worst) by("chip").textContent = worst; // told once by a screen reader
  by("chip").className = "chip " + worst;
  by("about").textContent = s.version + (s.instances > 1 ? ", one of " + s.instances + " instances" : "") + ". " +
    (s.as_of ? "Last event read " + clock(s.as_of) + (s.read_here ? "" : " by another instance") : "No event has been read") + ". " + clock(s.now);
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++serial;
  try {
    const s = await ask("/admin/v1/status" + (realm ? "?realm=" + encodeURIComponent(realm) : ""));
    if (mine != serial) return; // another was asked for since
    by("alert").textContent = "";
    by("login").hidden = true;
    by("all").hidden = false;
    if (by("realm").options.length != s.realms.length) by("realm").replaceChildren(...s.realms.map((r) => h("option", {}, r)));
    by("realm").value = s.realm;
    by("realms").hidden = s.realms.length < 2;
    for (const f of [chip, posture, dependencies, rates, campaigns, busiest]) f(s);
  } catch (e) {
    if (mine != serial) return;
    by("login").hidden = e.status != 401;
    if (e.status == 401 || e.status == 403) by("all").hidden = true;
    by("alert").textContent = e.status == 401 && !sessionStorage.getItem("key") ? "" : e.status ? e.message : "guardd does not answer.";
    by("chip").textContent = e.status ? "not shown" : "no answer";
    by("chip").className = "chip";
  }
  if (!document.hidden) timer = setTimeout(refresh, every);
}

function explained(x) {
  const changes = {proof: (c) => "the visitor passes one of: " + c.ways.join(", "), wait: (c) => seconds(c.after_ms) + " pass, with no guess meanwhile",
    clear: (c) => "an operator clears " + c.by.join(", "), unlist: (c) => "an operator takes " + c.by.join(", ") + " from the list",
    posture: () => "the posture falls, or an operator pins a lower one", device: () => "the visitor comes with a known device of the account"};
  const out = [h("h3", {}, "An attempt now would be answered " + x.action + (x.reasons.length ? ", because of " + x.reasons.join(", ") : "") + "."),
    h("p", {class: "soft"}, [x.account ? "account " + x.account : "", x.ip || x.network || "", "flow " + x.flow, "realm " + x.realm].filter((t) => t).join(" · "))];
  const facts = [];
  if (x.shadow) facts.push("Shadow: nobody is held to it.");
  if (x.degraded) facts.push("The store cannot be reached: this is by this instance alone.");
  if (x.list) facts.push("On the list " + x.list.list + ": " + x.list.cidr + (x.list.reason ? " (" + x.list.reason + ")" : ""));
  if (x.familiar) facts.push("The account has signed in from this address of late.");
  for (const s of x.suspect) facts.push(s.network + " is suspect until " + when(s.until, x.now));
  if (x.k > 1) facts.push("The address counts as " + x.k + " people.");
  if (facts.length) out.push(h("ul", {}, facts.map((f) => h("li", {}, f))));
  if (x.limits.length) out.push(table("Limits", ["limit", "left", "of", "asks for"], x.limits.map((l) => [l.tier + "." + l.limit + (l.counted ? "" : " (not counted)"), number(l.left), number(l.capacity), l.rung]), ""));
  if (x.changes.length) out.push(h("p", {}, "What would bring allow:"), h("ul", {}, x.changes.map((c) => h("li", {}, (changes[c.kind] || (() => c.kind))(c)))));
  if (x.recent.length) out.push(table("Of late", ["when", "from", "what"], x.recent.slice(0, 8).map((r) => [when(r.time, x.now), h("span", {class: "wrap"}, r.ip || ""), h("span", {class: "wrap"}, r.outcome ? "outcome " + r.outcome : (r.would || r.action) + ((r.reasons || []).length ? " (" + r.reasons.join(", ") + ")" : ""))]), ""));
  by("explained").replaceChildren(...out);
}

by("explain-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const q = {account: by("account").value, account_hash: by("hash").value.trim(), ip: by("ip").value.trim()};
  if (realm) q.realm = realm;
  for (const k of Object.keys(q)) if (!q[k]) delete q[k];
  try {
    explained(await ask("/admin/v1/explain", q));
  } catch (err) {
    by("explained").replaceChildren(h("p", {class: "say bad"}, (err.errors || []).length ? err.errors.map((f) => f.field + ": " + words(f.reason)).join(", ") : err.message));
  }
});
by("key-form").addEventListener("submit", (e) => {
  e.preventDefault();
  sessionStorage.setItem("key", by("key").value.trim());
  by("key").value = "";
  refresh();
});
by("realm").addEventListener("change", () => { realm = by("realm").value; by("explained").replaceChildren(); by("realm").blur(); refresh(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
