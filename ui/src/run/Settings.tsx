// What an agent of a graph is and may do, changed from its next turn on.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Node, type Run } from "../api/client";
import { Act } from "../parts/small";
import { text } from "../text";
import { PROVIDERS } from "./AddAgent";

const MAY = ["writeCode", "writeDocs", "runCommands", "spawnNodes", "delegateOnly"] as const;

export function Settings({ run, node, live }: { run: Run; node: Node; live: boolean }) {
  const [form, setForm] = useState({ label: node.label, roleTemplate: node.roleTemplate, provider: node.provider, model: node.model ?? "", customSystemPrompt: node.customSystemPrompt ?? "", capabilities: node.capabilities, permissions: node.permissions });
  const { data: templates } = useQuery({ queryKey: ["templates"], queryFn: api.templates });
  const save = () => {
    const patch: Record<string, unknown> = {};
    if (form.label !== node.label) patch.label = form.label;
    if (form.roleTemplate !== node.roleTemplate) patch.roleTemplate = form.roleTemplate;
    if (form.provider !== node.provider) patch.provider = form.provider;
    if (form.model !== (node.model ?? "") && form.model) patch.model = form.model;
    if (form.customSystemPrompt !== (node.customSystemPrompt ?? "")) patch.customSystemPrompt = form.customSystemPrompt;
    if (MAY.some((it) => form.capabilities[it] !== node.capabilities[it])) patch.capabilities = form.capabilities;
    if (JSON.stringify(form.permissions) !== JSON.stringify(node.permissions)) patch.permissions = form.permissions;
    return Object.keys(patch).length ? api.patchNode(run.slug, node.id, patch) : Promise.resolve();
  };
  return (
    <form className="flex flex-col gap-3" onSubmit={(e) => e.preventDefault()}>
      <fieldset disabled={!live} className="flex flex-col gap-3">
        <label className="flex flex-col gap-1"><span className="label">{text.inspector.label}</span><input className="field" name="label" value={form.label} onChange={(e) => setForm({ ...form, label: e.target.value })} /></label>
        <label className="flex flex-col gap-1"><span className="label">{text.inspector.role}</span><input className="field" list="role-names" value={form.roleTemplate} onChange={(e) => setForm({ ...form, roleTemplate: e.target.value })} /><datalist id="role-names">{templates?.map((it) => <option key={it.name} value={it.name} />)}</datalist></label>
        <label className="flex flex-col gap-1"><span className="label">{text.inspector.provider}</span><select className="field" value={form.provider} onChange={(e) => setForm({ ...form, provider: e.target.value as Node["provider"] })}>{PROVIDERS.map((it) => <option key={it}>{it}</option>)}</select></label>
        <label className="flex flex-col gap-1"><span className="label">{text.inspector.model}</span><input className="field" value={form.model} onChange={(e) => setForm({ ...form, model: e.target.value })} /></label>
        <label className="flex flex-col gap-1"><span className="label">{text.inspector.prompt}</span><textarea className="field" rows={4} value={form.customSystemPrompt} onChange={(e) => setForm({ ...form, customSystemPrompt: e.target.value })} /></label>
        <fieldset className="flex flex-col gap-1 text-sm"><legend className="label">{text.inspector.capabilities}</legend>
          {MAY.map((it) => <label key={it} className="flex items-center gap-2"><input type="checkbox" name={it} checked={form.capabilities[it]} onChange={(e) => setForm({ ...form, capabilities: { ...form.capabilities, [it]: e.target.checked } })} />{text.inspector[it]}</label>)}
        </fieldset>
        <fieldset className="flex flex-col gap-1 text-sm"><legend className="label">{text.inspector.permissions}</legend>
          {(["gated", "skip"] as const).map((it) => <label key={it} className="flex items-center gap-2"><input type="radio" name="mode" checked={form.permissions.cliPermissionsMode === it} onChange={() => setForm({ ...form, permissions: { ...form.permissions, cliPermissionsMode: it } })} />{text.inspector[it]}</label>)}
          <label className="flex items-center gap-2"><input type="checkbox" checked={form.permissions.spawnRequiresApproval} onChange={(e) => setForm({ ...form, permissions: { ...form.permissions, spawnRequiresApproval: e.target.checked } })} />{text.inspector.spawnAsk}</label>
        </fieldset>
      </fieldset>
      <p className="text-xs text-dim">{text.inspector.held} {text.inspector.saved}</p>
      {live && <div><Act className="primary small" onClick={save}>{text.inspector.save}</Act></div>}
    </form>
  );
}
