// Find anything: runs by their words, and the pages.
import { Dialog } from "@base-ui/react/dialog";
import { Command } from "cmdk";
import { useLocation } from "wouter";
import { useRuns } from "../api/hooks";
import { titleOf } from "../api/words";
import { text } from "../text";
import { State } from "./small";

export default function Palette({ close }: { close: () => void }) {
  const [, navigate] = useLocation();
  const { data } = useRuns();
  const go = (to: string) => () => {
    close();
    navigate(to);
  };
  const item = "flex cursor-pointer items-center gap-2 rounded px-2 py-1.5 text-sm data-[selected=true]:bg-accent-soft";
  return (
    <Dialog.Root open onOpenChange={(open) => !open && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-black/50" />
        <Dialog.Popup aria-label={text.nav.search} className="card fixed top-20 left-1/2 z-50 w-[min(38rem,calc(100vw-2rem))] -translate-x-1/2 overflow-hidden">
          <Command label={text.nav.search} loop>
            <Command.Input autoFocus placeholder={text.nav.search} className="w-full border-b border-line bg-panel px-3 py-2.5 text-ink outline-none placeholder:text-dim" />
            <Command.List className="max-h-80 overflow-y-auto p-1">
              <Command.Empty className="p-3 text-dim">{text.empty.found}</Command.Empty>
              {([["/new", text.nav.new], ["/approvals", text.nav.approvals], ["/verify", text.nav.verify], ["/", text.nav.home]] as const).map(([to, label]) => (
                <Command.Item key={to} value={label} onSelect={go(to)} className={item}>{label}</Command.Item>
              ))}
              {data?.runs.map((run) => (
                <Command.Item key={run.slug} value={`${run.goal} ${run.slug}`} onSelect={go(`/run/${run.slug}`)} className={item}>
                  <State state={run.state} />
                  <span className="clip">{titleOf(run)}</span>
                </Command.Item>
              ))}
            </Command.List>
          </Command>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
