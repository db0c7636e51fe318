// The small parts that all pages share.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { T } from "../text";

export function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <p class="hint">{hint}</p>}
    </div>
  );
}

export function Toggle({ label, hint, value, onChange, disabled }: { label: string; hint?: string; value: boolean; onChange: (value: boolean) => void; disabled?: boolean }) {
  return (
    <label class="toggle">
      <input type="checkbox" checked={value} disabled={disabled} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>
        {label}
        {hint && <span class="hint">{hint}</span>}
      </span>
    </label>
  );
}

/** A page with its heading. `above` is the list that it belongs to, `head` stands beside the heading. */
export function Page({ title, above, head, error, children }: { title: string; above?: { title: string; href: string }; head?: ComponentChildren; error?: string | null; children: ComponentChildren }) {
  return (
    <main class="page" tabIndex={-1}>
      <div class="page-head">
        {above && <a class="crumb" href={above.href}>{above.title}</a>}
        {above && <span class="crumb" aria-hidden="true">/</span>}
        <h1>{title}</h1>
        {head}
      </div>
      {error && <Alert message={error} />}
      {children}
    </main>
  );
}

/** A page or part without content, and what to do about it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Alert({ message, kind = "error" }: { message: string; kind?: "error" | "warning" | "done" }) {
  return (
    <p class={`alert ${kind}`} role={kind === "error" ? "alert" : "status"}>
      {message}
    </p>
  );
}

export function Tabs<Name extends string>({ label, tabs, chosen, onChoose }: { label: string; tabs: { name: Name; title: string }[]; chosen: Name; onChoose: (name: Name) => void }) {
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = tabs.findIndex((tab) => tab.name === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (next) onChoose(next.name);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => list.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((tab) => (
        <button key={tab.name} type="button" role="tab" aria-selected={tab.name === chosen} tabIndex={tab.name === chosen ? 0 : -1} onClick={() => onChoose(tab.name)}>
          {tab.title}
        </button>
      ))}
    </div>
  );
}

export function CopyButton({ text, label = T.common.copy }: { text: string | (() => string); label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    await copyText(typeof text === "function" ? text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="small" onClick={() => void copy()}>
      {done ? T.common.copied : label}
    </button>
  );
}

/** Copies a text. Without a secure context (http on another host) there is no clipboard to write to but by selection. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).catch(() => selectAndCopy(text));
  selectAndCopy(text);
}

function selectAndCopy(text: string): void {
  const area = document.createElement("textarea");
  area.value = text;
  const focused = document.activeElement;
  // Behind an open dialog nothing can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  // The selection took the focus, and it would be lost with the area.
  if (focused instanceof HTMLElement) focused.focus();
}

export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <div class="snippet">
      <div class="snippet-head">
        <span>{label}</span>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0} aria-label={label}>{text}</pre>
    </div>
  );
}

/** A menu behind a button, closed by Escape, and by a click or the focus elsewhere. */
export function Menu({ title, label, children, align = "left" }: { title: ComponentChildren; label: string; align?: "left" | "right"; children: (close: () => void) => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  // With the drawing, not after it: a key that is pressed in between would close the menu, and the focus would be lost.
  useLayoutEffect(() => {
    if (!open) return;
    const outside = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", outside);
    root.current?.querySelector<HTMLElement>(".menu-body button, .menu-body input, .menu-body a")?.focus();
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const key = (event: KeyboardEvent): void => {
    if (event.key === "Escape" && open) {
      event.stopPropagation();
      setOpen(false);
      root.current?.querySelector("button")?.focus();
    } else if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const items = [...(root.current?.querySelectorAll<HTMLElement>(".menu-item") ?? [])];
      if (items.length === 0) return;
      event.preventDefault();
      const at = items.indexOf(document.activeElement as HTMLElement);
      items[(at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length]?.focus();
    }
  };
  const close = (): void => {
    // The focus would be lost with what is chosen.
    if (root.current?.contains(document.activeElement)) root.current.querySelector("button")?.focus();
    setOpen(false);
  };
  const left = (event: FocusEvent): void => {
    if (event.relatedTarget instanceof Node && !root.current?.contains(event.relatedTarget)) setOpen(false);
  };
  return (
    <div class="menu" ref={root} onKeyDown={key} onFocusOut={left}>
      <button type="button" aria-expanded={open} aria-label={label} onClick={() => setOpen(!open)}>
        {title}
        <span class="caret" aria-hidden="true" />
      </button>
      {open && <div class={`menu-body ${align}`}>{children(close)}</div>}
    </div>
  );
}

/** A dialog of the browser's own, which keeps the focus within, and gives it back. While it is busy it stays: what is told then would be lost. */
export function Dialog({ title, onClose, busy = false, children }: { title: string; onClose: () => void; busy?: boolean; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  const isThere = useRef(true);
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      isThere.current = false;
      // Closed before it is taken away: so the browser gives the focus back to where it was.
      dialog?.close();
    };
  }, []);
  return (
    <dialog ref={element} aria-labelledby={id} onClose={() => isThere.current && onClose()} onCancel={(event) => busy && event.preventDefault()} onClick={(event) => !busy && event.target === element.current && element.current?.close()}>
      <div class="dialog-body">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** A question before something is deleted. The focus is on Cancel, so that a key pressed twice deletes nothing; `name` must be typed. */
export function Confirm({ title, verb, name, busy = false, error, onConfirm, onClose, children }: { title: string; verb: string; name?: string; busy?: boolean; error?: string | null; onConfirm: () => void; onClose: () => void; children: ComponentChildren }) {
  const [typed, setTyped] = useState("");
  const cancel = useRef<HTMLButtonElement>(null);
  // After the dialog is shown, which gives the focus to the first thing in it.
  useLayoutEffect(() => cancel.current?.focus(), []);
  return (
    <Dialog title={title} onClose={onClose} busy={busy}>
      {children}
      {name !== undefined && <Field label={T.common.typeName(name)}>{(id) => <input id={id} value={typed} spellcheck={false} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />}</Field>}
      {error && <Alert message={error} />}
      <div class="actions">
        <button type="button" class="danger" disabled={busy || (name !== undefined && typed !== name)} onClick={onConfirm}>{verb}</button>
        <button type="button" ref={cancel} disabled={busy} onClick={onClose}>{T.common.cancel}</button>
      </div>
    </Dialog>
  );
}

/** Sets styles that depend on data. Attributes of style are refused by the Content-Security-Policy; properties are not. */
export function styled(style: Record<string, string>): (element: HTMLElement | null) => void {
  return (element) => {
    if (element) for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
  };
}
