// The keys that work, as a list.
import { Dialog } from "@base-ui/react/dialog";
import { text } from "../text";

export default function Keys({ close }: { close: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(open) => !open && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-black/50" />
        <Dialog.Popup className="card fixed top-24 left-1/2 z-50 w-[min(28rem,calc(100vw-2rem))] -translate-x-1/2 p-4">
          <Dialog.Title className="mb-3 text-base font-semibold">{text.nav.keys}</Dialog.Title>
          <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5 text-sm">
            {text.keys.map(([key, does]) => (
              <div key={key} className="contents">
                <dt><kbd className="mono rounded border border-line bg-sunk px-1.5">{key}</kbd></dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
          <p className="mt-4 text-xs text-dim"><a className="link" href="/a/NOTICES.txt">{text.nav.notices}</a></p>
          <Dialog.Close className="button mt-2">{text.inspector.close}</Dialog.Close>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
