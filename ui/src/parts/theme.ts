// Light, dark or as the system has it; remembered in this browser.
export type Theme = "system" | "light" | "dark";
const KEY = "norma.theme";

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function setTheme(next: Theme) {
  if (next === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  startTheme();
}

export function startTheme() {
  const now = theme();
  if (now === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
}
