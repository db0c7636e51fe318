// The editor, loaded after the page is there: it is the largest part of the console.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { withPart } from "../ui/part";
import type { EditorProps } from "./Editor";

let loaded: ComponentType<EditorProps> | null = null;

export function Editor(props: EditorProps & { lines?: number }) {
  const [Loaded, setLoaded] = useState<ComponentType<EditorProps> | null>(() => loaded);
  useEffect(() => {
    if (Loaded) return;
    withPart(import("./Editor"), (module) => {
      loaded = module.default;
      setLoaded(() => module.default);
    });
  }, []);
  // The frame has its height from the start, so that nothing jumps when the editor comes.
  return <div class={`editor-frame lines-${props.lines ?? 6}`}>{Loaded ? <Loaded {...props} /> : <div class="editor-waiting">{props.text}</div>}</div>;
}

export function Diff(props: { before: string; after: string; label: string }) {
  const [Loaded, setLoaded] = useState<ComponentType<typeof props> | null>(null);
  useEffect(() => withPart(import("./Diff"), (module) => setLoaded(() => module.default)), []);
  return Loaded ? <Loaded {...props} /> : <div class="diff" />;
}
