// A new agent of a graph: its name, what it is for, whose program it is.
import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Run } from "../api/client";
import { Problem } from "../parts/small";
import { text } from "../text";

export const PROVIDERS = ["claude", "codex", "gemini", "custom"] as const;

export function AddAgent({ run, close }: { run: Run; close: () => void }) {
  const [form, setForm] = useState({ label: "", roleTemplate: Object.keys(run.nodes).length ? "implementer" : "orchestrator", provider: "custom", agent: "", scope: "" });
  const [problem, setProblem] = useState<unknown>(null);
  const { data: templates } = useQuery({ queryKey: ["templates"], queryFn: api.templates });
  const add = async () => {
    const node: Record<string, unknown> = { label: form.label.trim(), roleTemplate: form.roleTemplate, provider: form.provider };
    if (form.provider === "custom" && form.agent.trim()) node.agent = form.agent.trim();
    const scope = form.scope.split(/\s+/).filter(Boolean);
    if (scope.length) node.scope = scope;
    try {
      await api.addNode(run.slug, node);
      close();
    } catch (why) {
      setProblem(why);
    }
  };
  const set = (name: keyof typeof form) => (e: { target: { value: string } }) => setForm({ ...form, [name]: e.target.value });
  return (
    <Dialog.Root open onOpenChange={(open) => !open && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-black/50" />
        <Dialog.Popup className="card fixed top-24 left-1/2 z-50 w-[min(26rem,calc(100vw-2rem))] -translate-x-1/2 p-4">
          <Dialog.Title className="mb-3 text-base font-semibold">{text.graph.add}</Dialog.Title>
          <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); void add(); }}>
            <label className="flex flex-col gap-1"><span className="label">{text.inspector.label}</span><input className="field" required autoFocus maxLength={200} name="label" value={form.label} onChange={set("label")} /></label>
            <label className="flex flex-col gap-1"><span className="label">{text.inspector.role}</span>
              <input className="field" list="roles" name="role" required value={form.roleTemplate} onChange={set("roleTemplate")} />
              <datalist id="roles">{templates?.map((it) => <option key={it.name} value={it.name} />)}</datalist>
            </label>
            <label className="flex flex-col gap-1"><span className="label">{text.inspector.provider}</span><select className="field" value={form.provider} onChange={set("provider")}>{PROVIDERS.map((it) => <option key={it}>{it}</option>)}</select></label>
            {form.provider === "custom" && <label className="flex flex-col gap-1"><span className="label">{text.inspector.agent}</span><input className="field" name="agent" placeholder="custom" value={form.agent} onChange={set("agent")} /></label>}
            <label className="flex flex-col gap-1"><span className="label">{text.start.allow}</span><input className="field mono" placeholder="src docs" value={form.scope} onChange={set("scope")} /></label>
            {problem !== null && <Problem why={problem} />}
            <div className="flex gap-2"><button type="submit" className="button primary">{text.graph.add}</button><Dialog.Close className="button">{text.confirm.no}</Dialog.Close></div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
