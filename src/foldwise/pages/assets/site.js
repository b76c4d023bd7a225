// What the pages do by themselves: light or dark, the reader's language, search, the choice of two versions.
"use strict";

const foldwise = (() => {
  const root = document.currentScript.dataset.root;
  const kept = {
    get(name) { try { return localStorage.getItem(`foldwise-${name}`); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(`foldwise-${name}`, value); } catch { /* then it is for this page */ } },
  };

  // ---- light or dark, before anything is drawn

  const useTheme = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  useTheme(kept.get("theme") ?? "auto");

  const offerThemes = () => {
    const choice = document.getElementById("theme");
    choice.hidden = false;
    choice.value = kept.get("theme") ?? "auto";
    choice.addEventListener("change", () => { kept.set("theme", choice.value); useTheme(choice.value); });
  };

  // ---- words of the furniture; what a file gives comes by a call, so that pages opened from a disk work too

  const load = (file) => {
    const script = document.createElement("script");
    script.src = `${root}assets/${file}`;
    document.head.append(script);
  };
  const words = (language, known) => {
    for (const [kind, put] of [
      ["word", (element, text) => { element.textContent = text; element.lang = language; }],
      ["label", (element, text) => element.setAttribute("aria-label", text)],
      ["placeholder", (element, text) => element.setAttribute("placeholder", text)],
    ]) {
      for (const element of document.querySelectorAll(`[data-${kind}]`)) {
        if (known[element.dataset[kind]]) put(element, known[element.dataset[kind]]);
      }
    }
  };
  const useLanguage = (language) => load(`words-${language}.js`);

  const offerLanguages = () => {
    const choice = document.getElementById("language");
    choice.hidden = false;
    choice.value = kept.get("language") ?? "en";
    if (choice.value !== "en") useLanguage(choice.value);
    choice.addEventListener("change", () => { kept.set("language", choice.value); useLanguage(choice.value); });
  };

  // ---- search

  let pages = null;
  const found = (text) => {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length || !pages) return [];
    const rank = ([title]) => {
      const plain = title.toLowerCase();
      return plain === wanted.join(" ") ? 0 : plain.startsWith(wanted[0]) ? 1 : plain.includes(wanted[0]) ? 2 : 3;
    };
    return pages
      .filter((page) => { const all = page.join(" ").toLowerCase(); return wanted.every((word) => all.includes(word)); })
      .map((page, place) => [rank(page), place, page])
      .sort((one, other) => one[0] - other[0] || one[1] - other[1])
      .slice(0, 12)
      .map(([, , page]) => page);
  };

  const offerSearch = () => {
    const field = document.getElementById("search");
    const list = document.getElementById("results");
    const nothing = document.getElementById("found-nothing");
    let chosen = -1;

    const choose = (place) => {
      chosen = place;
      [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === place)));
      if (place < 0) { field.removeAttribute("aria-activedescendant"); return; }
      field.setAttribute("aria-activedescendant", list.children[place].id);
      list.children[place].scrollIntoView({ block: "nearest" });
    };
    const close = () => {
      list.hidden = nothing.hidden = true;
      field.setAttribute("aria-expanded", "false");
      choose(-1);
    };
    const show = () => {
      if (!pages) { load("search.js"); return; }
      const results = found(field.value);
      list.replaceChildren(...results.map(([title, path, about], i) => {
        const item = document.createElement("li");
        item.id = `result-${i}`;
        item.setAttribute("role", "option");
        item.dataset.path = path;
        const quiet = document.createElement("small");
        quiet.textContent = about;
        item.append(title, quiet);
        item.addEventListener("pointerdown", (event) => { event.preventDefault(); go(item); });
        return item;
      }));
      list.hidden = !results.length;
      nothing.hidden = Boolean(results.length) || !field.value.trim();
      field.setAttribute("aria-expanded", String(!list.hidden));
      choose(-1);
    };
    const go = (item) => { location.href = root + item.dataset.path; };

    field.hidden = false;
    field.addEventListener("focus", show);
    field.addEventListener("input", show);
    field.addEventListener("blur", close);
    field.addEventListener("keydown", (event) => {
      const count = list.children.length;
      if (event.key === "ArrowDown" && count) choose((chosen + 1) % count);
      else if (event.key === "ArrowUp" && count) choose((chosen + count - 1) % count);
      else if (event.key === "Enter" && count) go(list.children[Math.max(chosen, 0)]);
      else if (event.key === "Escape") { field.value = ""; close(); }
      else return;
      event.preventDefault();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select, textarea");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        field.focus();
      }
    });
    return show;
  };

  // ---- two versions to compare

  const offerComparison = () => {
    const form = document.getElementById("compare");
    if (!form) return;
    const [before, after] = [document.getElementById("old"), document.getElementById("new")];
    const status = form.querySelector("[role=status]");
    const page = (list) => list.value.replace(":", "-");
    form.hidden = false;
    after.selectedIndex = before.selectedIndex + 1;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      status.hidden = before.value !== after.value;
      if (status.hidden) location.href = `${root}compare/${page(before)}/${page(after)}.html`;
    });
  };

  let refresh = () => {};
  document.addEventListener("DOMContentLoaded", () => {
    offerThemes();
    refresh = offerSearch();
    offerComparison();
    offerLanguages();
  });
  return { words, pages(list) { pages = list; refresh(); } };
})();
