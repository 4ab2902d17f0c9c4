// What pages ask the server for, and how often. Lists are asked for again while the page is looked at; a run is followed
// by its own stream (live.ts).
import { useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { api } from "./client";

/** A value that may change many times a second, so often at most. */
export function useSettled<T>(value: T, every: number): T {
  const [settled, settle] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    const timer = setTimeout(() => {
      last.current = Date.now();
      settle(() => value);
    }, Math.max(0, last.current + every - Date.now()));
    return () => clearTimeout(timer);
  }, [value, every]);
  return settled;
}

/** How often what was made of a run that changes all the time is asked for again, and how long it is kept that nobody looks at. */
const AGAIN_MS = 1000;
const KEPT_MS = 10_000;

/** What the server makes of a run: asked for again when the run has changed. */
function useMade<T>(name: string, id: string, updated: string | undefined, ask: (id: string) => Promise<T>, enabled = true): UseQueryResult<T> {
  const at = useSettled(updated, AGAIN_MS);
  return useQuery({ queryKey: [name, id, at], queryFn: () => ask(id), staleTime: Infinity, gcTime: KEPT_MS, placeholderData: (before: T | undefined) => before as never, enabled: enabled && at !== undefined });
}

export const useRuns = () => useQuery({ queryKey: ["runs"], queryFn: () => api.runs(), refetchInterval: 2000 });
export const useApprovals = () => useQuery({ queryKey: ["approvals"], queryFn: api.approvals, refetchInterval: 2000 });
export const useView = (id: string, updated: string | undefined) => useMade("view", id, updated, api.view);
export const useChanges = (id: string, updated: string | undefined, enabled = true) => useMade("changes", id, updated, api.changes, enabled);
export const useBrief = (id: string, updated: string, enabled: boolean) => useMade("brief", id, updated, api.brief, enabled);
export const useTurns = (id: string, updated: string) => useMade("turns", id, updated, api.turns);

/** A run as it was after an event. Whoever drags over a thousand events asks for the few where they pause. */
export function useRunAt(id: string, at: number | null) {
  const asked = useSettled(at, 150);
  return useQuery({ queryKey: ["at", id, asked], queryFn: ({ signal }) => api.runAt(id, asked!, signal), enabled: at !== null && asked !== null, staleTime: Infinity, gcTime: KEPT_MS, placeholderData: (before) => before });
}

/** Landing and undoing are records of the state directory, not of the run's log, so nothing tells that they happened. */
export function useLanding(id: string) {
  const queries = useQueryClient();
  return (verb: "land" | "undo") => () => api.act(id, verb).finally(() => queries.invalidateQueries({ queryKey: ["view", id] }));
}
