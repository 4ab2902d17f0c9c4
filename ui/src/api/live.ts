// One run, live: its snapshot, what was told of it, and a WebSocket that continues after the last fact that arrived. The
// page never guesses: it says when it is not connected, and from which event on it has caught up.
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { api, Refused, type Run, type StreamEvent } from "./client";
import { apply } from "./apply";

export type Link = "loading" | "live" | "lost" | "ended" | "logged-out" | "missing";

export type Live = {
  run: Run | null;
  /** What was told, oldest first, without what the snapshot has anyway. */
  told: readonly StreamEvent[];
  /** What agents are in the middle of saying, by node. */
  drafts: Readonly<Record<string, string>>;
  /** After which fact that begins: of a long run the rest is at `norma events`. */
  since: number;
  /** The last fact that has arrived. */
  seq: number;
  link: Link;
  /** From which event on a connection that was lost has caught up. */
  caughtUpFrom: number | null;
  problem: string | null;
};

/** Events whose effect is in the snapshot; they are not kept. */
const IN_SNAPSHOT = new Set(["run.patch", "node.patch", "node.progress", "artifact.created", "edge.created", "edge.deleted"]);
/** How many events are kept for reading, and how many facts of the past are read for them. */
export const TOLD_MAX = 20_000;
const PAST_MAX = 20_000;
const DRAFT_MAX = 8_000;
/** How long changes are gathered before the page is drawn again. */
const GATHER_MS = 60;
const PAGE = 5_000;

export class LiveRun {
  private state: Live = { run: null, told: [], since: 0, drafts: {}, seq: 0, link: "loading", caughtUpFrom: null, problem: null };
  private listeners = new Set<() => void>();
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private reading: ReturnType<typeof setTimeout> | null = null;
  private queue: StreamEvent[] = [];
  private seen = new Set<string>();
  private snapshotSeq = 0;
  private tries = 0;
  private wasLost = false;
  private isClosed = false;

  readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  get = () => this.state;

  private set(change: Partial<Live>) {
    this.state = { ...this.state, ...change };
    this.listeners.forEach((tell) => tell());
  }

  async open() {
    try {
      const run = await api.run(this.id);
      this.snapshotSeq = run.seq ?? 0;
      const since = Math.max(0, this.snapshotSeq - PAST_MAX);
      this.set({ run, seq: this.snapshotSeq, since, problem: null });
      this.connect();
      void this.read(since, []);
    } catch (why) {
      this.failed(why);
    }
  }

  /** Reads what was told before the snapshot, page by page; the page is live meanwhile. */
  private async read(since: number, past: StreamEvent[]) {
    let from: number | null = since;
    try {
      while (from !== null && from < this.snapshotSeq && !this.isClosed) {
        const page: { events: StreamEvent[]; next: number | null } = await api.events(this.id, from, PAGE);
        for (const event of page.events) if ((event.seq ?? 0) <= this.snapshotSeq && !IN_SNAPSHOT.has(event.type)) past.push(event);
        from = page.next;
      }
      this.set({ told: past.concat(this.state.told).slice(-TOLD_MAX) });
    } catch (why) {
      // A server that is away or busy is asked again; what else it refuses stays unread, and what happens now is shown.
      const isOver = why instanceof Refused && why.status !== 401 && why.status !== 503;
      if (!this.isClosed && !isOver) this.reading = setTimeout(() => void this.read(from ?? since, past), 2_000);
    }
  }

  close() {
    this.isClosed = true;
    if (this.timer) clearTimeout(this.timer);
    if (this.retry) clearTimeout(this.retry);
    if (this.reading) clearTimeout(this.reading);
    this.socket?.close();
  }

  private failed(why: unknown) {
    if (this.isClosed) return;
    if (why instanceof Refused && why.status === 401) {
      // Whoever logs in again, in this tab or another one, continues where this page stopped.
      this.set({ link: "logged-out" });
      return this.again();
    }
    if (why instanceof Refused && why.status === 404) return this.set({ link: "missing" });
    if (why instanceof Refused) return this.set({ problem: why.message, link: "ended" });
    this.set({ link: "lost" });
    this.again();
  }

  /** Tries again, later and later, up to every five seconds. */
  private again() {
    const wait = Math.min(5_000, 250 * 2 ** this.tries++);
    this.retry = setTimeout(() => {
      if (!this.state.run) return void this.open();
      // Whether the session is over, the server tells only to a request.
      api.run(this.id).then(
        () => this.connect(),
        (why) => this.failed(why),
      );
    }, wait);
  }

  private connect() {
    if (this.isClosed) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    // All events of a fact have its number, and a connection may break among them: the last fact is asked for again,
    // and what has arrived of it is known by its id.
    const since = Math.max(0, this.state.seq - 1);
    const socket = new WebSocket(`${scheme}://${location.host}/ws?runId=${encodeURIComponent(this.id)}&since=${since}`);
    this.socket = socket;
    socket.onopen = () => {
      this.tries = 0;
      const caughtUpFrom = this.wasLost ? this.state.seq : this.state.caughtUpFrom;
      this.wasLost = false;
      this.set({ link: "live", caughtUpFrom });
    };
    socket.onmessage = ({ data }) => {
      this.queue.push(JSON.parse(String(data)) as StreamEvent);
      this.timer ??= setTimeout(() => this.flush(), GATHER_MS);
    };
    socket.onclose = () => {
      if (this.isClosed) return;
      this.wasLost = true;
      this.set({ link: "lost", drafts: {} });
      this.again();
    };
  }

  private flush() {
    this.timer = null;
    let { run, seq } = this.state;
    const told: StreamEvent[] = [];
    let drafts: Record<string, string> | null = null;
    for (const event of this.queue) {
      if (event.seq === undefined || event.seq === null) {
        if (event.type === "message.assistant.delta") {
          drafts ??= { ...this.state.drafts };
          drafts[event.nodeId] = ((drafts[event.nodeId] ?? "") + event.delta).slice(-DRAFT_MAX);
        }
        continue;
      }
      if (event.seq < seq || this.seen.has(event.id)) continue;
      if (event.seq > seq) this.seen.clear();
      this.seen.add(event.id);
      seq = event.seq;
      // What the snapshot has is read as the past.
      if (seq <= this.snapshotSeq) continue;
      if (run) run = apply(run, event);
      if (event.type === "message.assistant.final") {
        drafts ??= { ...this.state.drafts };
        delete drafts[event.nodeId];
      }
      if (!IN_SNAPSHOT.has(event.type)) told.push(event);
    }
    this.queue = [];
    const all = told.length ? this.state.told.concat(told).slice(-TOLD_MAX) : this.state.told;
    this.set({ run, seq, told: all, drafts: drafts ?? this.state.drafts });
  }
}

/** Follows a run for as long as somebody looks at it. */
export function useLiveRun(id: string): Live {
  const live = useMemo(() => new LiveRun(id), [id]);
  useEffect(() => {
    void live.open();
    return () => live.close();
  }, [live]);
  return useSyncExternalStore(live.subscribe, live.get);
}
