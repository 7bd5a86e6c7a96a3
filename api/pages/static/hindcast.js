/* What is nicer with a script; every page works without it. */
"use strict";

/* While a replay runs, its page is fetched again instead of reloaded as a whole: the reader's place and focus stay. */
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
          if (part.innerHTML !== fresh.innerHTML) part.replaceChildren(...fresh.childNodes);
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
      if (fresh && !fresh.hasAttribute("data-awaited")) {
        part.replaceWith(fresh);
        fresh.querySelectorAll("[data-copy]").forEach(arm);
      }
    }
  } catch {
    /* The server may be busy or away for a moment. */
  }
  setTimeout(arrive, 3000);
};
setTimeout(arrive, 2000);

/* Newer browsers open a folded part when a link leads into it; this does it for older ones. */
const unfold = () => {
  let at = location.hash && document.getElementById(location.hash.slice(1));
  if (!at) return;
  const wanted = at;
  for (at = at.closest("details:not([open])"); at; at = at.parentElement.closest("details:not([open])")) at.open = true;
  wanted.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();

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

/* A table is copied as text with tabs, which a spreadsheet takes; a shortened name is copied whole. Browsers let only secure pages copy. */
const cellText = (cell) => {
  const copy = cell.cloneNode(true);
  for (const hidden of copy.querySelectorAll("[aria-hidden=true], .visually-hidden")) hidden.remove();
  for (const short of copy.querySelectorAll(".user[title]")) short.textContent = short.title;
  for (const block of copy.querySelectorAll(".block")) block.prepend(" ");
  return copy.textContent.replace(/\s+/g, " ").trim();
};
const copied = (box) => {
  const rows = box.querySelectorAll("table tr");
  if (rows.length) return [...rows].map((row) => [...row.cells].map(cellText).join("\t")).join("\n");
  return [...box.querySelectorAll(".code .row > :last-child")].map((line) => line.textContent).join("\n");
};
const arm = (button) => {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const words = button.firstChild;
    const before = words.textContent;
    try {
      await navigator.clipboard.writeText(copied(document.getElementById(button.dataset.copy)) + "\n");
      words.textContent = "Copied";
    } catch {
      words.textContent = "Not allowed";
    }
    setTimeout(() => (words.textContent = before), 2000);
  });
};
document.querySelectorAll("[data-copy]").forEach(arm);
