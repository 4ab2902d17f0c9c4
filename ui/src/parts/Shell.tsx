// What surrounds every page: the list of runs on the left, where to go, whether the page is connected, and the keys that
// work everywhere. On a narrow screen the list is the home page, and the rest is reached from there.
import { lazy, Suspense, useEffect, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { onReach, api } from "../api/client";
import { useApprovals } from "../api/hooks";
import { RunList } from "./RunList";
import { setTheme, theme, type Theme } from "./theme";
import { text } from "../text";

const Palette = lazy(() => import("./Palette"));
const Keys = lazy(() => import("./Keys"));

export function isTyping(event: KeyboardEvent): boolean {
  const at = event.target as HTMLElement | null;
  return !!at?.closest("input, textarea, select, [contenteditable]");
}

export function Shell({ children }: { children: ReactNode }) {
  const [location, navigate] = useLocation();
  const [open, setOpen] = useState<"palette" | "keys" | null>(null);
  const { data: approvals } = useApprovals();
  const waiting = approvals?.length ?? 0;
  useNotice(waiting);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        return setOpen("palette");
      }
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") setOpen("keys");
      if (event.key === "n") navigate("/new");
      if (event.key === "a") navigate("/approvals");
      if (event.key === "/") {
        event.preventDefault();
        document.getElementById("filter")?.focus();
      }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [navigate]);
  const isHome = location === "/";
  return (
    <div className="flex h-full flex-col">
      <a href="#content" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-panel focus:p-2">{text.skip}</a>
      <header className="flex items-center gap-1 border-b border-line bg-panel px-3 py-2 sm:gap-2">
        <Link href="/" className="mr-1 flex items-center gap-2 font-semibold">
          <img src="/icon.svg" alt="" width={22} height={22} />
          <span>{text.name}</span>
        </Link>
        <nav aria-label={text.nav.main} className="flex items-center gap-1">
          <Tab href="/" on={isHome}>{text.nav.home}</Tab>
          <Tab href="/approvals" on={location === "/approvals"}>
            {text.nav.approvals}
            {waiting > 0 && <span className="ml-1 rounded-full bg-warn-soft px-1.5 text-xs font-semibold text-warn">{waiting}<span className="sr-only"> {text.nav.waiting}</span></span>}
          </Tab>
          <Tab href="/verify" on={location === "/verify"} className="max-md:hidden">{text.nav.verify}</Tab>
        </nav>
        <span className="grow" />
        <button className="button small max-sm:hidden" onClick={() => setOpen("palette")}>{text.nav.search} <kbd className="text-dim">Ctrl K</kbd></button>
        <ThemeChoice />
        <Link href="/new" className="button primary small">{text.nav.new}</Link>
      </header>
      <Reach />
      <div className="flex min-h-0 grow">
        <aside aria-label={text.nav.home} className={`${isHome ? "flex w-full" : "hidden"} shrink-0 flex-col border-r border-line bg-panel lg:flex lg:w-80`}>
          <RunList />
        </aside>
        <main id="content" tabIndex={-1} className={`${isHome ? "hidden" : "flex"} min-w-0 grow flex-col overflow-y-auto lg:flex`}>{children}</main>
      </div>
      <Suspense>
        {open === "palette" && <Palette close={() => setOpen(null)} />}
        {open === "keys" && <Keys close={() => setOpen(null)} />}
      </Suspense>
    </div>
  );
}

function Tab({ href, on, children, className = "" }: { href: string; on: boolean; children: ReactNode; className?: string }) {
  return (
    <Link href={href} aria-current={on ? "page" : undefined} className={`inline-flex items-center rounded-md px-2 py-1 text-sm ${on ? "bg-accent-soft font-medium text-accent" : "text-dim hover:bg-sunk"} ${className}`}>{children}</Link>
  );
}

function ThemeChoice() {
  const [now, setNow] = useState<Theme>(theme);
  const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
  return (
    <button className="button small" aria-label={`${text.nav.theme}: ${text.nav[now]}`} title={`${text.nav.theme}: ${text.nav[now]}`} onClick={() => { setTheme(next[now]); setNow(next[now]); }}>
      <span aria-hidden>{now === "light" ? "☀" : now === "dark" ? "☾" : "◐"}</span>
    </button>
  );
}

/** Whether the server is there, and whether it is still the one that this page is of. */
function Reach() {
  const [reachable, setReachable] = useState(true);
  const [isNewer, setNewer] = useState(false);
  useEffect(() => {
    let was = true;
    return onReach((is) => {
      setReachable(is);
      if (is && !was) void api.version().then((found) => setNewer(known !== null && found !== "" && found !== known)).catch(() => {});
      was = is;
    });
  }, []);
  if (isNewer) {
    return (
      <Banner tone="info">
        {text.link.newer} <button className="button small" onClick={() => location.reload()}>{text.link.reload}</button>
      </Banner>
    );
  }
  return reachable ? null : <Banner tone="warn">{text.link.offline}</Banner>;
}

/** The tag of the program that this page came from. */
let known: string | null = null;
void api.version().then((found) => (known = found)).catch(() => {});

export function Banner({ tone, children }: { tone: "warn" | "info" | "good"; children: ReactNode }) {
  const tones = { warn: "bg-warn-soft text-warn", info: "bg-info-soft text-info", good: "bg-good-soft text-good" };
  return <div role="status" className={`flex items-center justify-center gap-2 px-3 py-1.5 text-sm ${tones[tone]}`}>{children}</div>;
}

/** The number of what waits in the title, and a notification where the person allowed it. */
function useNotice(waiting: number) {
  const [before, setBefore] = useState(waiting);
  useEffect(() => {
    document.title = waiting ? `(${waiting}) ${text.name}` : text.name;
    if (waiting > before && document.hidden && "Notification" in window && Notification.permission === "granted") {
      new Notification(text.name, { body: text.approvals.notified, tag: "norma-approvals" });
    }
    setBefore(waiting);
  }, [waiting, before]);
}
