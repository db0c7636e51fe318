// The sheet of keys, behind the key ? and a button.
import { T } from "../text";
import { Dialog } from "./parts";

/** A key as the keyboard has it. */
function written(key: string): string {
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  // Completion is on Ctrl+Space there too.
  return isMac && key !== "Ctrl+Space" ? key.replace("Ctrl+Y", "⇧⌘Z").replace("Ctrl+", "⌘").replace("Alt+", "⌥") : key;
}

/** Whether a key is meant for what is written, or for an open dialog, and for no shortcut. */
export function isTaken(event: KeyboardEvent): boolean {
  const isTyped = (event.target as HTMLElement).closest("input, textarea, select, [data-editor]") !== null;
  return isTyped || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null;
}

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={T.keys.title} onClose={onClose}>
      <div class="keys">
        {T.keys.groups.map(({ title, keys }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {Object.entries(keys).map(([combination, what]) => (
                <div key={combination}>
                  <dt>{combination.split(" ").map((key) => <kbd key={key}>{written(key)}</kbd>)}</dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <div class="actions"><button type="button" autofocus onClick={onClose}>{T.common.close}</button></div>
    </Dialog>
  );
}
