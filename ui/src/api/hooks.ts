// What pages ask the server for, and how often. Lists are asked for again while the page is looked at; a run is followed
// by its own stream (live.ts).
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { api } from "./client";

export const useRuns = () => useQuery({ queryKey: ["runs"], queryFn: () => api.runs(), refetchInterval: 2000 });
export const useApprovals = () => useQuery({ queryKey: ["approvals"], queryFn: api.approvals, refetchInterval: 2000 });
export const useView = (id: string, updated: string | undefined) =>
  useQuery({ queryKey: ["view", id, updated], queryFn: () => api.view(id), staleTime: Infinity, placeholderData: (before) => before, enabled: updated !== undefined });
export const useChanges = (id: string, updated: string | undefined, enabled = true) =>
  useQuery({ queryKey: ["changes", id, updated], queryFn: () => api.changes(id), staleTime: Infinity, placeholderData: (before) => before, enabled: enabled && updated !== undefined });
export const useBrief = (id: string, updated: string, enabled: boolean) =>
  useQuery({ queryKey: ["brief", id, updated], queryFn: () => api.brief(id), staleTime: Infinity, placeholderData: (before) => before, enabled });

export const useTurns = (id: string, updated: string) =>
  useQuery({ queryKey: ["turns", id, updated], queryFn: () => api.turns(id), staleTime: Infinity, placeholderData: (before) => before });

/** Landing and undoing are records of the state directory, not of the run's log, so nothing tells that they happened. */
export function useLanding(id: string) {
  const queries = useQueryClient();
  return (verb: "land" | "undo") => () => api.act(id, verb).finally(() => queries.invalidateQueries({ queryKey: ["view", id] }));
}
