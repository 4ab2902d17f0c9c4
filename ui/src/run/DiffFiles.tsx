// The files of a patch, split or unified, with tokens coloured where the language is known and widgets where somebody
// has something to say about a line. Tokens are made as data, never as markup.
import "react-diff-view/style/index.css";
import { memo, useEffect, useMemo, useState, type ReactNode } from "react";
import { Decoration, Diff as View, Hunk, expandFromRawCode, getChangeKey, getCollapsedLinesCountBetween, parseDiff, type ChangeData, type FileData, type HunkData, type HunkTokens, type TokenNode } from "react-diff-view";
import { plain } from "../api/words";
import { fill, text } from "../text";
import type { Colour, ColourToken } from "./colours";

/** Files with more changed lines than this are folded, and coloured only where there is no end of them. */
const FOLDED_LINES = 600;

export type Widgets = (file: string) => Record<string, ReactNode>;
export type Picked = { file: string; key: string; line: number; side: "old" | "new" };
export { getChangeKey };

export const nameOf = (file: FileData) => (file.type === "delete" ? file.oldPath : file.newPath);

export function parse(patch: string): FileData[] {
  try {
    return parseDiff(patch);
  } catch {
    return [];
  }
}

export function counts(file: FileData): { added: number; removed: number } {
  const all = file.hunks.flatMap((hunk) => hunk.changes);
  return { added: all.filter((it) => it.type === "insert").length, removed: all.filter((it) => it.type === "delete").length };
}

/** Lines that are shown at a time around those that changed. */
const MORE_LINES = 20;
/** How a file was before the change. */
export type Before = (path: string) => Promise<string>;

export function DiffFiles({ patch, split, widgets, pick, header, before }: { patch: string; split: boolean; widgets?: Widgets; pick?: (at: Picked) => void; header?: (file: FileData) => ReactNode; before?: Before }) {
  const files = useMemo(() => parse(patch), [patch]);
  if (files.length === 0) return <p className="p-2 text-sm text-dim">{text.review.none}</p>;
  return <div className="flex flex-col gap-4">{files.map((file) => <OneFile key={nameOf(file)} file={file} split={split} widgets={widgets?.(nameOf(file))} pick={pick} header={header} before={before} />)}</div>;
}

const lineOf = (change: ChangeData) => (change.type === "normal" ? change.newLineNumber : change.lineNumber);
const sideOf = (change: ChangeData) => (change.type === "delete" ? "old" : "new");
/** The side and line by which a comment names a line. */
export const placeOf = (change: ChangeData) => `${sideOf(change)} ${lineOf(change)}`;

const OneFile = memo(function OneFile({ file: changed, split, widgets, pick, header, before }: { file: FileData; split: boolean; widgets: Record<string, ReactNode> | undefined; pick: ((at: Picked) => void) | undefined; header: ((file: FileData) => ReactNode) | undefined; before: Before | undefined }) {
  const name = nameOf(changed);
  const { hunks, source, expand, problem } = useMore(changed, before);
  const file = useMemo(() => ({ ...changed, hunks }), [changed, hunks]);
  const { added, removed } = counts(file);
  const [open, setOpen] = useState(added + removed <= FOLDED_LINES);
  const tokens = useTokens(file, open && added + removed <= FOLDED_LINES);
  return (
    <section className="card overflow-hidden" id={`file-${name}`} data-file={name} aria-label={name}>
      <div className="flex items-center gap-2 border-b border-line bg-sunk px-2 py-1.5">
        <button aria-expanded={open} className="mono clip grow text-left font-medium" onClick={() => setOpen(!open)}><span aria-hidden>{open ? "▾" : "▸"}</span> {plain(name)}</button>
        <span className="mono text-good">+{added}</span><span className="mono text-bad">−{removed}</span>
        {header?.(file)}
      </div>
      {open && (
        <div className="diff-box overflow-x-auto" tabIndex={0} role="region" aria-label={fill(text.review.of, { name })}>
          <View viewType={split ? "split" : "unified"} diffType={file.type} hunks={file.hunks} tokens={tokens} renderToken={tokens ? renderToken : undefined} widgets={widgets ?? {}} gutterEvents={pick ? { onClick: ({ change }) => change && pick({ file: name, key: getChangeKey(change), line: lineOf(change), side: sideOf(change) }) } : {}}>
            {(shown) => shown.flatMap((hunk, at) => [
              ...(expand ? [<Fold key={`before ${hunk.content}`} previous={at > 0 ? shown[at - 1]! : null} next={hunk} expand={expand} />] : []),
              <Hunk key={hunk.content} hunk={hunk} />,
              ...(expand && at === shown.length - 1 ? [<Fold key="end" previous={hunk} next={null} lines={source?.length} expand={expand} />] : []),
            ])}
          </View>
          {problem && <p className="p-2 text-xs text-bad" role="alert">{plain(problem)}</p>}
        </div>
      )}
    </section>
  );
});

type Expand = (start: number, end: number) => void;

/** The lines of a file that changed, and those around them once somebody asks for these. */
function useMore(file: FileData, before: Before | undefined) {
  const [hunks, setHunks] = useState<HunkData[]>(file.hunks);
  const [source, setSource] = useState<string[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => setHunks(file.hunks), [file]);
  const canGrow = before && file.type !== "add" && file.type !== "delete" && file.hunks.length > 0;
  const expand = canGrow ? (start: number, end: number) => {
    const read = source ? Promise.resolve(source) : before(file.oldPath).then((text) => text.split("\n"));
    read.then((lines) => {
      setSource(lines);
      setHunks((shown) => expandFromRawCode(shown, lines, start, Math.min(end, lines.length + 1)));
    }).catch((why: unknown) => setProblem(why instanceof Error ? why.message : String(why)));
  } : undefined;
  return { hunks, source, expand, problem };
}

/** What is not shown between two places, and a way to see it. */
function Fold({ previous, next, lines, expand }: { previous: HunkData | null; next: HunkData | null; lines?: number | undefined; expand: Expand }) {
  const from = previous ? previous.oldStart + previous.oldLines : 1;
  const to = next ? next.oldStart : (lines ?? Infinity);
  const hidden = next ? getCollapsedLinesCountBetween(previous, next) : to - from;
  if (hidden <= 0) return null;
  const all = hidden <= MORE_LINES;
  return (
    <Decoration>
      <div className="flex gap-2 bg-sunk px-2 py-0.5 text-xs text-dim">
        {previous && !all && <button className="underline" onClick={() => expand(from, from + MORE_LINES)}>{text.review.moreBelow}</button>}
        {next && <button className="underline" onClick={() => expand(all ? from : to - MORE_LINES, to)}>{fill(all ? text.review.moreAll : text.review.moreAbove, { n: hidden })}</button>}
        {!next && all && <button className="underline" onClick={() => expand(from, to)}>{text.review.moreRest}</button>}
      </div>
    </Decoration>
  );
}

let colours: Promise<Colour> | null = null;

/** Coloured tokens of a file, line by line, once the colours have been loaded. */
function useTokens(file: FileData, wanted: boolean): HunkTokens | undefined {
  const [tokens, setTokens] = useState<HunkTokens | undefined>();
  useEffect(() => {
    if (!wanted) return;
    let isGone = false;
    colours ??= import("./colours").then((it) => it.load());
    void colours.then((colour) => {
      if (!isGone) setTokens(tokensOf(file, colour));
    }).catch(() => {});
    return () => { isGone = true; };
  }, [file, wanted]);
  return tokens;
}

function tokensOf(file: FileData, colour: Colour): HunkTokens | undefined {
  const sides: HunkTokens = { old: [], new: [] };
  for (const hunk of file.hunks) {
    for (const side of ["old", "new"] as const) {
      const lines = hunk.changes.filter((it) => it.type === "normal" || it.type === (side === "old" ? "delete" : "insert"));
      const coloured = colour(lines.map((it) => it.content).join("\n"), nameOf(file));
      if (coloured === null) return undefined;
      lines.forEach((it, at) => {
        const number = it.type === "normal" ? (side === "old" ? it.oldLineNumber : it.newLineNumber) : it.lineNumber;
        sides[side][number - 1] = (coloured[at] ?? []) as TokenNode[];
      });
    }
  }
  return sides;
}

const renderToken = (token: TokenNode, _: unknown, at: number): ReactNode => <span key={at} style={{ color: (token as unknown as ColourToken).color }}>{plain((token as unknown as ColourToken).value)}</span>;
