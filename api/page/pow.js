// Solves an ALTCHA v2 challenge: finds the counter whose key, derived from the
// nonce and the counter, begins with the wanted bytes. Answers the payload that
// is posted back, or nothing when it cannot.
"use strict";
const bytes = (hex) => Uint8Array.from(hex.match(/../g) || [], (h) => parseInt(h, 16));
const hex = (buf) => Array.from(new Uint8Array(buf), (b) => b.toString(16).padStart(2, "0")).join("");

const derive = {
  async PBKDF2(hash, password, p) {
    const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
    return crypto.subtle.deriveBits({ name: "PBKDF2", hash, salt: bytes(p.salt), iterations: p.cost }, key, 8 * p.keyLength);
  },
};

onmessage = async (m) => {
  const challenge = m.data, p = challenge.parameters;
  const [kdf, hash] = p.algorithm.split("/");
  const nonce = bytes(p.nonce), began = performance.now();
  const password = new Uint8Array(nonce.length + 4);
  password.set(nonce);
  const counter = new DataView(password.buffer, nonce.length);
  if (!derive[kdf]) return postMessage("");
  // Ten minutes is a challenge's life. Its own expiry is by a clock that may
  // not be this device's.
  for (let n = 0; n <= 0xffffffff && performance.now() - began < 600e3; n++) {
    counter.setUint32(0, n);
    const key = hex(await derive[kdf](hash, password, p));
    if (key.startsWith(p.keyPrefix)) {
      const solution = { counter: n, derivedKey: key, time: Math.round(performance.now() - began) };
      return postMessage(btoa(JSON.stringify({ challenge, solution })));
    }
  }
  postMessage("");
};
