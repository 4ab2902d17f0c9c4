// A client of the API of seed 003, written from a description of how an existing one behaves, and as careless as that
// one: it parses the body of every 2xx, touches fields without looking whether they are there, keeps no cursor, drops
// no event that it has seen before, sends no frame, and takes no notice of which run an event is of. A server that
// this page works with works with that client.
//
// `page` is for whoever drives it: every frame that came with the socket it came by, every error, every event type that
// was passed over.
"use strict";

const page = { frames: [], errors: [], ignored: [], sockets: [], requests: [] };
window.addEventListener("error", (event) => page.errors.push(String(event.message)));
window.addEventListener("unhandledrejection", (event) => page.errors.push(String(event.reason)));

const state = {
  runs: [],
  run: null,
  messages: [],
  tools: [],
  approvals: [],
  handoffs: [],
  stalled: null,
};

const HANDOFFS_KEPT = 50;
const RECONNECT_SECONDS = [1, 2, 4, 8, 16];

// ---- requests

async function request(method, path, body) {
  page.requests.push(`${method} ${path}`);
  const options = { method };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const response = await fetch(`/api${path}`, options);
  if (!response.ok) {
    throw new Error(`${response.status}: ${await response.text()}`);
  }
  return await response.json();
}

// What a button does; an error is shown as it came.
function wish(action) {
  return async (event) => {
    event?.preventDefault?.();
    try {
      await action(event);
    } catch (error) {
      show("error", error.message);
    }
    render();
  };
}

const runPath = () => `/runs/${state.run.id}`;

async function refresh() {
  state.runs = (await request("GET", "/runs")).runs;
}

async function createRun(body) {
  const { run } = await request("POST", "/runs", body);
  state.runs.push(run);
  await openRun(run.id);
}

async function openRun(id) {
  const { run } = await request("GET", `/runs/${id}`);
  Object.assign(state, { run, messages: [], tools: [], approvals: [], handoffs: [], stalled: null });
  // The socket of the run before is closed, and comes back: it reconnects whenever it is closed.
  page.sockets.filter((socket) => socket.readyState === WebSocket.OPEN).forEach((socket) => socket.close());
  connect(id, 0);
}

async function patchRun(patch) {
  state.run = (await request("PATCH", runPath(), { patch })).run;
}

async function deleteRun(id) {
  const { runId } = await request("DELETE", `/runs/${id}`);
  state.runs = state.runs.filter((run) => run.id !== runId);
}

async function addNode(label, roleTemplate, provider) {
  const node = {
    label,
    roleTemplate,
    provider,
    capabilities: { spawnNodes: false, writeCode: true, writeDocs: true, runCommands: true, delegateOnly: false },
    permissions: { cliPermissionsMode: "skip", spawnRequiresApproval: true },
    session: { resume: true, resetCommands: ["/new", "/clear"] },
  };
  const answer = await request("POST", `${runPath()}/nodes`, { node });
  state.run.nodes[answer.node.id] = answer.node;
}

// What is answered is not looked at: the view changes by the event alone.
const patchNode = (id, patch) => request("PATCH", `${runPath()}/nodes/${id}`, { patch });
const resetNode = (id) => request("POST", `${runPath()}/nodes/${id}/reset`);

async function deleteNode(id) {
  const { nodeId } = await request("DELETE", `${runPath()}/nodes/${id}`);
  removeNode(nodeId);
}

async function addEdge(from, to) {
  const edge = { id: uuid(), from, to, bidirectional: true, type: "handoff", label: "" };
  const answer = await request("POST", `${runPath()}/edges`, { edge });
  state.run.edges[answer.edge.id] = answer.edge;
}

async function deleteEdge(id) {
  const { edgeId } = await request("DELETE", `${runPath()}/edges/${id}`);
  delete state.run.edges[edgeId];
}

async function chat(nodeId, content, interrupt) {
  const message = { id: `local-${uuid()}`, nodeId, role: "user", content, createdAt: new Date().toISOString() };
  state.messages.push(message);
  render();
  const { messageId } = await request("POST", `${runPath()}/chat`, { nodeId, content, interrupt });
  message.sent = messageId;
}

async function resolve(approvalId, status) {
  const answer = await request("POST", `/approvals/${approvalId}/resolve`, { resolution: { status } });
  state.approvals = state.approvals.filter((card) => card.approvalId !== answer.approvalId);
}

async function view(artifactId) {
  const { artifact, content } = await request("GET", `${runPath()}/artifacts/${artifactId}`);
  show("viewer", `${artifact.name}\n${content.slice(0, 100000)}`);
}

function removeNode(id) {
  delete state.run.nodes[id];
  for (const edge of Object.values(state.run.edges)) {
    if (edge.from === id || edge.to === id) delete state.run.edges[edge.id];
  }
}

function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

// ---- the stream

function connect(runId, tries) {
  const socket = new WebSocket(`ws://${location.host}/ws?runId=${runId}`);
  const by = page.sockets.push(socket) - 1;
  socket.onopen = () => { tries = 0; };
  socket.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    page.frames.push({ by, event });
    apply(event);
    render();
  };
  socket.onclose = () => {
    const seconds = RECONNECT_SECONDS[tries];
    if (seconds !== undefined) setTimeout(() => connect(runId, tries + 1), seconds * 1000);
  };
}

function openAnswer(nodeId) {
  return state.messages.find((message) => message.nodeId === nodeId && message.open);
}

const handlers = {
  "run.patch": ({ patch }) => {
    const { nodes, edges, artifacts, ...rest } = patch;
    Object.assign(state.run, rest);
    for (const [id, node] of Object.entries(nodes ?? {})) state.run.nodes[id] = { ...state.run.nodes[id], ...node };
    for (const [id, edge] of Object.entries(edges ?? {})) state.run.edges[id] = { ...state.run.edges[id], ...edge };
    Object.assign(state.run.artifacts, artifacts ?? {});
  },
  "run.mode": ({ mode, globalMode }) => {
    if (mode) state.run.mode = mode;
    if (globalMode) state.run.globalMode = globalMode;
  },
  "run.stalled": ({ evidence }) => {
    state.run.status = "paused";
    state.stalled = evidence.summaries.join("; ");
  },
  // One that is not known is dropped without a word.
  "node.patch": ({ nodeId, patch }) => {
    if (state.run.nodes[nodeId]) Object.assign(state.run.nodes[nodeId], patch);
  },
  "node.progress": ({ nodeId, status, summary }) => {
    if (state.run.nodes[nodeId]) Object.assign(state.run.nodes[nodeId], { status, summary });
  },
  "node.deleted": ({ nodeId }) => removeNode(nodeId),
  "edge.created": ({ edge }) => { state.run.edges[edge.id] = edge; },
  "edge.deleted": ({ edgeId }) => { delete state.run.edges[edgeId]; },
  "handoff.sent": ({ envelope }) => {
    state.handoffs = [...state.handoffs, envelope].slice(-HANDOFFS_KEPT);
  },
  "message.user": ({ message }) => {
    const near = (other) => Math.abs(new Date(other.createdAt) - new Date(message.createdAt)) < 5000;
    const isEcho = (other) =>
      other.id.startsWith("local-") && other.role === message.role && other.content === message.content && near(other);
    const echo = state.messages.findIndex(isEcho);
    if (echo >= 0) state.messages[echo] = message;
    else state.messages.push(message);
  },
  "message.assistant.delta": ({ nodeId, delta }) => {
    const open = openAnswer(nodeId);
    if (open) open.content += delta;
    else state.messages.push({ id: uuid(), nodeId, role: "assistant", content: delta, open: true });
  },
  "message.assistant.final": ({ nodeId, content }) => {
    const open = openAnswer(nodeId);
    if (open) Object.assign(open, { content, open: false });
    else state.messages.push({ id: uuid(), nodeId, role: "assistant", content, open: false });
  },
  "tool.proposed": ({ nodeId, tool }) => state.tools.push({ nodeId, tool, is: "proposed" }),
  "tool.started": ({ nodeId, tool }) => state.tools.push({ nodeId, tool, is: "started" }),
  "tool.completed": ({ toolId, result, error }) => {
    const is = result.ok ? "ok" : `failed ${error?.message ?? ""}`;
    state.tools.filter((row) => row.tool.id === toolId).forEach((row) => { row.is = is; });
  },
  "approval.requested": ({ approvalId, nodeId, tool, context }) => {
    state.approvals.push({ approvalId, nodeId, tool, context });
  },
  "approval.resolved": ({ approvalId }) => {
    state.approvals = state.approvals.filter((card) => card.approvalId !== approvalId);
  },
  "artifact.created": ({ artifact }) => { state.run.artifacts[artifact.id] = artifact; },
};

function apply(event) {
  const handler = handlers[event.type];
  if (handler) handler(event);
  else page.ignored.push(event.type);
}

// ---- what is shown

function show(id, text) {
  document.getElementById(id).textContent = text;
}

function element(kind, attributes, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function button(label, action) {
  return element("button", { class: label.split(" ")[0], onclick: wish(action) }, label);
}

// A date that is none is an error here, where the client shows `Invalid Date`.
function when(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) throw new Error(`Invalid Date: ${text}`);
  return date.toISOString();
}

const shown = {};

// Makes a section anew only when what it shows has changed, so that nothing is taken away below the pointer.
function section(id, data, children) {
  const text = JSON.stringify(data);
  if (shown[id] === text) return;
  shown[id] = text;
  document.getElementById(id).replaceChildren(...children(data));
}

function nodeBox(node) {
  const switches = Object.keys(node.capabilities).map((name) => {
    const flip = () => patchNode(node.id, { capabilities: { ...node.capabilities, [name]: !node.capabilities[name] } });
    return element("li", {}, button(`${name} ${node.capabilities[name]}`, flip));
  });
  const { cliPermissionsMode, spawnRequiresApproval } = node.permissions;
  const handle = element("span", { class: "handle", title: "drag to another node" });
  handle.onmousedown = () => { dragged = node.id; };
  const box = element("div", { class: "node", "data-node": node.id },
    handle,
    element("b", {}, node.label),
    element("p", { class: "role" }, `${node.roleTemplate} ${node.provider.toUpperCase()}`),
    element("p", { class: "status" }, node.status.toUpperCase()),
    element("p", { class: "summary" }, node.summary.trim()),
    element("p", { class: "active" }, when(node.lastActivityAt)),
    element("p", { class: "permissions" }, `${cliPermissionsMode.trim()} ${spawnRequiresApproval.toString()}`),
    element("p", { class: "session" }, `${node.session.sessionId.slice(0, 8)} ${node.session.resetCommands.join(" ")}`),
    element("ul", {}, ...switches),
    button("stop", () => patchNode(node.id, { status: "blocked", summary: "stopped" })),
    button("reset", () => resetNode(node.id)),
    button("delete", () => deleteNode(node.id)));
  box.onmouseup = wish(async () => {
    const from = dragged;
    dragged = null;
    if (from && from !== node.id) await addEdge(from, node.id);
  });
  return box;
}

let dragged = null;
document.addEventListener("mouseup", () => { dragged = null; });

function edgeRow(edge) {
  const arrow = edge.bidirectional === false ? "→" : "↔";
  return element("p", { class: "edge", "data-edge": edge.id },
    `${edge.from.slice(0, 6)} ${arrow} ${edge.to.slice(0, 6)} ${edge.type} ${edge.label ?? ""} `,
    button("delete", () => deleteEdge(edge.id)));
}

function card(asked) {
  return element("div", { class: "card", "data-approval": asked.approvalId },
    element("p", {}, `${asked.tool.name} ${JSON.stringify(asked.tool.args)}`),
    button("approve", () => resolve(asked.approvalId, "approved")),
    button("deny", () => resolve(asked.approvalId, "denied")));
}

function artifactRow(artifact) {
  const about = [artifact.metadata?.summary ?? "", ...(artifact.metadata?.filesChanged ?? [])].join(" ");
  const { kind, name, nodeId, path, createdAt } = artifact;
  return element("p", { class: `artifact ${kind}`, "data-artifact": artifact.id },
    `${kind.toUpperCase()} ${name.trim()} ${nodeId.slice(0, 6)} ${path.trim()} ${when(createdAt)} ${about} `,
    button("view", () => view(artifact.id)));
}

function render() {
  const runs = [...state.runs].sort((one, other) => other.updatedAt.localeCompare(one.updatedAt));
  section("runs", runs, () => runs.map((run) =>
    element("li", { "data-run": run.id },
      button(`open ${run.id.slice(0, 6)} ${Object.keys(run.nodes).length}/${Object.keys(run.edges).length}`, () => openRun(run.id)),
      button("delete", () => deleteRun(run.id)))));
  const run = state.run;
  if (!run) return;
  const { id, status, mode, globalMode, updatedAt } = run;
  section("run", { id, status, mode, globalMode, updatedAt }, () => [
    element("h1", {}, id),
    element("p", { id: "status" }, status.toUpperCase()),
    element("p", { id: "modes" }, `${mode.toLowerCase()} ${globalMode.toLowerCase()} ${when(updatedAt)}`)]);
  show("stalled", state.stalled ?? "");
  section("nodes", run.nodes, (nodes) => Object.values(nodes).map(nodeBox));
  section("edges", run.edges, (edges) => Object.values(edges).map(edgeRow));
  section("approvals", state.approvals, (cards) => cards.map(card));
  section("messages", state.messages, (messages) => messages.map((message) =>
    element("p", { class: `message ${message.role} ${message.open ? "open" : "whole"}`, "data-node": message.nodeId }, message.content)));
  section("tools", state.tools, (tools) => tools.map(({ tool, is }) =>
    element("p", { class: "tool", "data-tool": tool.id }, `${tool.name} ${Object.keys(tool.args).join(",")} ${is}`)));
  section("handoffs", state.handoffs, (handoffs) => handoffs.map((envelope) =>
    element("p", { class: "handoff", "data-handoff": envelope.id },
      `${envelope.fromNodeId.slice(0, 6)} → ${envelope.toNodeId.slice(0, 6)} ${when(envelope.createdAt)} ${envelope.payload.message.trim()}`)));
  section("artifacts", run.artifacts, (artifacts) => Object.values(artifacts).map(artifactRow));
}

// ---- start

function onSubmit(id, action) {
  document.getElementById(id).onsubmit = wish((event) => action(Object.fromEntries(new FormData(event.target))));
}

function onClick(id, action) {
  document.getElementById(id).onclick = wish(action);
}

onClick("refresh", refresh);
onClick("pause", () => patchRun({ status: "paused" }));
onClick("resume", () => patchRun({ status: "running" }));
onClick("auto", () => patchRun({ mode: "AUTO" }));
onClick("interactive", () => patchRun({ mode: "INTERACTIVE" }));
onClick("planning", () => patchRun({ globalMode: "PLANNING" }));
onClick("implementation", () => patchRun({ globalMode: "IMPLEMENTATION" }));
onSubmit("start", ({ body }) => createRun(JSON.parse(body)));
onSubmit("node", ({ label, roleTemplate, provider }) => addNode(label, roleTemplate, provider));
onSubmit("chat", ({ nodeId, content, interrupt }) => chat(nodeId, content, interrupt === "on"));

wish(async () => {
  // A list that is empty, or cannot be had, makes this client start a run.
  try {
    await refresh();
  } catch (error) {
    show("error", error.message);
  }
  const newest = [...state.runs].sort((one, other) => other.updatedAt.localeCompare(one.updatedAt))[0];
  if (newest) await openRun(newest.id);
  else await createRun({});
})().then(() => { page.isStarted = true; });
