// Colours of code, by shiki's tokens: no WebAssembly and no markup, only data; a dozen languages.
import { createHighlighterCore } from "shiki/core";
import { createJavaScriptRegexEngine } from "shiki/engine/javascript";

const LANGUAGES: Record<string, string> = { rs: "rust", ts: "tsx", tsx: "tsx", js: "tsx", jsx: "tsx", py: "python", go: "go", json: "json", toml: "toml", yml: "yaml", yaml: "yaml", sh: "shellscript", css: "css", c: "c", h: "c" };

export type ColourToken = { type: "text"; value: string; color: string | undefined };
/** The tokens of each line of a text; none where the language of such a file is not known. */
export type Colour = (code: string, name: string) => ColourToken[][] | null;

export async function load(): Promise<Colour> {
  const core = await createHighlighterCore({
    themes: [import("@shikijs/themes/github-light-high-contrast"), import("@shikijs/themes/github-dark-high-contrast")],
    langs: [import("@shikijs/langs/rust"), import("@shikijs/langs/tsx"), import("@shikijs/langs/python"), import("@shikijs/langs/go"), import("@shikijs/langs/json"), import("@shikijs/langs/toml"), import("@shikijs/langs/yaml"), import("@shikijs/langs/shellscript"), import("@shikijs/langs/css"), import("@shikijs/langs/c")],
    engine: createJavaScriptRegexEngine({ forgiving: true }),
  });
  const known = new Set(core.getLoadedLanguages());
  const isDark = () => document.documentElement.dataset.theme === "dark" || (document.documentElement.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
  return (code, name) => {
    const lang = LANGUAGES[name.split(".").pop() ?? ""];
    if (!lang || !known.has(lang)) return null;
    const theme = isDark() ? "github-dark-high-contrast" : "github-light-high-contrast";
    return core.codeToTokensBase(code, { lang, theme }).map((line) => line.map(({ content, color }) => ({ type: "text", value: content, color })));
  };
}
