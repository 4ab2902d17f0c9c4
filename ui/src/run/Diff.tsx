// A patch as files with coloured lines. The heavy part is loaded when there is one to show.
import { lazy, Suspense } from "react";

const DiffFiles = lazy(() => import("./DiffFiles").then((it) => ({ default: it.DiffFiles })));

export function Diff({ patch }: { patch: string }) {
  return <Suspense fallback={<p className="text-xs text-dim" aria-busy="true">…</p>}><DiffFiles patch={patch} split={false} /></Suspense>;
}
