// Without this the page is whole: what changes by itself is seen when it is
// loaded again.
"use strict";
const parts = document.querySelectorAll("[data-live]");
const look = async () => {
  try {
    const r = await fetch("/live");
    const now = new DOMParser().parseFromString(await r.text(), "text/html");
    for (const part of parts) {
      const fresh = now.querySelector(`[data-live=${part.dataset.live}]`);
      if (fresh && fresh.innerHTML !== part.innerHTML) part.innerHTML = fresh.innerHTML;
    }
  } catch { /* the demo has ended, or is starting again */ }
  setTimeout(look, 1000);
};
setTimeout(look, 1000);
