// The switch between light and dark. Without a choice, the system decides.

import { byId } from "./dom.js";

const NAME = "scalebricks-theme";

function show(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function startTheme() {
  const choice = byId("theme");
  const kept = localStorage.getItem(NAME) ?? "";
  choice.value = ["light", "dark"].includes(kept) ? kept : "";
  show(choice.value);
  choice.addEventListener("change", () => {
    localStorage.setItem(NAME, choice.value);
    show(choice.value);
  });
}
