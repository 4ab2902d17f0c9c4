// One agent, or one edge, closely: what it is, what was said, what it was told, what it changed, and what can be done.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { api, type Artifact, type Change, type Edge, type Node, type Run, type StreamEvent } from "../api/client";
import { plain } from "../api/words";
import { Act, Ago, Empty, Gates, Problem, Said, State } from "../parts/small";
import { fill, text } from "../text";
import { changesByNode, who } from "./NodeCard";
import { Settings } from "./Settings";
import { Diff } from "./Diff";

type Props = { run: Run; told: readonly StreamEvent[]; drafts: Readonly<Record<string, string>>; node: Node | undefined; edge: Edge | undefined; changes: readonly Change[]; close: () => void; live: boolean };

export function Inspector({ run, told, drafts, node, edge, changes, close, live }: Props) {
  return (
    <section aria-label={node ? `${text.inspector.title} ${node.label}` : text.edge.title} className="flex w-full shrink-0 flex-col border-l border-line bg-panel lg:w-[26rem]" data-testid="inspector">
      {node && <NodeInspector key={node.id} run={run} told={told} draft={drafts[node.id]} node={node} changes={changes} close={close} live={live} />}
      {edge && <EdgeInspector key={edge.id} run={run} edge={edge} close={close} live={live && run.workflow === "graph"} />}
    </section>
  );
}

const TABS = ["overview", "chat", "handoffs", "prompts", "transcript", "diffs", "files", "settings"] as const;
type Tab = (typeof TABS)[number];

function NodeInspector({ run, told, draft, node, changes, close, live }: { run: Run; told: readonly StreamEvent[]; draft: string | undefined; node: Node; changes: readonly Change[]; close: () => void; live: boolean }) {
  const [tab, setTab] = useState<Tab>("overview");
  const isGraph = run.workflow === "graph";
  const artifacts = Object.values(run.artifacts).filter((it) => it.nodeId === node.id).sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  const of = (...kinds: string[]) => artifacts.filter((it) => kinds.includes(it.kind));
  return (
    <>
      <div className="flex items-center gap-2 border-b border-line p-3">
        <h2 className="clip grow text-base font-semibold">{plain(node.label)}</h2>
        <State state={node.status} />
        <button className="button small" onClick={close} aria-label={text.inspector.close}>✕</button>
      </div>
      <div role="tablist" aria-label={text.inspector.title} className="flex flex-wrap gap-0.5 border-b border-line px-2" onKeyDown={(e) => {
        const by = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
        if (!by) return;
        const next = TABS[(TABS.indexOf(tab) + by + TABS.length) % TABS.length]!;
        setTab(next);
        document.getElementById(`tab-${next}`)?.focus();
      }}>
        {TABS.map((it) => (
          <button key={it} id={`tab-${it}`} role="tab" aria-selected={it === tab} aria-controls="tab-body" tabIndex={it === tab ? 0 : -1} className={`border-b-2 px-2 py-1.5 text-xs ${it === tab ? "border-accent font-semibold text-accent" : "border-transparent text-dim"}`} onClick={() => setTab(it)}>{text.inspector[it]}</button>
        ))}
      </div>
      <div id="tab-body" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0} className="min-h-0 grow overflow-y-auto p-3">
        {tab === "overview" && <Overview run={run} node={node} change={changesByNode(run, changes).get(node.id)} live={live && isGraph} close={close} />}
        {tab === "chat" && <Chat run={run} node={node} told={told} draft={draft} live={live && isGraph} />}
        {tab === "handoffs" && <Handoffs run={run} node={node} told={told} />}
        {tab === "prompts" && <Files run={run} artifacts={of("prompt", "contextpack")} />}
        {tab === "transcript" && <Files run={run} artifacts={of("transcript", "log")} />}
        {tab === "diffs" && <Files run={run} artifacts={of("diff")} diff />}
        {tab === "files" && <Files run={run} artifacts={artifacts} />}
        {tab === "settings" && (isGraph ? <Settings run={run} node={node} live={live} /> : <Permissions node={node} />)}
      </div>
    </>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return <><dt className="text-dim">{name}</dt><dd className="said min-w-0">{children}</dd></>;
}

function Overview({ run, node, change, live, close }: { run: Run; node: Node; change: Change | undefined; live: boolean; close: () => void }) {
  const [to, setTo] = useState("");
  const others = Object.values(run.nodes).filter((it) => it.id !== node.id);
  return (
    <div className="flex flex-col gap-4">
      <Said>{node.summary || "—"}</Said>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-sm">
        <Row name={text.inspector.role}>{node.roleTemplate}</Row>
        <Row name={text.inspector.agent}>{who(node)}</Row>
        <Row name={text.inspector.connection}>{node.connection?.status ?? text.inspector.none}</Row>
        <Row name={text.inspector.last}><Ago at={node.lastActivityAt} /></Row>
        <Row name={text.inspector.waits}>{fill(text.inspector.inbox, { n: node.inboxCount ?? 0 })}</Row>
        <Row name={text.gates.title}><Gates gates={change?.gates} /></Row>
      </dl>
      {change?.gates?.some((it) => !it.passed) && <ul className="rounded-md bg-bad-soft p-2 text-sm text-bad">{change.gates.flatMap((it) => it.findings ?? []).map((it, at) => <li key={at} className="said">{plain(it)}</li>)}</ul>}
      {live && (
        <div className="flex flex-wrap gap-2">
          {node.status === "running" && <Act className="small" onClick={() => api.node(run.slug, node.id, "interrupt")}>{text.inspector.interruptTurn}</Act>}
          {node.status === "blocked" ? <Act className="small" onClick={() => api.node(run.slug, node.id, "start")}>{text.inspector.start}</Act> : <Act className="small" onClick={() => api.node(run.slug, node.id, "stop")}>{text.inspector.stop}</Act>}
          <Act className="small" onClick={() => api.node(run.slug, node.id, "reset")}>{text.inspector.reset}</Act>
          <Act className="small danger" confirm={text.confirm.removeNode} onClick={async () => { await api.removeNode(run.slug, node.id); close(); }}>{text.inspector.remove}</Act>
        </div>
      )}
      {live && others.length > 0 && (
        <div className="flex items-end gap-2">
          <label className="flex grow flex-col gap-1"><span className="label">{text.graph.connect}</span>
            <select className="field" value={to} onChange={(e) => setTo(e.target.value)}><option value="">…</option>{others.map((it) => <option key={it.id} value={it.id}>{plain(it.label)}</option>)}</select>
          </label>
          <Act className="small" disabled={!to} onClick={() => api.setEdge(run.slug, { from: node.id, to })}>{text.graph.connect.replace("…", "")}</Act>
        </div>
      )}
    </div>
  );
}

function Chat({ run, node, told, draft, live }: { run: Run; node: Node; told: readonly StreamEvent[]; draft: string | undefined; live: boolean }) {
  const [content, setContent] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const end = useRef<HTMLDivElement>(null);
  const said = told.filter((event) => (event.type === "message.user" && event.message.nodeId === node.id) || ("nodeId" in event && event.nodeId === node.id && (event.type === "message.assistant.final" || event.type === "tool.started" || event.type === "tool.proposed" || event.type === "tool.completed" || event.type === "gate.failed"))).slice(-300);
  useEffect(() => { end.current?.scrollIntoView({ block: "nearest" }); }, [said.length, draft]);
  const send = (interrupt: boolean) => {
    setProblem(null);
    api.chat(run.slug, { nodeId: node.id, content, interrupt }).then(() => setContent(""), setProblem);
  };
  return (
    <div className="flex flex-col gap-3">
      {said.length === 0 && !draft && <p className="text-sm text-dim">{text.empty.chat}</p>}
      <ol className="flex flex-col gap-2" aria-live="polite" data-testid="chat">
        {said.map((event) => <li key={event.id}><Line event={event} /></li>)}
        {draft && <li className="rounded-md border border-dashed border-line p-2 text-sm"><Said>{draft}</Said></li>}
      </ol>
      {live && (
        <form className="sticky bottom-0 flex flex-col gap-2 bg-panel pt-1" onSubmit={(e) => { e.preventDefault(); send(false); }}>
          <textarea className="field" rows={3} aria-label={text.inspector.say} placeholder={text.inspector.say} value={content} onChange={(e) => setContent(e.target.value)} onKeyDown={(e) => { if (e.key === "Enter" && !e.shiftKey) { e.preventDefault(); if (content.trim()) send(e.ctrlKey); } }} />
          {problem !== null && <Problem why={problem} />}
          <div className="flex gap-2">
            <button type="submit" className="button primary small" disabled={!content.trim()}>{text.inspector.queue}</button>
            <button type="button" className="button small" disabled={!content.trim()} onClick={() => send(true)}>{text.inspector.interrupt}</button>
          </div>
        </form>
      )}
      <div ref={end} />
    </div>
  );
}

function Line({ event }: { event: StreamEvent }) {
  switch (event.type) {
    case "message.user":
      return <div className="ml-6 rounded-md bg-accent-soft p-2 text-sm"><p className="text-xs text-dim">{event.message.role}</p><Said>{event.message.content}</Said></div>;
    case "message.assistant.final":
      return <div className="mr-6 rounded-md bg-sunk p-2 text-sm">{event.status && <State state="failed" word={event.status} />}<Said>{event.content}</Said></div>;
    case "tool.proposed":
    case "tool.started":
      return <details className="text-xs text-dim"><summary className="clip cursor-pointer">{plain(event.tool.name)}</summary><Said mono>{JSON.stringify(event.tool.args, null, 1)}</Said></details>;
    case "tool.completed":
      return event.result.ok ? null : <p className="said text-xs text-bad">✕ {plain(event.error?.message ?? "failed")}</p>;
    case "gate.failed":
      return <div className="rounded-md bg-bad-soft p-2 text-sm text-bad"><strong>{event.gate}</strong>{event.findings.map((it, at) => <p key={at} className="said">{plain(it)}</p>)}</div>;
    default:
      return null;
  }
}

function Handoffs({ run, node, told }: { run: Run; node: Node; told: readonly StreamEvent[] }) {
  const sent = told.flatMap((event) => (event.type === "handoff.sent" && (event.envelope.fromNodeId === node.id || event.envelope.toNodeId === node.id) ? [event.envelope] : [])).slice(-200);
  const name = (id: string) => plain(run.nodes[id]?.label ?? "removed");
  if (sent.length === 0) return <p className="text-sm text-dim">{text.empty.handoffs}</p>;
  return (
    <ol className="flex flex-col gap-2">
      {sent.map((it) => (
        <li key={it.id} className="rounded-md border border-line p-2 text-sm">
          <p className="flex justify-between text-xs text-dim"><span>{name(it.fromNodeId)} → {name(it.toNodeId)}</span><Ago at={it.createdAt} /></p>
          <Said>{it.payload.message}</Said>
          {it.payload.status && !it.payload.status.ok && <p className="said text-xs text-bad">✕ {plain(it.payload.status.reason ?? "")}</p>}
        </li>
      ))}
    </ol>
  );
}

/** Files of a run: each opens in place, and can be downloaded. */
function Files({ run, artifacts, diff }: { run: Run; artifacts: Artifact[]; diff?: boolean }) {
  const [chosen, setOpen] = useState<string | null | undefined>(undefined);
  // Of diffs the newest is open until somebody chooses.
  const open = chosen === undefined ? (diff ? artifacts[0]?.id : null) : chosen;
  if (artifacts.length === 0) return <Empty title={text.empty.artifacts} />;
  return (
    <ul className="flex flex-col gap-1">
      {artifacts.slice(0, 300).map((it) => (
        <li key={it.id} className="rounded-md border border-line" data-artifact={it.kind}>
          <div className="flex items-center gap-2 px-2 py-1">
            <button className="clip grow text-left text-sm" aria-expanded={open === it.id} onClick={() => setOpen(open === it.id ? null : it.id)}><span aria-hidden>{open === it.id ? "▾" : "▸"}</span> {plain(it.name)} <span className="text-xs text-dim">{it.step ? `turn ${it.step}` : ""}{it.change ? ` change ${it.change}` : ""} {plain(it.metadata?.summary ?? "")}</span></button>
            <a className="link text-xs" href={api.artifactHref(run.slug, it.id)} download>{text.inspector.download}</a>
          </div>
          {open === it.id && <Content run={run} artifact={it} />}
        </li>
      ))}
    </ul>
  );
}

function Content({ run, artifact }: { run: Run; artifact: Artifact }) {
  const { data, error } = useQuery({ queryKey: ["artifact", artifact.id], queryFn: () => api.artifact(run.slug, artifact.id), staleTime: Infinity });
  if (error) return <div className="p-2"><Problem why={error} /></div>;
  if (!data) return <p className="p-2 text-xs text-dim" aria-busy="true">…</p>;
  return (
    <div className="border-t border-line p-2">
      <p className="mono said mb-1 text-dim">{text.inspector.path}: {plain(artifact.path)}</p>
      {data.encoding === "base64" ? <p className="text-xs text-dim">{text.inspector.noText}</p> : artifact.kind === "diff" ? <Diff patch={data.content} /> : <Said mono className="max-h-96 overflow-auto">{data.content || "(empty)"}</Said>}
      {data.truncated && <p className="text-xs text-warn">{text.inspector.cut}</p>}
    </div>
  );
}

function Permissions({ node }: { node: Node }) {
  return (
    <div className="flex flex-col gap-3 text-sm">
      <p className="text-dim">{text.inspector.fixed}</p>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
        <Row name={text.inspector.capabilities}>{Object.entries(node.capabilities).filter(([, may]) => may).map(([name]) => text.inspector[name as "writeCode"]).join(", ")}</Row>
        <Row name={text.inspector.permissions}>{text.inspector[node.permissions.cliPermissionsMode]}</Row>
      </dl>
    </div>
  );
}

function EdgeInspector({ run, edge, close, live }: { run: Run; edge: Edge; close: () => void; live: boolean }) {
  const [form, setForm] = useState({ label: edge.label, type: edge.type, bidirectional: edge.bidirectional });
  const name = (id: string) => plain(run.nodes[id]?.label ?? "removed");
  return (
    <div className="flex flex-col gap-3 p-3">
      <div className="flex items-center gap-2"><h2 className="grow text-base font-semibold">{name(edge.from)} → {name(edge.to)}</h2><button className="button small" onClick={close} aria-label={text.inspector.close}>✕</button></div>
      <label className="flex flex-col gap-1"><span className="label">{text.edge.type}</span><select className="field" disabled={!live} value={form.type} onChange={(e) => setForm({ ...form, type: e.target.value as Edge["type"] })}><option value="handoff">{text.edge.handoff}</option><option value="report">{text.edge.report}</option></select></label>
      <label className="flex flex-col gap-1"><span className="label">{text.edge.label}</span><input className="field" disabled={!live} value={form.label} onChange={(e) => setForm({ ...form, label: e.target.value })} /></label>
      <label className="flex items-center gap-2 text-sm"><input type="checkbox" disabled={!live} checked={form.bidirectional} onChange={(e) => setForm({ ...form, bidirectional: e.target.checked })} />{text.edge.both}</label>
      {live && <div className="flex gap-2">
        <Act className="primary small" onClick={() => api.setEdge(run.slug, { id: edge.id, from: edge.from, to: edge.to, ...form })}>{text.edge.save}</Act>
        <Act className="danger small" onClick={async () => { await api.removeEdge(run.slug, edge.id); close(); }}>{text.edge.remove}</Act>
      </div>}
    </div>
  );
}
