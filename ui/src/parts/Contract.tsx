// A contract before it is started, in six lines, with what it needs approval for.
import type { ReactNode } from "react";
import type { Preview } from "../api/client";
import { plain } from "../api/words";
import { fill, text } from "../text";

export function Contract({ preview }: { preview: Preview }) {
  return (
    <>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5 text-sm" data-testid="preview">
        <Line name={text.start.agent}>{plain(preview.agent.name)}{preview.agent.model ? ` · ${plain(preview.agent.model)}` : ""} <span className="text-dim">({plain(preview.agent.reach)})</span></Line>
        <Line name={text.start.allow}><span className="mono">{plain(preview.may_write)}</span></Line>
        <Line name={text.start.test}><span className="mono said">{plain(preview.tests.join("\n")) || "none"}</span></Line>
        <Line name={text.start.network}>{preview.network}</Line>
        <Line name={text.start.time}>{preview.time}</Line>
        <Line name={text.start.money}>{preview.money}</Line>
      </dl>
      <p className="mt-3 text-xs text-dim">
        {text.start.base} <span className="mono">{plain(preview.base.branch?.replace("refs/heads/", "") ?? "")} {preview.base.commit.slice(0, 10)}</span>. {preview.base.uncommitted > 0 && fill(text.start.uncommitted, { n: preview.base.uncommitted })} {text.start.nothing}
      </p>
      {preview.notes.map((note) => <p key={note} className="mt-1 text-sm text-dim said">{plain(note)}</p>)}
      {preview.needs_approval.length > 0 && (
        <div className="mt-3 rounded-md bg-warn-soft p-2 text-sm text-warn"><strong>{text.start.needs}</strong><ul className="list-disc pl-5">{preview.needs_approval.map((why) => <li key={why} className="said">{plain(why)}</li>)}</ul></div>
      )}
    </>
  );
}

function Line({ name, children }: { name: string; children: ReactNode }) {
  return <><dt className="text-dim">{name}</dt><dd className="min-w-0 said">{children}</dd></>;
}
