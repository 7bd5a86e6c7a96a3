/* What is nicer with a script; every page works without it. */
"use strict";

/* While a replay runs its page is fetched anew, instead of reloaded as a whole: the reader's place and focus stay. */
const progress = document.querySelector("[data-follow]");
if (progress) {
  document.querySelector("meta[http-equiv=refresh]")?.remove();
  const follow = async () => {
    try {
      const answer = await fetch(progress.dataset.follow, { headers: { Accept: "text/html" } });
      if (answer.redirected) {
        location.assign(answer.url);
        return;
      }
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-follow]");
      if (!found) {
        location.reload();
        return;
      }
      for (const part of progress.querySelectorAll("[data-part]")) {
        const fresh = found.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!fresh) continue;
        if (!part.matches("progress")) {
          if (part.textContent !== fresh.textContent) part.textContent = fresh.textContent;
        } else if (fresh.hasAttribute("value")) part.value = fresh.value;
        else part.removeAttribute("value");
      }
    } catch {
      /* The server may be busy or away for a moment. */
    }
    setTimeout(follow, 1500);
  };
  setTimeout(follow, 1000);
}

/* Parts of a page that are still being worked out take their place when they are there. */
const arrive = async () => {
  const awaited = document.querySelectorAll("[data-awaited]");
  if (!awaited.length) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of awaited) {
      const fresh = answer.ok && found.getElementById(part.id);
      if (fresh && !fresh.hasAttribute("data-awaited")) part.replaceWith(fresh);
    }
  } catch {
    /* The server may be busy or away for a moment. */
  }
  setTimeout(arrive, 3000);
};
setTimeout(arrive, 2000);

/* A chosen file is shown in the text field, where it can still be changed. */
const file = document.querySelector("input[type=file][data-into]");
if (file) {
  const into = document.getElementById(file.dataset.into);
  file.addEventListener("change", async () => {
    const texts = await Promise.all([...file.files].map((entry) => entry.text()));
    if (into && texts.length) {
      into.value = texts.join("\n---\n");
      file.value = "";
    }
  });
}
