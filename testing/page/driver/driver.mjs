// Drives Chromium by Playwright for `chromium.rs`: a call on each line of standard input, such as
// {"id": 3, "tab": 2, "call": "keyboard.press", "args": ["Enter"]}, and its result on a line of standard output under the
// same id. Every test has a context of its own in the one browser. The end of standard input is the end of this program,
// and Playwright kills the browser at its exit.
import { createInterface } from "node:readline";

const [playwright, executablePath] = process.argv.slice(2);
const { chromium } = await import(playwright);

// Longer than anything takes on a loaded machine.
const TIMEOUT_MS = 90_000;
// How often a page checks what is waited for. At each frame, as is Playwright's default, would slow large pages down.
const POLL_MS = 50;
// What a failure shows beside Playwright's message; `page` is what the client of seed 003's API keeps for tests.
const SHOWN = "document.body.innerText + JSON.stringify(typeof page === 'undefined' ? {} : page, null, 1)";

// What tells a page's thread from others in a trace.
const MARK = "norma-traced";

const browser = await chromium.launch({ executablePath, args: ["--disable-gpu"], timeout: TIMEOUT_MS });
const contexts = new Map();
const pages = new Map();

// Calls that are not Playwright's own.
const OURS = {
  // A function, since the policy of norma's page forbids to evaluate a string later than now. What throws is tried
  // again: a page that is being loaded has nothing of the one before.
  until(page, expression) {
    const holds = new Function(`try { return (${expression}\n) === true; } catch { return false; }`);
    return page.waitForFunction(holds, undefined, { polling: POLL_MS });
  },

  clickNamed(page, selector, name) {
    const hasText = new RegExp(`^\\s*${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}\\s*$`);
    return page.locator(selector).filter({ hasText, visible: true }).first().click();
  },

  async trace(page) {
    await browser.startTracing(page, { categories: ["blink.user_timing", "cc", "devtools.timeline"] });
    await page.evaluate(`performance.mark("${MARK}")`);
  },

  // How long each press of a key and each click since `trace` took, in milliseconds: from its dispatch to the end of the
  // frame that the page made next.
  async traced() {
    const { traceEvents } = JSON.parse(await browser.stopTracing());
    const { pid, tid } = traceEvents.find((it) => it.name === MARK);
    const done = traceEvents.filter((it) => it.ph === "X" && it.pid === pid && it.tid === tid).sort((a, b) => a.ts - b.ts);
    const frames = done.filter((it) => it.name === "ProxyMain::BeginMainFrame");
    const inputs = done.filter((it) => it.name === "EventDispatch" && ["keydown", "click"].includes(it.args.data?.type));
    return inputs.flatMap((it) => {
      const frame = frames.find((frame) => frame.ts >= it.ts + it.dur);
      return frame ? [(frame.ts + frame.dur - it.ts) / 1000] : [];
    });
  },

  // Playwright has no WebP, which is a third of a PNG.
  async picture(page) {
    const session = await page.context().newCDPSession(page);
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 25 });
    await session.detach();
    return data;
  },
};

async function open(test, tab) {
  if (!contexts.has(test)) {
    contexts.set(test, await browser.newContext({ viewport: { width: 1200, height: 2400 } }));
    contexts.get(test).setDefaultTimeout(TIMEOUT_MS);
  }
  pages.set(tab, await contexts.get(test).newPage());
}

async function perform({ test, tab, call, args }) {
  if (call === "open") return open(test, tab);
  if (call === "leave") return contexts.get(test)?.close();
  const page = pages.get(tab);
  if (call in OURS) return OURS[call](page, ...args);
  const [method, part] = call.split(".").reverse();
  return (part ? page[part] : page)[method](...args);
}

async function answer(request) {
  const { id, tab, call } = request;
  try {
    return JSON.stringify({ id, value: await perform(request) });
  } catch ({ message }) {
    const shown = call === "evaluate" ? "" : await pages.get(tab)?.evaluate(SHOWN).catch(() => "");
    return JSON.stringify({ id, error: `${message}\n${shown ?? ""}` });
  }
}

createInterface({ input: process.stdin })
  .on("line", async (line) => process.stdout.write(`${await answer(JSON.parse(line))}\n`))
  .on("close", () => process.exit());
