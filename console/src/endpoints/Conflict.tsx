// Somebody else has changed the same meanwhile: what differs, and the choice. Nothing that was written is lost by it.
import type { ComponentChildren } from "preact";
import { Diff } from "../editor/Lazy";
import { T } from "../text";
import { Alert } from "../ui/parts";

/** `theirs` and `mine` are texts; mine is what would be saved in the place of theirs. */
export function Conflict({ message, theirs, mine, keep, take, onKeep, onTake }: { message: string; theirs: string; mine: string; keep: string; take: string; onKeep: () => void; onTake: () => void }) {
  return (
    <section class="card conflict" aria-label={T.conflict.title}>
      <Alert kind="warning" message={message} />
      <p class="hint">{T.conflict.difference}</p>
      <Diff before={theirs} after={mine} label={T.conflict.title} />
      <div class="actions">
        <button type="button" class="primary" onClick={onKeep}>{keep}</button>
        <button type="button" onClick={onTake}>{take}</button>
        <span class="hint">{T.conflict.hint}</span>
      </div>
    </section>
  );
}

/** What was put aside, and the way back to it. */
export function Aside({ onTake, onDrop, children }: { onTake: () => void; onDrop: () => void; children?: ComponentChildren }) {
  return (
    <div class="actions">
      <span class="hint">{children ?? T.conflict.aside}</span>
      <button type="button" class="small" onClick={onTake}>{T.conflict.back}</button>
      <button type="button" class="small" onClick={onDrop}>{T.conflict.forget}</button>
    </div>
  );
}
