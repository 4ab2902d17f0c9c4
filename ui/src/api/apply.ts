// What an event makes of a run. The same rules by which the server makes its snapshots, so that a snapshot and the
// events after it are the snapshot that would be given later.
import type { Node, Run, StreamEvent } from "./client";

export function apply(run: Run, event: StreamEvent): Run {
  switch (event.type) {
    case "run.patch": {
      const { nodes, edges, ...rest } = event.patch;
      const next: Run = { ...run, ...rest } as Run;
      // Reason and message go with the state: without them there, it has none any more.
      if (rest.state !== undefined) {
        next.reason = rest.reason;
        next.message = rest.message;
      }
      if (nodes) next.nodes = { ...run.nodes, ...nodes };
      if (edges) next.edges = { ...run.edges, ...edges };
      return next;
    }
    case "run.phase":
      return { ...run, phase: event.phase };
    case "run.mode":
      return { ...run, mode: event.mode ?? run.mode, globalMode: event.globalMode ?? run.globalMode };
    case "node.patch": {
      const node = run.nodes[event.nodeId];
      if (!node) return run;
      const patched = { ...node, ...event.patch } as Node;
      return { ...run, nodes: { ...run.nodes, [node.id]: patched } };
    }
    case "node.progress": {
      const node = run.nodes[event.nodeId];
      if (!node) return run;
      return { ...run, nodes: { ...run.nodes, [node.id]: { ...node, status: event.status, summary: event.summary } } };
    }
    case "node.deleted": {
      const nodes = Object.fromEntries(Object.entries(run.nodes).filter(([id]) => id !== event.nodeId));
      const edges = Object.fromEntries(Object.entries(run.edges).filter(([, edge]) => edge.from !== event.nodeId && edge.to !== event.nodeId));
      return { ...run, nodes, edges };
    }
    case "edge.created":
      return { ...run, edges: { ...run.edges, [event.edge.id]: event.edge } };
    case "edge.deleted":
      return { ...run, edges: Object.fromEntries(Object.entries(run.edges).filter(([id]) => id !== event.edgeId)) };
    case "artifact.created":
      return { ...run, artifacts: { ...run.artifacts, [event.artifact.id]: event.artifact } };
    default:
      return run;
  }
}
